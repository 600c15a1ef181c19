"""cancel: stop a job, and fail the item that it works on.

One transaction, under the base's lock. The item is failed here, whatever becomes of the job: it no longer wants the version that
the job makes, so a job that stops late changes nothing any more, and the chunks that it wrote are deleted. A deletion can't be
cancelled, because its items are hidden for good.
"""

from collections.abc import Sequence
from uuid import UUID

from gristmill import catalog, contents, events, jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database, Tx
from gristmill.errors import Conflict, NotFound
from gristmill.events import ItemFailed
from gristmill.jobs import JobId, JobRecord, NewJob
from gristmill.operations.assets import announce_analysis_done
from gristmill.search import publish
from gristmill.work import (
    KINDS_WITHOUT_BASE,
    AnalyseAssets,
    CancelConversion,
    CheckFileProcessing,
    DeleteBase,
    DeleteSubtree,
    IndexDocument,
    PrepareRoot,
)

CONVERSIONS_LANE = "conversions"
_ITEM_JOB_KINDS = (IndexDocument.kind, PrepareRoot.kind, CheckFileProcessing.kind)


async def cancel(db: Database, job_id: JobId) -> JobRecord:
    """Cancel a queued or delayed job; signal a running one, which stops at its next await."""
    async with db.transaction() as tx:
        job = await jobs.find_job(tx, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.", code="job_not_found")
        _require_cancellable(job)
        base_id = BaseId(UUID(job.lane))
        await catalog.lock_base(tx, base_id)
        cancelled = await jobs.cancel(tx, [job_id])
        if cancelled.removed + cancelled.signalled == 0:
            raise Conflict(f"The job is {job.state}: there is nothing to cancel.", code="job_not_active")
        if job.kind in _ITEM_JOB_KINDS and job.subject is not None:
            await _abandon_item(tx, base_id, ItemId(job.subject), int(job.payload["version"]))
        if job.kind == AnalyseAssets.kind and job.subject is not None:
            item_id, version = ItemId(job.subject), int(job.payload["version"])
            await contents.fail_assets(
                tx, item_id, version, "cancelled", "Cancelled before it was described."
            )
            await announce_analysis_done(tx, base_id, item_id, version)
        cancelled_job = await jobs.find_job(tx, job_id)
    assert cancelled_job is not None
    return cancelled_job


def _require_cancellable(job: JobRecord) -> None:
    if job.kind in (DeleteSubtree.kind, DeleteBase.kind):
        raise Conflict("A deletion can't be cancelled.", code="job_not_cancellable")
    if job.kind in KINDS_WITHOUT_BASE:
        raise Conflict(
            "This job can't be cancelled by itself. To stop a webhook, pause the webhook; to stop a sync, cancel it on "
            "its connector.",
            code="job_not_cancellable",
        )


async def _abandon_item(tx: Tx, base_id: BaseId, item_id: ItemId, version: int) -> None:
    message = "Cancelled before it was searchable."
    await cancel_conversions(tx, [item_id])
    if await catalog.abandon(tx, item_id, code="cancelled", message=message):
        await publish.discard_unpublished(tx, base_id, item_id)
        await jobs.dismiss_dead_by_subject(tx, [item_id])
        await events.record(tx, ItemFailed(base_id, item_id, version, "cancelled", message))
        await events.announce_ready(tx, [base_id])


async def abandon_items(tx: Tx, base_id: BaseId, ids: Sequence[ItemId]) -> None:
    """Cancel the jobs of these items of a locked base, and fail those that are not finished."""
    await jobs.cancel_by_subject(tx, ids)
    for item in await catalog.find_items(tx, ids):
        await _abandon_item(tx, base_id, item.id, item.wanted_version)


async def cancel_conversions(tx: Tx, ids: Sequence[ItemId], *, notify: bool = True) -> int:
    """Drop the conversions of these items, and queue a job for each that cancels it at its file processor; how many."""
    dropped = await contents.drop_conversions(tx, ids)
    cancellations = [
        CancelConversion(row.processor, row.remote_id) for row in dropped if row.remote_id is not None
    ]
    if notify:
        await jobs.enqueue(
            tx, *(NewJob(cancellation, lane=CONVERSIONS_LANE) for cancellation in cancellations)
        )
    return len(dropped)
