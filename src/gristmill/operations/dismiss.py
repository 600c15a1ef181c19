"""dismiss: end a dead job that no one will retry. Its item stays as it is; its history keeps the errors.

One statement. Of two requests at the same time one dismisses the job; so it is with a dismissal and a retry. The item is not
changed: one that failed stays failed, and can be reindexed or deleted; one that has been indexed since stays completed.
"""

from gristmill import jobs
from gristmill.db import Database
from gristmill.errors import Conflict, NotFound
from gristmill.jobs import JobId, JobRecord


async def dismiss(db: Database, job_id: JobId) -> JobRecord:
    """End a dead job."""
    async with db.transaction() as tx:
        is_dismissed = bool(await jobs.dismiss_dead(tx, [job_id]))
        job = await jobs.find_job(tx, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.", code="job_not_found")
        if not is_dismissed:
            raise Conflict(
                f"The job is {job.state}. Only a dead job can be dismissed; cancel one that waits or runs.",
                code="job_not_dead",
            )
    return job
