"""cancel: stop a job, and say so on what it is about.

One transaction. The item is settled here, whatever becomes of the job: it no longer wants the version that the
job makes, so that a job which is only told to stop, or stops too late, changes nothing any more.
"""

from gristmill import catalog, jobs
from gristmill.catalog import ItemId
from gristmill.db import Database
from gristmill.errors import Conflict, NotFound
from gristmill.jobs import JobId, Shown
from gristmill.work import IndexDocument


async def cancel(db: Database, job_id: JobId) -> Shown:
    """queued | delayed → cancelled; a running job is told, and stops at its next edge."""
    async with db.transaction() as tx:
        cancelled = await jobs.cancel(tx, [job_id])
        found = await jobs.find_job(tx, job_id)
        if found is None:
            raise NotFound(f"There is no job {job_id}.", code="job_not_found")
        if cancelled.removed + cancelled.told == 0:
            raise Conflict(f"The job is {found.state}: there is nothing to cancel.", code="job_not_active")
        if found.kind == IndexDocument.kind and found.subject is not None:
            await catalog.abandon(
                tx, ItemId(found.subject), code="cancelled", message="Cancelled before it was searchable."
            )
    return found
