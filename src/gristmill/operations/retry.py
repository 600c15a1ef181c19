"""retry: give a dead job its attempts back, and show what it is about as being worked on again.

One transaction: the job is queued and its item active, or neither. Not while another job lives under the same
key, and not when the item no longer wants what the job would do.
"""

from uuid import UUID

from gristmill import catalog, events, jobs
from gristmill.catalog import BaseId, ItemId, ItemStatus
from gristmill.db import Database
from gristmill.errors import Conflict, NotFound
from gristmill.jobs import JobId, Shown
from gristmill.work import OF_NO_BASE, CheckFileProcessing, IndexDocument, PrepareRoot

_STAGES = {
    IndexDocument.kind: ItemStatus.PROCESSING,
    CheckFileProcessing.kind: ItemStatus.PROCESSING,
    PrepareRoot.kind: ItemStatus.PREPARING,
}


async def retry(db: Database, job_id: JobId) -> Shown:
    """dead → queued."""
    async with db.transaction() as tx:
        job = await jobs.find_job(tx, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.", code="job_not_found")
        of_base = job.kind not in OF_NO_BASE
        if of_base and await catalog.take_turn(tx, BaseId(UUID(job.lane))) is None:
            raise Conflict("The base is being deleted: there is nothing to retry.", code="job_outdated")
        if not await jobs.revive(tx, [job_id]):
            raise Conflict(f"The job is {job.state}; only a dead one can be retried.", code="job_not_dead")
        if job.kind in _STAGES and job.subject is not None:
            item_id, version = ItemId(job.subject), int(job.payload["version"])
            if await catalog.set_stage(tx, item_id, version, _STAGES[job.kind]):
                await catalog.settle_above(tx, [item_id])
                await events.work_began(tx, BaseId(UUID(job.lane)))
            else:
                raise Conflict(
                    "The item was deleted, or has been indexed since: there is nothing to retry.",
                    code="job_outdated",
                )
        found = await jobs.find_job(tx, job_id)
    assert found is not None
    return found
