"""retry: give a dead job its attempts back, and make its item active again.

One transaction: the job is queued and its item active, or neither. Refused while another job with the same key lives, and when
the item no longer wants what the job would make. `retry_all` retries one job per transaction: killed in the middle, some are
queued, and the others stay dead.
"""

from uuid import UUID

from gristmill import catalog, jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database
from gristmill.errors import Conflict, NotFound
from gristmill.identity import OrgId
from gristmill.jobs import JobId, JobRecord
from gristmill.work import KINDS_WITHOUT_BASE, CheckFileProcessing, IndexDocument, PrepareRoot

_ITEM_JOB_KINDS = (IndexDocument.kind, CheckFileProcessing.kind, PrepareRoot.kind)
_BATCH_SIZE = 500  # dead jobs that one query lists


async def retry_all(db: Database, org: OrgId, base_id: BaseId | None = None) -> int:
    """Retry all jobs that are dead now and whose work is still wanted; how many."""
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
                continue  # another request retried it first, or its work is no longer wanted
        if len(dead_jobs) < _BATCH_SIZE:
            return retried
        before = dead_jobs[-1].id


async def retry(db: Database, job_id: JobId) -> JobRecord:
    """Queue a dead job again."""
    async with db.transaction() as tx:
        job = await jobs.find_job(tx, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.", code="job_not_found")
        has_base = job.kind not in KINDS_WITHOUT_BASE
        if has_base and await catalog.lock_base(tx, BaseId(UUID(job.lane))) is None:
            raise Conflict("The base is being deleted: there is nothing to retry.", code="job_outdated")
        if not await jobs.retry_dead(tx, [job_id]):
            raise Conflict(f"The job is {job.state}. Only a dead job can be retried.", code="job_not_dead")
        if job.kind in _ITEM_JOB_KINDS and job.subject is not None:
            item_id, version = ItemId(job.subject), int(job.payload["version"])
            if not await catalog.requeue_version(tx, item_id, version):
                raise Conflict(
                    "The item was deleted or indexed since: there is nothing to retry.", code="job_outdated"
                )
            await catalog.derive_statuses_above(tx, [item_id])
            await catalog.mark_base_busy(tx, BaseId(UUID(job.lane)))
        retried_job = await jobs.find_job(tx, job_id)
    assert retried_job is not None
    return retried_job
