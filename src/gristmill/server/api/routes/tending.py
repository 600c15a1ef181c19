"""`/api/knowledge-bases/{id}/items/move`, `/items/tag` and `/tags`: what people change about many items at once."""

from gristmill import catalog
from gristmill.catalog import BaseId, ItemId, TagCount
from gristmill.operations import guards, move, tag
from gristmill.server.api.authorise import check_sees_whole_base
from gristmill.server.api.context import CurrentCaller, CurrentContext, CurrentViewer, PathBase
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.items import AcceptedOut
from gristmill.server.api.schemas.new_items import MovedSelection, TaggedSelection
from gristmill.server.api.schemas.tending import TaggedOut, TagOut, TagsOut
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
            await check_sees_whole_base(tx, caller, to_base)
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


@router.get("/knowledge-bases/{base_id}/tags")
async def list_tags(base_id: PathBase, context: CurrentContext, viewer: CurrentViewer) -> TagsOut:
    """List the tags of a base and how many items have each, the most frequent first, at most 500."""
    async with context.db.connection() as tx:
        await guards.require_base(tx, base_id, viewer)
        counts = await catalog.count_tags(tx, base_id, viewer)
    return TagsOut(items=[_show(count) for count in counts])


def _show(count: TagCount) -> TagOut:
    return TagOut(tag=count.tag, items=count.items)
