"""`/api/knowledge-items/{id}/pages`: pictures of the pages of PDF and image files."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Path, Query, Request, Response

from gristmill import contents
from gristmill.catalog import Item, ItemId, Viewer
from gristmill.contents import LiveContent
from gristmill.errors import Conflict
from gristmill.operations import guards
from gristmill.server.api.context import ApiContext, CurrentContext, CurrentViewer, PathItem
from gristmill.server.api.local_original import local_original
from gristmill.server.api.page_images import PageList
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import ErrorBody
from gristmill.server.api.schemas.pages import OutlineOut, PageOut, PagesOut

router = ApiRouter("/api/knowledge-items", tag="items")

_STEP = 200  # pixels: pictures are drawn in few widths, so that they are drawn once
_IMMUTABLE, _REVALIDATED = "private, max-age=31536000, immutable", "private, no-cache"


@dataclass(frozen=True)
class _PagedItem:
    """An item that may have pages: its live content, and the name of its bytes in the store."""

    item: Item
    live: LiveContent
    blob: str | None

    @property
    def key(self) -> str:
        """Identifies the pages in the cache."""
        return f"{self.item.id} {self.live.revision}"


async def _require_paged(context: ApiContext, item_id: ItemId, viewer: Viewer) -> _PagedItem:
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id, viewer)
        live = await contents.live_content(tx, item.id)
        blob = (
            await contents.live_original_name(tx, item.id)
            if item.type == "url"
            else await contents.item_blob_name(tx, item.id)
        )
    if live is None:
        raise guards.not_ready_error(item)
    if item.type not in ("file", "url") or (item.type == "url" and blob is None):
        raise Conflict("This document has no pages. Read its text instead.", code="no_pages")
    return _PagedItem(item, live, blob)


@router.get("/{item_id}/pages")
async def list_pages(
    item_id: PathItem, context: CurrentContext, viewer: CurrentViewer, required: bool = True
) -> PagesOut:
    """List the pages of a PDF or image file, with their sizes, and its bookmarks. If they are not `required`, a document without
    pages has an empty list with the reason, instead of 409."""
    try:
        paged = await _require_paged(context, item_id, viewer)
        pages = context.page_images.pages_in_cache(paged.key)
        if pages is None:
            async with local_original(context.sources, paged.item, paged.live, paged.blob) as path:
                pages = await context.page_images.pages(paged.key, str(paged.item.base_id), path)
    except Conflict as error:
        if required:
            raise
        reason = ErrorBody.of(error)
        return PagesOut(item_id=item_id, revision="", count=0, pages=[], outline=[], error=reason)
    return _pages_out(paged, pages)


def _pages_out(paged: _PagedItem, pages: PageList) -> PagesOut:
    return PagesOut(
        item_id=paged.item.id,
        revision=paged.live.revision,
        count=len(pages.pages),
        pages=[
            PageOut(width=page.width, height=page.height, label=page.label or None) for page in pages.pages
        ],
        outline=[
            OutlineOut(level=entry.level, title=entry.title, page=entry.page) for entry in pages.outline
        ],
        error=None,
    )


@router.get("/{item_id}/pages/{page}", response_class=Response)
async def get_page_image(
    item_id: PathItem,
    page: Annotated[int, Path(ge=1, le=1_000_000)],
    request: Request,
    context: CurrentContext,
    viewer: CurrentViewer,
    width: Annotated[int, Query(ge=100, le=3000)] = 1200,
    revision: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """Draw a page as a JPEG, `width` pixels wide or a little more. With the `revision` of the list of pages, it can be cached
    without expiry."""
    paged = await _require_paged(context, item_id, viewer)
    width = min(3000, -(-width // _STEP) * _STEP)
    tag = f'"{paged.live.revision}-{page}-{width}"'
    headers = {
        "ETag": tag,
        "Cache-Control": _IMMUTABLE if revision == paged.live.revision else _REVALIDATED,
        "Content-Security-Policy": "default-src 'none'",
        "X-Content-Type-Options": "nosniff",
    }
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    image = context.page_images.image_in_cache(paged.key, page, width)
    if image is None:

        async def is_wanted() -> bool:
            return not await request.is_disconnected()

        async with local_original(context.sources, paged.item, paged.live, paged.blob) as path:
            image = await context.page_images.image(
                paged.key, str(paged.item.base_id), path, page, width, is_wanted=is_wanted
            )
    return Response(image, media_type="image/jpeg", headers=headers)
