"""The moves of a job, one function each, in the caller's transaction.

Every move of a running job takes its lease; `LeaseLost` means that the caller's transaction must not
commit, and raising it through the transaction's block is what rolls it back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.db import Queries, Tx
from gristmill.errors import GristmillError, LeaseLost
from gristmill.jobs.job import Band, Enqueued, Job, JobId, NewJob

queries = Queries(__package__ or "gristmill.jobs")


async def enqueue(tx: Tx, *new: NewJob) -> list[Enqueued]:
    """Queue jobs in the caller's transaction; for each, in order, the job that now lives."""
    if not new:
        return []
    return await queries.many(
        tx,
        Enqueued,
        "enqueue",
        kinds=[job.work.kind for job in new],
        lanes=[job.lane for job in new],
        bands=[int(job.work.band if job.band is None else job.band) for job in new],
        workloads=[job.workload for job in new],
        keys=[job.work.key() for job in new],
        subjects=[job.work.subject() for job in new],
        payloads=[Jsonb(job.work.payload()) for job in new],
        attempts=[job.work.attempts for job in new],
        delays=[job.delay for job in new],
    )


async def fence(tx: Tx, job: Job) -> None:
    """Prove that `job` is still ours, and keep it so until the transaction ends."""
    if not await queries.values(tx, "fence", id=job.id, lease=job.lease):
        raise LeaseLost(f"job {job.id} is no longer ours")


async def complete(tx: Tx, job: Job) -> None:
    """running → done, in the transaction that writes the job's results."""
    if not await queries.values(tx, "complete", ids=[job.id], leases=[job.lease]):
        raise LeaseLost(f"job {job.id} is no longer ours")
    job.settled.append("done")


async def complete_all(tx: Tx, jobs: Iterable[Job]) -> None:
    """running → done, for those of `jobs` that are still ours."""
    jobs = list(jobs)
    await queries.values(tx, "complete", ids=[job.id for job in jobs], leases=[job.lease for job in jobs])


@dataclass(frozen=True)
class _Moved:
    lane: str
    band: int
    state: str


async def postpone(
    tx: Tx, job: Job, delay: timedelta, *, counted: bool, error: GristmillError | None
) -> None:
    """running → delayed, or queued when `delay` is zero."""
    moved = await queries.maybe(
        tx, _Moved, "postpone", id=job.id, lease=job.lease, delay=delay, counted=counted, error=_told(error)
    )
    if moved is None:
        raise LeaseLost(f"job {job.id} is no longer ours")
    if moved.state == "queued":
        await _wake(tx, [(moved.lane, moved.band)])


async def bury(tx: Tx, job: Job, error: GristmillError) -> None:
    """running → dead."""
    if not await queries.values(tx, "bury", id=job.id, lease=job.lease, error=_told(error)):
        raise LeaseLost(f"job {job.id} is no longer ours")


async def withdraw(tx: Tx, job: Job) -> None:
    """running → cancelled, once its worker has stopped it."""
    await queries.values(tx, "withdraw", id=job.id, lease=job.lease)


@dataclass(frozen=True)
class Cancelled:
    """How many jobs were removed from the queue, and how many that run were told to stop."""

    removed: int
    told: int


async def cancel(tx: Tx, ids: Sequence[JobId]) -> Cancelled:
    """Cancel these jobs: waiting ones are gone with this transaction, running ones are told."""
    return await queries.one(tx, Cancelled, "cancel", ids=list(ids))


async def cancel_about(tx: Tx, subjects: Sequence[UUID]) -> Cancelled:
    """Cancel every living job about these subjects."""
    return await cancel(tx, await queries.values(tx, "of_subjects", subjects=list(subjects)))


async def claim(
    tx: Tx, worker: UUID, *, limit: int, general: int, lane_cap: int, global_cap: int | None
) -> list[Job]:
    """queued → running, for up to `limit` jobs, at most `general` of them not interactive."""
    return await queries.many(
        tx,
        Job,
        "claim",
        worker=worker,
        limit=limit,
        general=general,
        lane_cap=lane_cap,
        global_cap=global_cap,
    )


async def enrol(tx: Tx, worker: UUID, info: dict[str, Any], lease: timedelta) -> None:
    """Join as a worker."""
    await queries.run(tx, "enrol", worker=worker, info=Jsonb(info), lease=lease)


async def leave(tx: Tx, worker: UUID) -> int:
    """Leave: what the worker still runs returns to the queue at once, uncounted; how many jobs that were."""
    lanes: list[_Lane] = await queries.many(tx, _Lane, "release_all", worker=worker)
    await queries.run(tx, "leave", worker=worker)
    await _wake(tx, [(row.lane, row.band) for row in lanes])
    return len(lanes)


@dataclass(frozen=True)
class _Lane:
    lane: str
    band: int


async def beat(tx: Tx, worker: UUID, lease: timedelta) -> bool:
    """Renew every lease of `worker`; False when it was declared gone."""
    return bool(await queries.values(tx, "beat", worker=worker, lease=lease))


async def cancelling(tx: Tx, worker: UUID) -> set[JobId]:
    """Those of the worker's jobs that were cancelled."""
    return set(await queries.values(tx, "cancelling", worker=worker))


@dataclass(frozen=True)
class Tick:
    """What a tick moved, and how long until the next job is due."""

    promoted: int
    expired: int
    next_in: timedelta | None


async def tick(tx: Tx) -> Tick:
    """Promote due jobs, and return the jobs of workers that are gone."""
    return await queries.one(tx, Tick, "tick")


async def sweep(tx: Tx, retention: timedelta) -> int:
    """Forget finished jobs that are older than `retention`; how many, at most a batch."""
    return await queries.run(tx, "sweep", retention=retention)


@dataclass(frozen=True)
class _Count:
    state: str
    count: int


async def counts(tx: Tx, lane: str | None = None) -> dict[str, int]:
    """Living jobs by state, of one lane or of all."""
    return {row.state: row.count for row in await queries.many(tx, _Count, "counts", lane=lane)}


async def rate_per_minute(tx: Tx, lane: str | None = None) -> int:
    """Jobs done in the last minute."""
    return (await queries.values(tx, "recent_done", lane=lane))[0]


async def _wake(tx: Tx, moved: Sequence[tuple[str, int]]) -> None:
    if moved:
        lanes = sorted({lane for lane, _ in moved})
        urgent = sorted({lane for lane, band in moved if band == Band.INTERACTIVE})
        await queries.run(tx, "wake_lanes", lanes=lanes, urgent=urgent)
        await queries.run(tx, "notify")


def _told(error: GristmillError | None) -> Jsonb | None:
    return None if error is None else Jsonb({"code": error.code, "message": error.message})
