"""The state of a lane's queue: how many jobs wait, how fast they are done, and whether more are accepted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from gristmill.db import Tx
from gristmill.errors import LimitReached
from gristmill.jobs import job_counts, store
from gristmill.jobs.job import JobState
from gristmill.jobs.lanes import Pace
from gristmill.jobs.lanes import pace as find_paces

RETRY_AFTER = timedelta(seconds=30)


@dataclass(frozen=True)
class QueueStatus:
    """The jobs of one lane; `pace` is None until the first one is done."""

    waiting: int
    running: int
    dead: int
    by_kind: dict[str, int]
    active: list[UUID]
    oldest_queued_at: datetime | None
    rate_per_minute: int
    pace: Pace | None

    @property
    def eta_seconds(self) -> int | None:
        """How long the remaining jobs take, at the pace since the work began."""
        return remaining_seconds(self.waiting + self.running, self.pace)


def remaining_seconds(jobs: int, pace: Pace | None) -> int | None:
    """How long so many jobs take at this pace; None while it is not known."""
    if jobs == 0:
        return 0
    return None if pace is None else pace.seconds_for(jobs)


@dataclass(frozen=True)
class QueueLimits:
    """How many jobs may wait, in one lane and in all."""

    lane: int
    total: int

    def half(self) -> "QueueLimits":
        """Half of it, for callers that wait for room in bulk instead of for every single slot."""
        return QueueLimits(max(1, self.lane // 2), max(1, self.total // 2))


async def check_capacity(tx: Tx, lane: str, more: int, limits: QueueLimits) -> None:
    """Raise LimitReached when `more` jobs in `lane` would be too many. Callers that are serialised per lane never exceed
    its limit; the total over all lanes may be exceeded by what concurrent callers add."""
    for scope, scope_lane, limit in (("this base", lane, limits.lane), ("all bases", None, limits.total)):
        if more + await store.depth(tx, scope_lane, limit) > limit:
            raise LimitReached(
                f"The queue of {scope} is full: at most {limit:,} jobs may wait. Try again when some are done.",
                retry_after=RETRY_AFTER,
                code="queue_full",
            )


async def is_full(tx: Tx, lane: str, limits: QueueLimits, excluded_kinds: Sequence[str] = ()) -> bool:
    """Whether a limit is reached; jobs of `excluded_kinds` don't count."""
    for scope_lane, limit in ((lane, limits.lane), (None, limits.total)):
        if await store.depth(tx, scope_lane, limit, excluded_kinds) >= limit:
            return True
    return False


async def queue_status(tx: Tx, lane: str) -> QueueStatus:
    """The queue of a lane as it is now."""
    counts = await job_counts.counts(tx, lane)
    by_state = Counter[str]()
    for row in counts:
        by_state[row.state] += row.count
    return QueueStatus(
        waiting=by_state[JobState.QUEUED] + by_state[JobState.DELAYED],
        running=by_state[JobState.RUNNING],
        dead=by_state[JobState.DEAD],
        by_kind=_counts_by_kind(counts),
        active=await store.active_subjects(tx, lane),
        oldest_queued_at=await job_counts.oldest_waiting_at(tx, lane),
        rate_per_minute=await store.rate_per_minute(tx, lane),
        pace=(await find_paces(tx, lane)).get(lane),
    )


def _counts_by_kind(counts: Sequence[job_counts.JobCount]) -> dict[str, int]:
    by_kind = Counter[str]()
    for row in counts:
        if row.state != JobState.DEAD:
            by_kind[row.kind] += row.count
    return dict(by_kind)
