"""cancel: stop a job, and say so on what it is about.

One transaction, in the base's turn. The item is settled here, whatever becomes of the job: it no longer wants the
version that the job makes, so that a job which is only told to stop, or stops too late, changes nothing any more; what
it wrote so far is gone.
A deletion can't be cancelled: what it is about is hidden for good.
"""

from uuid import UUID

from gristmill import catalog, events, jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database
from gristmill.errors import Conflict, NotFound
from gristmill.events import ItemFailed
from gristmill.jobs import JobId, JobRecord
from gristmill.operations.assets import announce_analysis_done
from gristmill.operations.conversions import cancel_conversions
from gristmill.operations.invariants import queries
from gristmill.work import (
    KINDS_WITHOUT_BASE,
    AnalyseAssets,
    CheckFileProcessing,
    DeleteBase,
    DeleteSubtree,
    IndexDocument,
    PrepareRoot,
)

_ITEM_JOB_KINDS = (IndexDocument.kind, PrepareRoot.kind, CheckFileProcessing.kind)


async def cancel(db: Database, job_id: JobId) -> JobRecord:
    """queued | delayed → cancelled; a running job is told, and stops at its next edge."""
    async with db.transaction() as tx:
        job = await jobs.find_job(tx, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.", code="job_not_found")
        if job.kind in (DeleteSubtree.kind, DeleteBase.kind):
            raise Conflict("A deletion can't be cancelled.", code="job_not_cancellable")
        if job.kind in KINDS_WITHOUT_BASE:
            raise Conflict(
                "This job can't be cancelled by itself. To stop a webhook, pause it; to stop a sync, cancel it at its "
                "connector.",
                code="job_not_cancellable",
            )
        await catalog.lock_base(tx, BaseId(UUID(job.lane)))
        cancelled = await jobs.cancel(tx, [job_id])
        if cancelled.removed + cancelled.signalled == 0:
            raise Conflict(f"The job is {job.state}: there is nothing to cancel.", code="job_not_active")
        if job.kind in _ITEM_JOB_KINDS and job.subject is not None:
            message = "Cancelled before it was searchable."
            item_id, base_id = ItemId(job.subject), BaseId(UUID(job.lane))
            await cancel_conversions(tx, [item_id])
            if await catalog.abandon(tx, item_id, code="cancelled", message=message):
                await queries.run(tx, "drop_unpublished", base=base_id, item=item_id)
                version = int(job.payload["version"])
                await events.record(tx, ItemFailed(base_id, item_id, version, "cancelled", message))
                await events.announce_ready(tx, [base_id])
        if job.kind == AnalyseAssets.kind and job.subject is not None:
            item_id, version = ItemId(job.subject), int(job.payload["version"])
            await catalog.fail_assets(tx, item_id, version, "cancelled", "Cancelled before it was described.")
            await announce_analysis_done(tx, BaseId(UUID(job.lane)), item_id, version)
        cancelled_job = await jobs.find_job(tx, job_id)
    assert cancelled_job is not None
    return cancelled_job
