"""`/api/knowledge-bases/{id}/tree`: a window of a base's tree, at any offset of 100,000 rows at the same cost."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from gristmill import catalog
from gristmill.catalog import ItemId, ItemStatus, SortKey, TreeFilter, TreeOrder
from gristmill.operations import guards
from gristmill.server.api.context import CurrentContext, CurrentViewer, PathBase
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import Limit
from gristmill.server.api.schemas.tree import TreeOut, TreeRowOut

router = ApiRouter("/api", tag="items")

_MAX_OFFSET = 10_000_000  # more rows than a base can have, and within the range of a PostgreSQL integer


@router.get("/knowledge-bases/{base_id}/tree")
async def show_tree(
    base_id: PathBase,
    context: CurrentContext,
    viewer: CurrentViewer,
    parent_id: Annotated[UUID | None, Query(alias="parentId")] = None,
    status: Annotated[list[ItemStatus] | None, Query(max_length=10)] = None,
    q: Annotated[str | None, Query(max_length=500)] = None,
    ids: Annotated[list[UUID] | None, Query(max_length=100)] = None,
    leaves: bool = False,
    type: Annotated[list[str] | None, Query(max_length=10)] = None,  # noqa: A002
    tag: Annotated[str | None, Query(max_length=60)] = None,
    sort: SortKey | None = None,
    descending: bool = False,
    offset: Annotated[int, Query(ge=0, le=_MAX_OFFSET)] = 0,
    limit: Limit = 100,
) -> TreeOut:
    """Show a window of the roots; of the children of `parentId`; or, with `status`, `q`, `ids`, `leaves`, `type` or `tag`, of all
    items that match. In the order they were added, or of the column `sort`; items that lack it come last."""
    selection = TreeFilter(
        parent=ItemId(parent_id) if parent_id else None,
        statuses=[str(value) for value in status or ()],
        title=q,
        ids=[ItemId(value) for value in ids or ()],
        leaves=leaves,
        types=type or (),
        tag=tag,
    )
    async with context.db.connection() as tx:
        await guards.require_base(tx, base_id, viewer)
        rows, total = await catalog.tree_window(
            tx,
            base_id,
            selection,
            offset=offset,
            limit=limit,
            order=TreeOrder(sort, descending),
            viewer=viewer,
        )
    return TreeOut(items=[TreeRowOut.from_item(item) for item in rows], offset=offset, total=total)
