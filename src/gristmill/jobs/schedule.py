"""Schedules: rows that enqueue a job at the times of a cron expression.

Each firing is one transaction: the job and the next due time together. The row is locked meanwhile, so that any number of
workers fire it once; the others skip it. After a downtime a schedule fires once for all missed times, then continues from
the present. Times are UTC, by the database's clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from gristmill.db import Tx
from gristmill.errors import Invalid
from gristmill.jobs import store
from gristmill.jobs.job import Priority, Work


@dataclass(frozen=True)
class Schedule:
    """A job that is enqueued at the times of `cron`."""

    name: str
    cron: str
    work: Work
    lane: str
    priority: Priority | None = None


def next_time(cron: str, after: datetime) -> datetime:
    """The first time of `cron` after an instant; Invalid when it is not a cron expression."""
    try:
        return next(CronSim(cron, after.astimezone(UTC)))
    except CronSimError as error:
        raise Invalid(f"{cron!r} is not a cron expression: {error}.", code="invalid_cron") from None
    except StopIteration:
        raise Invalid(f"{cron!r} has no time that ever occurs.", code="invalid_cron") from None


async def put_schedules(tx: Tx, *schedules: Schedule) -> None:
    """Create or change schedules; one whose cron stays the same keeps its next time."""
    now = await store.now(tx)
    for schedule in schedules:
        await store.queries.run(
            tx,
            "put_schedule",
            name=schedule.name,
            cron=schedule.cron,
            next_at=next_time(schedule.cron, now),
            kind=schedule.work.kind,
            lane=schedule.lane,
            priority=int(schedule.work.priority if schedule.priority is None else schedule.priority),
            attempts=schedule.work.attempts,
            key=schedule.work.key(),
            subject=schedule.work.subject(),
            payload=schedule.work.payload(),
        )


async def remove_schedules(tx: Tx, names: Sequence[str]) -> None:
    """Delete schedules; the jobs that they have enqueued stay."""
    await store.queries.run(tx, "remove_schedules", names=list(names))


@dataclass(frozen=True)
class _DueSchedule:
    """A schedule whose time has come, locked until the transaction ends."""

    name: str
    cron: str
    now: datetime


async def fire_due(tx: Tx) -> int:
    """Enqueue the jobs that are due; how many schedules fired."""
    fired = 0
    while True:
        async with tx.transaction():
            due = await store.queries.maybe(tx, _DueSchedule, "lock_due_schedule")
            if due is None:
                return fired
            next_at = next_time(due.cron, due.now)
            await store.queries.values(tx, "fire_schedule", name=due.name, next_at=next_at)
            fired += 1
