"""`/api/knowledge-items/{id}/assets`: the images and tables of an item, their descriptions and their bytes."""

from typing import Annotated

from fastapi import Path
from fastapi.responses import StreamingResponse

from gristmill import contents
from gristmill.errors import Conflict, NotFound
from gristmill.operations import assets, guards
from gristmill.server.api.context import CurrentContext, CurrentViewer, PathItem
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.assets import AnalyseOut, AssetOut
from gristmill.server.api.schemas.common import Limit, Page, page_of

router = ApiRouter("/api/knowledge-items", tag="items")


@router.get("/{item_id}/assets")
async def list_assets(
    item_id: PathItem, context: CurrentContext, viewer: CurrentViewer, limit: Limit = 100, cursor: int = 0
) -> Page[AssetOut]:
    """List the images and tables of the live version, in document order."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id, viewer)
        item_assets = await contents.live_assets(tx, item.id, limit=limit, after=cursor)
    return page_of(item_assets, limit, AssetOut.of, cursor=lambda asset: asset.number)


@router.get("/{item_id}/assets/{asset_hash}")
async def get_asset(
    item_id: PathItem,
    asset_hash: Annotated[str, Path(pattern="^[0-9a-f]{64}$")],
    context: CurrentContext,
    viewer: CurrentViewer,
) -> StreamingResponse:
    """Download an image. Tables have no bytes of their own: they are part of the content."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id, viewer)
        item_assets = await contents.live_assets(tx, item.id, digest=bytes.fromhex(asset_hash))
        blob = item_assets[0].blob_hash if item_assets else None
        name = await contents.blob_name(tx, blob) if blob is not None else None
    if not item_assets:
        raise NotFound(
            f"The item has no image or table {asset_hash}. List its assets to see the current ones.",
            code="asset_not_found",
        )
    if name is None:
        raise Conflict(
            "Tables can't be downloaded. Read the table in the content of the item.", code="no_original"
        )
    # As a page it is always a download: a browser would run the scripts of an SVG. In an <img> they never run.
    headers = {
        "Content-Disposition": "attachment",
        "Content-Length": str(item_assets[0].size),
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, max-age=3600",
    }
    return StreamingResponse(
        context.sources.blobs.read(name), media_type=item_assets[0].media_type, headers=headers
    )


@router.post("/{item_id}/assets/analyse", status_code=202)
async def analyse_assets(item_id: PathItem, context: CurrentContext) -> AnalyseOut:
    """Describe those images again whose description failed. The describing model charges for it again."""
    return AnalyseOut(job_id=await assets.analyse(context.db, item_id))
