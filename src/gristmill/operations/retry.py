"""retry: give a dead job its attempts back, and show what it is about as being worked on again.

One transaction: the job is queued and its item active, or neither. Not while another job lives under the same
key, and not when the item no longer wants what the job would do. Of many, each is retried or left by itself: killed in the
middle, some are queued, and the others are dead as before.
"""

from uuid import UUID

from gristmill import catalog, events, jobs
from gristmill.catalog import BaseId, ItemId, ItemStatus
from gristmill.db import Database
from gristmill.errors import Conflict, NotFound
from gristmill.jobs import JobId, JobRecord
from gristmill.organisation import OrgId
from gristmill.work import KINDS_WITHOUT_BASE, CheckFileProcessing, IndexDocument, PrepareRoot

_RETRY_STATUSES = {
    IndexDocument.kind: ItemStatus.PROCESSING,
    CheckFileProcessing.kind: ItemStatus.PROCESSING,
    PrepareRoot.kind: ItemStatus.PREPARING,
}
_BATCH_SIZE = 500  # dead jobs that are looked at together


async def retry_all(db: Database, org: OrgId, base_id: BaseId | None = None) -> int:
    """dead → queued, for all that are dead now and whose work is still wanted; how many."""
    retried, before = 0, None
    while True:
        async with db.connection() as tx:
            dead_jobs = await jobs.find_jobs(
                tx,
                limit=_BATCH_SIZE,
                before=before,
                state="dead",
                lane=None if base_id is None else str(base_id),
                org=org,
            )
        for job in dead_jobs:
            try:
                await retry(db, job.id)
                retried += 1
            except (Conflict, NotFound):
                continue  # somebody was quicker, or nobody wants it any more
        if len(dead_jobs) < _BATCH_SIZE:
            return retried
        before = dead_jobs[-1].id


async def retry(db: Database, job_id: JobId) -> JobRecord:
    """dead → queued."""
    async with db.transaction() as tx:
        job = await jobs.find_job(tx, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.", code="job_not_found")
        has_base = job.kind not in KINDS_WITHOUT_BASE
        if has_base and await catalog.lock_base(tx, BaseId(UUID(job.lane))) is None:
            raise Conflict("The base is being deleted: there is nothing to retry.", code="job_outdated")
        if not await jobs.retry_dead(tx, [job_id]):
            raise Conflict(f"The job is {job.state}; only a dead one can be retried.", code="job_not_dead")
        if job.kind in _RETRY_STATUSES and job.subject is not None:
            item_id, version = ItemId(job.subject), int(job.payload["version"])
            if await catalog.resume_version(tx, item_id, version, _RETRY_STATUSES[job.kind]):
                await catalog.derive_statuses_above(tx, [item_id])
                await events.mark_base_busy(tx, BaseId(UUID(job.lane)))
            else:
                raise Conflict(
                    "The item was deleted, or has been indexed since: there is nothing to retry.",
                    code="job_outdated",
                )
        retried_job = await jobs.find_job(tx, job_id)
    assert retried_job is not None
    return retried_job
