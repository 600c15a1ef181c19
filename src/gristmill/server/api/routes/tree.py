"""`/api/knowledge-bases/{id}/tree`: a window of a base's tree, for those who show it. Anywhere in 100,000 rows alike."""

from typing import Annotated, Self
from uuid import UUID

from fastapi import APIRouter, Query

from gristmill import catalog
from gristmill.catalog import ItemId, ItemStatus, TreeFilter, TreeRow
from gristmill.operations import guards
from gristmill.server.api.context import CurrentContext, CurrentViewer, PathBase
from gristmill.server.api.routes.item import ItemOut
from gristmill.server.api.schemas.common import ApiModel, Limit

router = APIRouter(tags=["items"])

_MAX_OFFSET = 10_000_000  # more rows than a base can have; beyond it the database's numbers end


class Row(ItemOut):
    """An item in its place: how many are right below it, and the titles above it, the outermost first."""

    child_count: int
    path: list[str]

    @classmethod
    def from_item(cls, item: TreeRow) -> Self:
        """Show `item`."""
        return cls(**dict(ItemOut.of(item)), child_count=item.child_count, path=item.path)


class Rows(ApiModel):
    """A window: its rows, where it begins, and over how many it can be moved."""

    items: list[Row]
    offset: int
    total: int


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
    offset: Annotated[int, Query(ge=0, le=_MAX_OFFSET)] = 0,
    limit: Limit = 100,
) -> Rows:
    """A window of the roots, or with `parentId` of its children; with `status`, `q`, `ids` or `leaves` of all that fits."""
    selection = TreeFilter(
        parent=ItemId(parent_id) if parent_id else None,
        statuses=[str(value) for value in status or ()],
        title=q,
        ids=[ItemId(value) for value in ids or ()],
        leaves=leaves,
    )
    async with context.db.connection() as tx:
        await guards.require_base(tx, base_id, viewer)
        rows, total = await catalog.tree_window(
            tx, base_id, selection, offset=offset, limit=limit, viewer=viewer
        )
    return Rows(items=[Row.from_item(item) for item in rows], offset=offset, total=total)
