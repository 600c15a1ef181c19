"""`/api/knowledge-items/{id}/assets`: the images and tables of a document, what was said of them, and their bytes."""

from typing import Annotated, Self
from uuid import UUID

from fastapi import APIRouter, Path
from fastapi.responses import StreamingResponse

from gristmill import catalog
from gristmill.catalog import LiveAsset
from gristmill.errors import Conflict, NotFound
from gristmill.operations import assets, guards
from gristmill.server.api.context import CurrentContext, CurrentViewer, PathItem
from gristmill.server.api.schemas.common import ApiModel, ErrorBody, Limit, Page

router = APIRouter(prefix="/knowledge-items", tags=["items"])


class AssetOut(ApiModel):
    """An image or a table of the version that answers. `state` is null where nobody has to say what it shows."""

    hash: str
    kind: str
    media_type: str
    size_bytes: int
    page: int | None
    start: int
    end: int
    caption: str
    state: str | None
    text: str | None
    error: ErrorBody | None

    @classmethod
    def of(cls, asset: LiveAsset) -> Self:
        """Show `asset`."""
        error = (
            ErrorBody(code=asset.error_code, message=asset.error_message or "") if asset.error_code else None
        )
        return cls(
            hash=asset.hash.hex(),
            kind=asset.kind,
            media_type=asset.media_type,
            size_bytes=asset.size,
            page=asset.page,
            start=asset.start,
            end=asset.end,
            caption=asset.caption,
            state="waiting" if asset.state == "asking" else asset.state,
            text=asset.text if asset.state == "described" else None,
            error=error,
        )


class Analysing(ApiModel):
    """The job that describes the images; null when none was given up on."""

    job_id: UUID | None


@router.get("/{item_id}/assets")
async def list_assets(
    item_id: PathItem, context: CurrentContext, viewer: CurrentViewer, limit: Limit = 100, cursor: int = 0
) -> Page[AssetOut]:
    """The images and tables of the version that answers, in the order of the document."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id, viewer)
        item_assets = await catalog.live_assets(tx, item.id, limit=limit, after=cursor)
    next_cursor = str(item_assets[-1].number) if len(item_assets) == limit else None
    return Page(items=[AssetOut.of(asset) for asset in item_assets], next_cursor=next_cursor)


@router.get("/{item_id}/assets/{asset_hash}")
async def get_asset(
    item_id: PathItem,
    asset_hash: Annotated[str, Path(pattern="^[0-9a-f]{64}$")],
    context: CurrentContext,
    viewer: CurrentViewer,
) -> StreamingResponse:
    """The bytes of an image. Tables have none of their own: they stand in the content."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id, viewer)
        item_assets = await catalog.live_assets(tx, item.id, digest=bytes.fromhex(asset_hash))
        blob = item_assets[0].blob_hash if item_assets else None
        name = await catalog.blob_name(tx, blob) if blob is not None else None
    if not item_assets:
        raise NotFound(f"The item has no image or table {asset_hash}.", code="asset_not_found")
    if name is None:
        raise Conflict("A table has no bytes of its own: it stands in the content.", code="no_original")
    # Never shown by a browser as a page: an SVG can hold a script.
    headers = {"Content-Disposition": "attachment", "Content-Length": str(item_assets[0].size)}
    return StreamingResponse(
        context.sources.blobs.read(name), media_type=item_assets[0].media_type, headers=headers
    )


@router.post("/{item_id}/assets/analyse", status_code=202)
async def analyse_assets(item_id: PathItem, context: CurrentContext) -> Analysing:
    """Have the images described again that were given up on. What that costs is paid again."""
    return Analysing(job_id=await assets.analyse(context.db, item_id))
