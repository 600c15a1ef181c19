"""`/v1/vector_stores/{store_id}/file_batches`: put many files into a store at once, follow and cancel that."""

from typing import Annotated, Any

from fastapi import Query, Response

from gristmill import files
from gristmill.catalog import Base
from gristmill.errors import NotFound
from gristmill.files import BatchId, FileBatch, FileStatus
from gristmill.operations import files as file_operations
from gristmill.server.api import store_ids
from gristmill.server.api.context import ApiContext, CurrentCaller, CurrentContext, CurrentViewer
from gristmill.server.api.router import ApiRouter
from gristmill.server.compat.openai import objects
from gristmill.server.compat.openai.parameters import Cursor, Order, PageLimit, PathBatch, PathStore, place_of
from gristmill.server.compat.openai.schemas import NewBatch
from gristmill.server.compat.openai.store_files import (
    POLL_HEADER,
    POLL_MS,
    files_to_attach,
    require_store,
)

router = ApiRouter("/v1/vector_stores/{store_id}/file_batches", tag="OpenAI vector stores")


@router.post("", include_in_schema=False)
async def create_batch(
    store_id: PathStore, body: NewBatch, context: CurrentContext, caller: CurrentCaller
) -> dict[str, Any]:
    """Put files into a store: all of them, or none if one is unknown."""
    base = await require_store(context, store_id, caller.viewer)
    requests = await files_to_attach(context, base, body.entries())
    batch = await file_operations.attach_batch(
        context.db, base.id, requests, caller.viewer, context.queue_limits
    )
    return await _show(context, batch)


async def _show(context: ApiContext, batch: FileBatch) -> dict[str, Any]:
    async with context.db.connection() as tx:
        counts = await files.batch_counts(tx, batch.id)
    return objects.batch_object(batch, counts)


async def _require_batch(context: ApiContext, base: Base, batch_id: BatchId) -> FileBatch:
    async with context.db.connection() as tx:
        batch = await files.find_batch(tx, base.id, batch_id)
    if batch is None:
        raise NotFound(f"There is no file batch {store_ids.batch_id(batch_id)}.", code="no_such_batch")
    return batch


@router.get("/{batch_id}", include_in_schema=False)
async def get_batch(
    store_id: PathStore,
    batch_id: PathBatch,
    context: CurrentContext,
    viewer: CurrentViewer,
    response: Response,
) -> dict[str, Any]:
    """Get a batch with the numbers of its files."""
    base = await require_store(context, store_id, viewer)
    response.headers[POLL_HEADER] = POLL_MS
    return await _show(context, await _require_batch(context, base, batch_id))


@router.post("/{batch_id}/cancel", include_in_schema=False)
async def cancel_batch(
    store_id: PathStore, batch_id: PathBatch, context: CurrentContext, caller: CurrentCaller
) -> dict[str, Any]:
    """Cancel the files of a batch that are not indexed yet."""
    base = await require_store(context, store_id, caller.viewer)
    batch = await _require_batch(context, base, batch_id)
    return await _show(context, await file_operations.cancel_batch(context.db, base.id, batch.id))


@router.get("/{batch_id}/files", include_in_schema=False)
async def list_batch_files(
    store_id: PathStore,
    batch_id: PathBatch,
    context: CurrentContext,
    viewer: CurrentViewer,
    limit: PageLimit = 20,
    order: Order = "desc",
    after: Cursor = None,
    before: Cursor = None,
    status: Annotated[FileStatus | None, Query(alias="filter")] = None,
) -> dict[str, Any]:
    """List the files of a batch that are still in the store."""
    base = await require_store(context, store_id, viewer)
    batch = await _require_batch(context, base, batch_id)
    place = place_of(limit, order, after, before, store_ids.parse_file_id)
    async with context.db.connection() as tx:
        rows = await files.page_documents(tx, base.id, viewer, place, status=status, batch_id=batch.id)
    items, has_more = place.page(rows)
    return objects.page(items, lambda item: objects.store_file_object(base, item), has_more=has_more)
