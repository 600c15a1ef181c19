"""The transitions of a job, one function each, in the caller's transaction.

Every transition of a running job proves its lease. `LeaseLost` means that the caller's transaction must not commit; raising
it through the transaction's block rolls it back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.db import Queries, Tx
from gristmill.errors import GristmillError, LeaseLost
from gristmill.identity import OrgId
from gristmill.jobs import retry
from gristmill.jobs.job import Job, JobId

queries = Queries(__package__ or "gristmill.jobs")


async def fence(tx: Tx, job: Job) -> None:
    """Prove that `job` is still ours, and lock it until the transaction ends."""
    if not await queries.values(tx, "fence", id=job.id, lease=job.lease):
        raise LeaseLost(f"job {job.id} is no longer ours")


async def fence_all(tx: Tx, jobs: Sequence[Job]) -> set[JobId]:
    """The jobs that are still ours; they are locked until the transaction ends."""
    ids, leases = [job.id for job in jobs], [job.lease for job in jobs]
    return set(await queries.values(tx, "fence_all", ids=ids, leases=leases))


async def reset_attempts(tx: Tx, jobs: Sequence[Job]) -> None:
    """Count the attempts of jobs that made progress from one again: the limit is for what is left of their work."""
    retried = [job for job in jobs if job.attempt > 1]
    if retried:
        await queries.run(tx, "reset_attempts", ids=[job.id for job in retried])
        for job in retried:
            job.attempt = 1


async def complete_all(tx: Tx, jobs: Sequence[Job]) -> None:
    """running → done, for jobs that the transaction has proved to be ours."""
    ids, leases = [job.id for job in jobs], [job.lease for job in jobs]
    if len(await queries.values(tx, "complete", ids=ids, leases=leases)) != len(jobs):
        raise LeaseLost("a job is no longer ours")
    for job in jobs:
        job.completed = True


async def save_result(tx: Tx, job: Job, result: dict[str, Any]) -> None:
    """Save what the job reports so far, in the transaction that makes it true."""
    if not await queries.values(tx, "save_result", id=job.id, lease=job.lease, result=Jsonb(result)):
        raise LeaseLost(f"job {job.id} is no longer ours")


async def load_result(tx: Tx, job: Job) -> dict[str, Any]:
    """What the job reported in an earlier attempt."""
    results = await queries.values(tx, "load_result", id=job.id)
    return (results[0] if results else None) or {}


async def complete(tx: Tx, job: Job) -> None:
    """running → done, in the transaction that writes the job's results."""
    if not await queries.values(tx, "complete", ids=[job.id], leases=[job.lease]):
        raise LeaseLost(f"job {job.id} is no longer ours")
    job.completed = True


async def postpone(
    tx: Tx, job: Job, delay: timedelta, *, counted: bool, error: GristmillError | None
) -> None:
    """running → delayed, or queued when `delay` is zero; cancelled if that was requested meanwhile."""
    if not await queries.values(
        tx,
        "postpone",
        id=job.id,
        lease=job.lease,
        delay=delay,
        counted=counted,
        error=_error_json(error, job),
    ):
        raise LeaseLost(f"job {job.id} is no longer ours")


async def bury(tx: Tx, job: Job, error: GristmillError) -> None:
    """running → dead; cancelled if that was requested meanwhile, as by the deletion of its subject. A dead job takes the
    place of older dead jobs of its kind about the same subject."""
    if await queries.values(tx, "finish_requested_cancel", id=job.id, lease=job.lease):
        return
    if not await queries.values(tx, "bury", id=job.id, lease=job.lease, error=_error_json(error, job)):
        raise LeaseLost(f"job {job.id} is no longer ours")


async def finish_cancel(tx: Tx, job: Job) -> None:
    """running → cancelled, once its worker has stopped it."""
    await queries.values(tx, "finish_cancel", id=job.id, lease=job.lease)


@dataclass(frozen=True)
class CancelCounts:
    """How many jobs were removed from the queue, and how many running ones were signalled to stop."""

    removed: int
    signalled: int


async def cancel(tx: Tx, ids: Sequence[JobId]) -> CancelCounts:
    """Cancel these jobs: waiting ones are removed by this transaction, running ones are signalled."""
    return await queries.one(tx, CancelCounts, "cancel", ids=list(ids))


async def cancel_lane(tx: Tx, lane: str) -> CancelCounts:
    """Cancel every living job of a lane."""
    return await cancel(tx, await queries.values(tx, "lane_job_ids", lane=lane))


async def has_other_running_jobs(tx: Tx, job: Job) -> bool:
    """Whether the job's lane runs other jobs too."""
    return (await queries.values(tx, "has_other_running_jobs", lane=job.lane, id=job.id))[0]


async def clear_lane(tx: Tx, lane: str) -> None:
    """Delete a lane and its dead jobs: what it belonged to no longer exists."""
    await queries.run(tx, "clear_lane", lane=lane)


async def cancel_by_subject(tx: Tx, subjects: Sequence[UUID]) -> CancelCounts:
    """Cancel every living job about these subjects."""
    return await cancel(tx, await queries.values(tx, "subject_job_ids", subjects=list(subjects)))


async def delete_dead_by_subject(tx: Tx, subjects: Sequence[UUID]) -> None:
    """Delete the dead jobs about things that no longer exist."""
    await queries.run(tx, "delete_dead_by_subject", subjects=list(subjects))


async def dismiss_dead(tx: Tx, ids: Sequence[JobId]) -> list[JobId]:
    """dead → dismissed; the ids of those that were dead."""
    return await queries.values(tx, "dismiss_dead", ids=list(ids))


async def dismiss_dead_by_subject(tx: Tx, subjects: Sequence[UUID]) -> None:
    """dead → dismissed, for the jobs about things that have newer work, or that no one sees any more."""
    if subjects:
        await queries.values(tx, "dismiss_dead_by_subject", subjects=list(subjects))


async def run_now(tx: Tx, subjects: Sequence[UUID]) -> None:
    """delayed → queued, for every job about these subjects: what they wait for has happened."""
    await queries.run(tx, "run_now", subjects=list(subjects))


async def run_waiting_now(tx: Tx, org: UUID, lane: str | None, code: str) -> None:
    """Run the delayed jobs of an organisation, or of one lane of it, whose last error has this code."""
    await queries.values(tx, "run_waiting_now", org=org, lane=lane, code=code)


async def complete_and_claim(
    tx: Tx,
    worker: UUID,
    finished: Sequence[Job],
    *,
    limit: int,
    non_interactive_limit: int,
    lane_cap: int | None,
    global_cap: int | None,
    lane_room: Mapping[str, int] | None = None,
    interactive_room: Mapping[str, int] | None = None,
    new_lane_room: int | None = None,
) -> list[Job]:
    """Complete the `finished` jobs that are still ours, and claim up to `limit` others, a part of them not interactive. Of each
    lane at most `lane_room` are claimed, and `interactive_room` of its interactive ones; of a lane that is not named there at
    most `new_lane_room`."""
    return await queries.many(
        tx,
        Job,
        "complete_and_claim",
        done=[job.id for job in finished],
        leases=[job.lease for job in finished],
        worker=worker,
        limit=limit,
        general=non_interactive_limit,
        lane_cap=lane_cap,
        global_cap=global_cap,
        lane_room=Jsonb(dict(lane_room or {})),
        interactive_room=Jsonb(dict(interactive_room or {})),
        new_lane_room=limit if new_lane_room is None else new_lane_room,
    )


async def claim_pool(
    tx: Tx, worker: UUID, pool: str, *, limit: int, share: int, running: Sequence[str]
) -> list[Job]:
    """Claim up to `limit` jobs of a pool, for a worker that runs those of the lanes `running`; an organisation runs at most
    `share` of them there."""
    return await queries.many(
        tx, Job, "claim_pool", worker=worker, pool=pool, limit=limit, share=share, running=list(running)
    )


# The advisory locks that living workers hold are (this, the worker's lock_key); "grml" in ASCII.
LOCK_SPACE = 1735551596


async def register_worker(
    tx: Tx, worker: UUID, info: dict[str, Any], lease: timedelta, *, lock_key: int | None = None
) -> None:
    """Register a worker; `lock_key` names the advisory lock that it holds while it lives."""
    await queries.run(tx, "register_worker", worker=worker, info=Jsonb(info), lock_key=lock_key, lease=lease)


async def unregister_worker(tx: Tx, worker: UUID) -> int:
    """Unregister a worker, and requeue the jobs that it still runs without counting the attempt; how many."""
    (released,) = await queries.values(tx, "requeue_all", worker=worker)
    await queries.run(tx, "unregister_worker", worker=worker)
    return released


async def count_workers(tx: Tx) -> int:
    """The number of workers whose lease has not expired."""
    return (await queries.values(tx, "count_workers"))[0]


async def renew_lease(tx: Tx, worker: UUID, lease: timedelta) -> bool:
    """Renew every lease of `worker`; False when it was declared gone."""
    return bool(await queries.values(tx, "renew_lease", worker=worker, lease=lease))


@dataclass(frozen=True)
class RunningJob:
    """A job that the database says a worker runs, and whether it was cancelled."""

    id: JobId
    cancelling: bool


async def running_jobs(tx: Tx, worker: UUID) -> list[RunningJob]:
    """The jobs that the worker runs according to the database."""
    return await queries.many(tx, RunningJob, "running_jobs", worker=worker)


async def requeue_unknown(tx: Tx, worker: UUID, ids: Iterable[JobId]) -> int:
    """running → queued, without counting the attempt, for jobs that their worker does not run; how many."""
    (returned,) = await queries.values(tx, "requeue_unknown", worker=worker, ids=list(ids))
    return returned


@dataclass(frozen=True)
class Tick:
    """How many jobs a tick queued and requeued, and how long until the next job is due."""

    promoted: int
    expired: int
    next_in: timedelta | None


async def tick(tx: Tx) -> Tick:
    """Queue due jobs, and requeue the jobs of workers that are gone."""
    return await queries.one(tx, Tick, "tick")


async def sweep(tx: Tx, retention: timedelta) -> int:
    """Delete finished jobs that are older than `retention`; how many, at most a batch."""
    return await queries.run(tx, "sweep", retention=retention)


async def put_off(tx: Tx, job_id: JobId, delay: timedelta) -> bool:
    """Let a delayed job wait for `delay` from now on; False when its time has come, or it is cancelled."""
    return bool(await queries.values(tx, "put_off", id=job_id, delay=delay))


async def retry_dead(tx: Tx, ids: Sequence[JobId]) -> list[JobId]:
    """dead → queued, with all their attempts again; the ids of those that were dead."""
    return await queries.values(tx, "retry_dead", ids=list(ids))


async def depth(tx: Tx, lane: str | None, limit: int, excluded_kinds: Sequence[str] = ()) -> int:
    """How many jobs of a lane, or of all, are queued or delayed; jobs of `excluded_kinds` don't count. It may stop counting
    at `limit`."""
    return (
        await queries.values(tx, "count_waiting", lane=lane, limit=limit, excluded_kinds=list(excluded_kinds))
    )[0]


async def rate_per_minute(tx: Tx, lane: str | None = None) -> int:
    """Jobs done in the last minute."""
    return (await queries.values(tx, "done_last_minute", lane=lane))[0]


async def active_subjects(tx: Tx, lane: str) -> list[UUID]:
    """The subjects of the running jobs of a lane."""
    return await queries.values(tx, "active_subjects", lane=lane)


@dataclass(frozen=True)
class JobRecord:
    """A job as it is shown to users: living, or finished and kept for a while."""

    id: JobId
    kind: str
    lane: str
    state: str
    priority: int
    subject: UUID | None
    payload: dict[str, Any]
    attempt: int
    max_attempts: int
    errors: list[dict[str, Any]]
    result: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    run_at: datetime | None
    finished_at: datetime | None


async def find_jobs(
    tx: Tx,
    *,
    limit: int,
    before: JobId | None = None,
    state: str | None = None,
    kind: str | None = None,
    lane: str | None = None,
    subject: UUID | None = None,
    org: OrgId | None = None,
) -> list[JobRecord]:
    """Jobs, newest first; with `org`, those of that organisation."""
    return await queries.many(
        tx,
        JobRecord,
        "find_jobs",
        limit=limit,
        before=before,
        state=state,
        kind=kind,
        lane=lane,
        subject=subject,
        org=org,
    )


async def set_lane_owner(tx: Tx, lane: str, org: OrgId) -> None:
    """Record the organisation of a lane, before its first job; the record outlives its jobs."""
    await queries.run(tx, "set_lane_owner", lane=lane, org=org)


async def lane_owner(tx: Tx, lane: str) -> OrgId | None:
    """The organisation of a lane."""
    owners = await queries.values(tx, "lane_owner", lane=lane)
    return owners[0] if owners else None


async def find_job(tx: Tx, job_id: JobId) -> JobRecord | None:
    """One job."""
    return await queries.maybe(tx, JobRecord, "find_job", id=job_id)


async def now(tx: Tx) -> datetime:
    """The database's time."""
    return (await queries.values(tx, "now"))[0]


def _error_json(error: GristmillError | None, job: Job) -> Jsonb | None:
    if error is None:
        return None
    fields: dict[str, object] = {"code": error.code, "message": error.message}
    if (limit := retry.max_attempts(error, job)) < job.max_attempts:
        fields["maxAttempts"] = limit
    return Jsonb(fields)
