"""`/api/knowledge-bases/{id}/items/move`, `/items/tag` and `/tags`, and marks of chunks: what people decide about items."""

from uuid import UUID

from gristmill import catalog
from gristmill.catalog import BaseId, ItemId, TagCount
from gristmill.operations import guards, move, tag
from gristmill.operations import mark_chunk as mark_chunk_op
from gristmill.operations import preview_chunks as preview_op
from gristmill.server.api.authorise import check_may_change_base
from gristmill.server.api.context import CurrentCaller, CurrentContext, CurrentViewer, PathBase, PathItem
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.bases import Chunking
from gristmill.server.api.schemas.items import AcceptedOut, ChangedChunk, ChunkOut
from gristmill.server.api.schemas.new_items import MovedSelection, TaggedSelection
from gristmill.server.api.schemas.tending import JobAccepted, TaggedOut, TagOut, TagsOut
from gristmill.server.api.selections import id_batches

router = ApiRouter("/api", tag="items")


@router.post("/knowledge-bases/{base_id}/items/move", status_code=202)
async def move_items(
    base_id: PathBase, body: MovedSelection, context: CurrentContext, caller: CurrentCaller
) -> AcceptedOut:
    """Move items with everything below them under a container, or to the top of a base. Within a base they have moved with the
    response. To another base a job moves them, with their ids; they answer where they are until they answer there."""
    to_base = BaseId(body.to_base_id) if body.to_base_id else None
    if to_base is not None and to_base != base_id:
        async with context.db.connection() as tx:
            await guards.require_base(tx, to_base, caller.viewer)
            await check_may_change_base(tx, caller, to_base)
    accepted = AcceptedOut(root_ids=[], job_id=None)
    for item_ids in await id_batches(context.db, base_id, body):
        moved = await move.move(
            context.db,
            base_id,
            item_ids,
            to_base=to_base,
            parent_id=ItemId(body.parent_id) if body.parent_id else None,
            may_change_access=caller.viewer.is_admin,
        )
        accepted = AcceptedOut(root_ids=[*accepted.root_ids, *moved.root_ids], job_id=moved.job_id)
    return accepted


@router.post("/knowledge-bases/{base_id}/items/tag")
async def tag_items(base_id: PathBase, body: TaggedSelection, context: CurrentContext) -> TaggedOut:
    """Add tags to items and remove others. Tags are `metadata.tags`: searches filter by them from this response on."""
    changed: list[ItemId] = []
    for item_ids in await id_batches(context.db, base_id, body):
        changed += await tag.tag(context.db, base_id, item_ids, body.add, body.remove)
    return TaggedOut(item_ids=list(changed))


@router.patch("/knowledge-items/{item_id}/chunks/{chunk_id}")
async def mark_chunk(
    item_id: PathItem, chunk_id: UUID, body: ChangedChunk, context: CurrentContext
) -> ChunkOut:
    """Disable or pin a chunk, or neither. A disabled chunk never answers; a pinned one comes first in searches that it fits. The mark
    belongs to the chunk's text: it survives a reindex as long as the text is the same."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
    return ChunkOut.of(await mark_chunk_op.mark_chunk(context.db, item.base_id, item.id, chunk_id, body.mark))


@router.post("/knowledge-items/{item_id}/chunks/preview", status_code=202)
async def preview_chunks(item_id: PathItem, body: Chunking, context: CurrentContext) -> JobAccepted:
    """Chunk the beginning of a document in another way, to look at the chunks before the base is changed. The result of the job is the
    preview; nothing of the document changes. Fields that are omitted stay as the base has them, and null means the default."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
        base = await guards.require_base(tx, item.base_id)
        embedder = await context.embedders.find(tx, base.embedder, base.org_id)
    sizes = {name: value or 0 for name, value in body.changes().items()}
    job_id = await preview_op.preview_chunks(
        context.db, item.id, embedder, sizes.get("maxTokens"), sizes.get("overlapTokens")
    )
    return JobAccepted(job_id=job_id)


@router.get("/knowledge-bases/{base_id}/tags")
async def list_tags(base_id: PathBase, context: CurrentContext, viewer: CurrentViewer) -> TagsOut:
    """List the tags of a base and how many items have each, the most frequent first, at most 500."""
    async with context.db.connection() as tx:
        await guards.require_base(tx, base_id, viewer)
        counts = await catalog.count_tags(tx, base_id, viewer)
    return TagsOut(items=[_show(count) for count in counts])


def _show(count: TagCount) -> TagOut:
    return TagOut(tag=count.tag, items=count.items)
