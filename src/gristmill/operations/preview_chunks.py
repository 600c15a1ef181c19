"""preview chunks: have a document chunked in another way, to look at the chunks. Nothing of it changes.

One transaction: lock the base shared → the item must have a text → one job, whose result is the preview.
"""

from gristmill import catalog, jobs
from gristmill.catalog import ItemId
from gristmill.db import Database
from gristmill.embedding import Embedder
from gristmill.errors import Conflict
from gristmill.jobs import JobId, NewJob
from gristmill.operations import guards
from gristmill.operations.bases import check_chunk_size
from gristmill.work import PreviewChunks


async def preview_chunks(
    db: Database, item_id: ItemId, embedder: Embedder, max_tokens: int | None, overlap_tokens: int | None
) -> JobId:
    """Queue the preview; the job whose result it is."""
    check_chunk_size({"maxTokens": max_tokens}, embedder)
    async with db.transaction() as tx:
        item = await guards.require_item(tx, item_id)
        await catalog.lock_base_shared(tx, item.base_id)
        base = await guards.require_base(tx, item.base_id)
        guards.refuse_failed_base(base)
        if item.live_version is None or item.is_container:
            raise Conflict(
                "The item has no text yet. Choose a document that is indexed.", code="item_not_completed"
            )
        work = PreviewChunks(item.id, max_tokens, overlap_tokens)
        (job,) = await jobs.enqueue(tx, NewJob(work, lane=base.lane))
    return job.id
