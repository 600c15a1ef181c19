"""`/api/knowledge-items/{id}/content`, `/original` and `/timeline`: the text, the source bytes and the history of an item."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import BinaryIO
from urllib.parse import quote

from fastapi.responses import StreamingResponse

from gristmill import catalog, contents, jobs
from gristmill.catalog import ItemId
from gristmill.contents import ContentPart
from gristmill.db import Database
from gristmill.errors import Conflict
from gristmill.operations import guards
from gristmill.operations.source_factory import UploadSource
from gristmill.server.api.context import CurrentContext, CurrentViewer, PathItem
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.jobs import JobOut, TimelineOut
from gristmill.sources import FileSource

router = ApiRouter("/api/knowledge-items", tag="items")

_BLOCK_BYTES = 1 << 18


@router.get("/{item_id}/content", response_class=StreamingResponse)
async def get_content(item_id: PathItem, context: CurrentContext, viewer: CurrentViewer) -> StreamingResponse:
    """Read the canonical markdown of the live version."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id, viewer)
        first = await contents.live_parts(tx, item.id)
    if item.live_version is None:
        raise guards.not_ready_error(item)
    return StreamingResponse(
        _stream_parts(context.db, item.id, first), media_type="text/markdown; charset=utf-8"
    )


async def _stream_parts(db: Database, item_id: ItemId, parts: list[ContentPart]) -> AsyncIterator[str]:
    """Yield the content part by part. No database connection is held while a slow client reads."""
    while parts:
        for part in parts:
            yield part.text
        end = parts[-1].start + len(parts[-1].text)
        async with db.connection() as tx:
            parts = await contents.live_parts(tx, item_id, after=end)


@router.get("/{item_id}/original")
async def get_original(
    item_id: PathItem, context: CurrentContext, viewer: CurrentViewer
) -> StreamingResponse:
    """Download the source: an uploaded file, the text of a note, a web page as it was fetched, or a file on the server's
    disk as it is now."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id, viewer)
        note = await catalog.note_text(tx, item.id) if item.type == "note" else None
        source = context.sources.for_item(item, note=note, blob=await contents.item_blob_name(tx, item.id))
        page_blob = await contents.live_original_name(tx, item.id) if item.type == "url" else None
    if item.type not in ("note", "file") and page_blob is None:
        raise Conflict(
            f"This {item.type} has no original to download. Only notes, files and fetched web pages have one.",
            code="no_original",
        )
    if page_blob is not None:
        blobs = context.sources.blobs
        size, body = await blobs.size(page_blob), blobs.read(page_blob)
    elif isinstance(source, UploadSource):
        size, body = await source.probe(), source.blobs.read(source.blob_name)
    else:
        opens = source.open if isinstance(source, FileSource) else (await source.read()).open
        file = await asyncio.to_thread(opens)
        size = await asyncio.to_thread(file.seek, 0, os.SEEK_END)
        body = _read_blocks(file, size)
    name = quote(item.source.get("name", item.title))
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}", "Content-Length": str(size)}
    return StreamingResponse(body, media_type="application/octet-stream", headers=headers)


async def _read_blocks(file: BinaryIO, size: int) -> AsyncIterator[bytes]:
    """Yield exactly `size` bytes, the announced Content-Length, even if the file grows meanwhile."""
    with file:
        await asyncio.to_thread(file.seek, 0)
        while size > 0 and (block := await asyncio.to_thread(file.read, min(_BLOCK_BYTES, size))):
            size -= len(block)
            yield block


@router.get("/{item_id}/timeline")
async def get_timeline(item_id: PathItem, context: CurrentContext, viewer: CurrentViewer) -> TimelineOut:
    """Show how long each stage took for the live version, and the jobs of the item, newest first."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id, viewer)
        item_jobs = await jobs.find_jobs(tx, limit=100, subject=item.id)
        timings = await contents.timeline(tx, item.id)
    return TimelineOut(version=item.live_version, made=timings, jobs=[JobOut.of(job) for job in item_jobs])
