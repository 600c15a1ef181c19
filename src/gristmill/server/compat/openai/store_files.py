"""`/v1/vector_stores/{store_id}/files`: put files into a store, list, read, describe and remove them there."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import Query, Response
from fastapi.responses import StreamingResponse

from gristmill import contents, files
from gristmill.catalog import ADMIN, Base, BaseId, ItemId, Viewer
from gristmill.contents import ContentPart
from gristmill.db import Database
from gristmill.files import FileId, FileStatus, StoreDocument
from gristmill.operations import guards
from gristmill.operations.delete import delete
from gristmill.operations.describe import ItemDescription, describe
from gristmill.operations.files import FileToAttach, attach, no_such_file
from gristmill.server.api import store_ids
from gristmill.server.api.context import ApiContext, CurrentCaller, CurrentContext, CurrentViewer
from gristmill.server.api.router import ApiRouter
from gristmill.server.compat.openai import objects
from gristmill.server.compat.openai.parameters import (
    Cursor,
    Order,
    PageLimit,
    PathStore,
    PathStoreFile,
    place_of,
)
from gristmill.server.compat.openai.schemas import ChangedStoreFile, NewStoreFile, file_chunking

router = ApiRouter("/v1/vector_stores", tag="OpenAI vector stores")

POLL_HEADER, POLL_MS = "openai-poll-after-ms", "300"


@router.post("/{store_id}/files", include_in_schema=False)
async def add_store_file(
    store_id: PathStore, body: NewStoreFile, context: CurrentContext, caller: CurrentCaller
) -> dict[str, Any]:
    """Put a file into a store. One that is there already is indexed again, with the new attributes."""
    base = await require_store(context, store_id, caller.viewer)
    requests = await files_to_attach(context, base, [body])
    await attach(context.db, base.id, requests, caller.viewer, context.queue_limits)
    file_id = store_ids.parse_file_id(body.file_id)
    return objects.store_file_object(base, await _require_document(context, base, file_id, caller.viewer))


async def files_to_attach(
    context: ApiContext, base: Base, entries: Sequence[NewStoreFile]
) -> list[FileToAttach]:
    """The files of a request, to be put into a base."""
    async with context.db.connection() as tx:
        embedder = await context.embedders.find(tx, base.embedder, base.org_id)
    return [
        FileToAttach(
            store_ids.parse_file_id(entry.file_id),
            dict(entry.attributes or {}),
            file_chunking(entry.chunking_strategy, embedder),
        )
        for entry in entries
    ]


async def require_store(context: ApiContext, base_id: BaseId, viewer: Viewer) -> Base:
    """The base of a store that the viewer sees."""
    async with context.db.connection() as tx:
        return await guards.require_base(tx, base_id, viewer)


async def _require_document(
    context: ApiContext, base: Base, file_id: FileId, viewer: Viewer
) -> StoreDocument:
    async with context.db.connection() as tx:
        item = await files.find_document(tx, base.id, file_id, viewer)
    if item is None:
        raise no_such_file(file_id)
    return item


@router.get("/{store_id}/files", include_in_schema=False)
async def list_store_files(
    store_id: PathStore,
    context: CurrentContext,
    viewer: CurrentViewer,
    limit: PageLimit = 20,
    order: Order = "desc",
    after: Cursor = None,
    before: Cursor = None,
    status: Annotated[FileStatus | None, Query(alias="filter")] = None,
) -> dict[str, Any]:
    """List the documents of a base, however they were added. A page can begin after a file that was deleted."""
    base = await require_store(context, store_id, viewer)
    place = place_of(limit, order, after, before, store_ids.parse_file_id)
    async with context.db.connection() as tx:
        rows = await files.page_documents(tx, base.id, viewer, place, status=status)
    items, has_more = place.page(rows)
    return objects.page(items, lambda item: objects.store_file_object(base, item), has_more=has_more)


@router.get("/{store_id}/files/{store_file_id}", include_in_schema=False)
async def get_store_file(
    store_id: PathStore,
    store_file_id: PathStoreFile,
    context: CurrentContext,
    viewer: CurrentViewer,
    response: Response,
) -> dict[str, Any]:
    """Get a file of a store with its status."""
    base = await require_store(context, store_id, viewer)
    item = await _require_document(context, base, store_file_id, viewer)
    response.headers[POLL_HEADER] = POLL_MS
    return objects.store_file_object(base, item)


@router.post("/{store_id}/files/{store_file_id}", include_in_schema=False)
async def change_store_file(
    store_id: PathStore, store_file_id: PathStoreFile, body: ChangedStoreFile, context: CurrentContext
) -> dict[str, Any]:
    """Replace the attributes of a file in a store. Metadata that can't be an attribute stays."""
    base = await require_store(context, store_id, ADMIN)
    item = await _require_document(context, base, store_file_id, ADMIN)
    shown = objects.attributes(item.metadata)
    others = {key: value for key, value in item.metadata.items() if key not in shown}
    changed = await describe(
        context.db, base.id, item.id, ItemDescription(metadata={**others, **(body.attributes or {})})
    )
    return objects.store_file_object(base, await _require_document(context, base, store_file_id, ADMIN)) | {
        "attributes": objects.attributes(changed.metadata)
    }


@router.delete("/{store_id}/files/{store_file_id}", include_in_schema=False)
async def delete_store_file(
    store_id: PathStore, store_file_id: PathStoreFile, context: CurrentContext, caller: CurrentCaller
) -> dict[str, Any]:
    """Remove a file from a store. A file that was uploaded to `/v1/files` stays there."""
    base = await require_store(context, store_id, ADMIN)
    item = await _require_document(context, base, store_file_id, ADMIN)
    await delete(context.db, base.id, [item.id], actor=caller.actor)
    return objects.deletion(store_ids.file_id(store_file_id), "vector_store.file.deleted")


@router.get("/{store_id}/files/{store_file_id}/content", include_in_schema=False)
async def get_store_file_content(
    store_id: PathStore, store_file_id: PathStoreFile, context: CurrentContext, viewer: CurrentViewer
) -> StreamingResponse:
    """Read the text of a file, as it was extracted."""
    base = await require_store(context, store_id, viewer)
    item = await _require_document(context, base, store_file_id, viewer)
    return StreamingResponse(_content_page(context.db, item.id), media_type="application/json")


async def _content_page(db: Database, item_id: ItemId) -> AsyncIterator[str]:
    """The page as JSON, part by part: clients read one page, however long the text is."""
    yield '{"object": "vector_store.file_content.page", "has_more": false, "next_page": null, "data": ['
    separator, end = "", 0
    while True:
        async with db.connection() as tx:
            parts: list[ContentPart] = await contents.live_parts(tx, item_id, after=end)
        if not parts:
            break
        for part in parts:
            yield separator + json.dumps({"type": "text", "text": part.text})
            separator = ", "
        end = parts[-1].start + len(parts[-1].text)
    yield "]}"
