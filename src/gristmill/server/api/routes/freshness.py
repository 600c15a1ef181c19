"""`/api/knowledge-items/{id}/refresh` and `/api/knowledge-bases/{id}/exclusions`: check sources now, and what listings leave out."""

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from gristmill.catalog import exclusions
from gristmill.connectors import admin
from gristmill.operations import freshness, guards
from gristmill.server.api.context import CurrentContext, PathBase, PathItem
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import Limit, Page, page_of
from gristmill.server.api.schemas.freshness import ExclusionOut, TakenBack

router = ApiRouter("/api", tag="items")


@router.post("/knowledge-items/{item_id}/refresh", status_code=202)
async def refresh_item(item_id: PathItem, context: CurrentContext) -> Response:
    """Check an item's source now, whatever its rule: a page, a file on the disk, a folder, a sitemap or a site. What has changed is
    indexed."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
    await freshness.check_now(context.db, item.id)
    return Response(status_code=202)


@router.get("/knowledge-bases/{base_id}/exclusions")
async def list_exclusions(
    base_id: PathBase,
    context: CurrentContext,
    container_id: Annotated[UUID | None, Query(alias="containerId")] = None,
    limit: Limit = 100,
    cursor: UUID | None = None,
) -> Page[ExclusionOut]:
    """List what someone deleted from folders, sitemaps, sites and connectors, and what their listings therefore leave out."""
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id)
        rows = await exclusions.list_exclusions(
            tx, base.id, limit=limit, after=cursor, container=container_id
        )
    return page_of(rows, limit, ExclusionOut.of)


@router.delete("/knowledge-bases/{base_id}/exclusions")
async def remove_all_exclusions(base_id: PathBase, context: CurrentContext) -> TakenBack:
    """Remove all exclusions of a base. The next check of each container finds the sources again."""
    return TakenBack(removed=len(await freshness.take_back(context.db, base_id, None, admin.forget_records)))


@router.delete("/knowledge-bases/{base_id}/exclusions/{exclusion_id}")
async def remove_exclusion(base_id: PathBase, exclusion_id: UUID, context: CurrentContext) -> TakenBack:
    """Remove one exclusion. The container is checked now, and finds the source again if it is still there."""
    return TakenBack(
        removed=len(await freshness.take_back(context.db, base_id, [exclusion_id], admin.forget_records))
    )
