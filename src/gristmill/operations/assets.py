"""Images of documents: describe failed ones again, and announce that all are described, of a document and of its base.

One transaction, under the base's lock: the failed images wait again and have their job, or nothing happened.
"""

from gristmill import contents, events, jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database, Tx
from gristmill.events import AllAssetsAnalyzed, DocumentIngestionCompleted
from gristmill.jobs import JobId, NewJob
from gristmill.operations import guards
from gristmill.work import AnalyseAssets


async def analyse(db: Database, item_id: ItemId) -> JobId | None:
    """Queue another description of the item's images that failed; the job, None when there are none."""
    async with db.transaction() as tx:
        item = await guards.require_item(tx, item_id)
        base = await guards.lock_open_base(tx, item.base_id)
        reopened = await contents.retry_failed_assets(tx, [item_id])
        if not reopened:
            return None
        (job,) = await jobs.enqueue(tx, NewJob(AnalyseAssets(item_id, reopened[0].version), lane=base.lane))
    return job.id


async def announce_analysis_done(tx: Tx, base_id: BaseId, item_id: ItemId, version: int) -> None:
    """Record the events that follow when no image of a version waits any more, if that just became true."""
    if (summary := await contents.mark_analysed(tx, item_id, version)) is not None:
        await events.record(
            tx,
            AllAssetsAnalyzed(base_id, item_id, version, summary.assets, summary.failed),
            DocumentIngestionCompleted(base_id, item_id, version, tuple(summary.warnings)),
        )
    await events.announce_ready(tx, [base_id])
