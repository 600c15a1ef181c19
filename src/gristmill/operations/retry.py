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
from gristmill.jobs import JobId, Shown
from gristmill.organisation import OrgId
from gristmill.work import OF_NO_BASE, CheckFileProcessing, IndexDocument, PrepareRoot

_STAGES = {
    IndexDocument.kind: ItemStatus.PROCESSING,
    CheckFileProcessing.kind: ItemStatus.PROCESSING,
    PrepareRoot.kind: ItemStatus.PREPARING,
}
_AT_ONCE = 500  # dead jobs that are looked at together


async def retry_all(db: Database, org: OrgId, base_id: BaseId | None = None) -> int:
    """dead → queued, for all that are dead now and whose work is still wanted; how many."""
    retried, before = 0, None
    while True:
        async with db.connection() as tx:
            found = await jobs.find_jobs(
                tx,
                limit=_AT_ONCE,
                before=before,
                state="dead",
                lane=None if base_id is None else str(base_id),
                org=org,
            )
        for job in found:
            try:
                await retry(db, job.id)
                retried += 1
            except (Conflict, NotFound):
                continue  # somebody was quicker, or nobody wants it any more
        if len(found) < _AT_ONCE:
            return retried
        before = found[-1].id


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
