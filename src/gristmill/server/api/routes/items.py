"""`/api/knowledge-bases/{id}/items` and `/api/knowledge-items/{id}`: add, list, read, change, delete and reindex items."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from gristmill import catalog, contents, search
from gristmill.catalog import BaseId, ItemFilter, ItemId, ItemStatus, SortKey, TreeOrder, Viewer
from gristmill.db import Tx
from gristmill.errors import Forbidden, Invalid
from gristmill.identity import OrgId
from gristmill.operations import add, delete, describe, freshness, guards, reindex
from gristmill.server.api.context import (
    ApiContext,
    CurrentCaller,
    CurrentContext,
    CurrentViewer,
    PathBase,
    PathItem,
)
from gristmill.server.api.entries import entries_of
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes.estimates import estimate_add
from gristmill.server.api.schemas.common import Limit, Page, page_of
from gristmill.server.api.schemas.items import (
    AcceptedOut,
    AddedOut,
    ChangedItem,
    ChunkOut,
    EstimateOut,
    ItemOut,
    RefusedItem,
    ReindexOut,
)
from gristmill.server.api.schemas.new_items import (
    NewItems,
    ReindexSelection,
    Selection,
)
from gristmill.server.api.selections import id_batches
from gristmill.work import OnActive

router = ApiRouter("/api", tag="items")

_MAX_INDEX = 2**31 - 1  # of a chunk, as the database stores it


# ── one item ─────────────────────────────────────────────────────────────────────────────────────────────


@router.get("/knowledge-items/{item_id}")
async def get_item(
    item_id: PathItem, context: CurrentContext, viewer: CurrentViewer, response: Response
) -> ItemOut:
    """Get an item with its status, its progress and, if it failed, its error."""
    item = await guards.require_item(context.db.reads, item_id, viewer)
    set_etag(response, item.updated_at)
    return ItemOut.of(item)


@router.patch("/knowledge-items/{item_id}")
async def patch_item(
    item_id: PathItem,
    body: ChangedItem,
    context: CurrentContext,
    caller: CurrentCaller,
    response: Response,
    if_match: IfMatch = None,
) -> ItemOut:
    """Change the title, the metadata, the access list, the refresh rule or the watch of an item, or the text of a note. A new text is a new version: the old one
    answers until it is indexed. Only admins may change access lists."""
    if "acl" in body.model_fields_set and not caller.viewer.is_admin:
        raise Forbidden("Only admins can change access lists. Ask an admin.", code="role_too_low")
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
    changed = await describe.describe(
        context.db,
        item.base_id,
        item.id,
        describe.ItemDescription(
            title=body.title,
            content=body.content,
            acl=body.acl,
            inherit=body.acl is None and "acl" in body.model_fields_set,
            metadata=body.metadata,
            refresh=_refresh_rule(body),
            watch=body.watch if "watch" in body.model_fields_set else "keep",
        ),
        check=lambda updated_at: check_if_match(if_match, updated_at),
    )
    set_etag(response, changed.updated_at)
    return ItemOut.of(changed)


def _refresh_rule(body: ChangedItem) -> dict[str, str] | freshness.Keep | None:
    if "refresh" not in body.model_fields_set:
        return "keep"
    return None if body.refresh is None else body.refresh.to_rule()


@router.delete("/knowledge-items/{item_id}", status_code=202)
async def delete_item(item_id: PathItem, context: CurrentContext, caller: CurrentCaller) -> AcceptedOut:
    """Delete an item with everything below it."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
    return AcceptedOut.of(await delete.delete(context.db, item.base_id, [item.id], actor=caller.actor))


@router.post("/knowledge-items/{item_id}/reprocess", status_code=202)
async def reprocess_item(item_id: PathItem, context: CurrentContext) -> ReindexOut:
    """Reindex an item with everything below it."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
    return await _reindex(context, item.base_id, [item.id], "reject")


@router.get("/knowledge-items/{item_id}/chunks")
async def list_chunks(
    item_id: PathItem,
    context: CurrentContext,
    viewer: CurrentViewer,
    limit: Limit = 100,
    cursor: Annotated[str | None, Query(max_length=60)] = None,
    boxes: bool = False,
) -> Page[ChunkOut]:
    """List the searchable chunks of an item and of everything below it, in order; with `boxes`, where they stand on their pages."""
    async with context.db.transaction() as tx:
        item = await guards.require_item(tx, item_id, viewer)
        base = await guards.require_base(tx, item.base_id, viewer)
        await guards.require_listable_chunks(tx, base, item)
        chunks = await search.list_chunks(
            tx, base.id, item.id, limit=limit, after=_parse_chunk_cursor(cursor), viewer=viewer
        )
        rectangles = await search.passage_boxes(tx, viewer, chunks) if boxes else []
    by_id = {chunk.id: chunk_boxes for chunk, chunk_boxes in zip(chunks, rectangles, strict=False)}
    return page_of(
        chunks,
        limit,
        lambda chunk: ChunkOut.of(chunk, by_id.get(chunk.id)),
        cursor=lambda chunk: f"{chunk.item_id}:{chunk.index}",
    )


def _parse_chunk_cursor(cursor: str | None) -> tuple[UUID, int] | None:
    if cursor is None:
        return None
    item_id, _, index = cursor.rpartition(":")
    try:
        place = UUID(item_id), int(index)
    except ValueError:
        place = None
    if place is None or not 0 <= place[1] <= _MAX_INDEX:
        raise Invalid("The cursor is invalid. Send the nextCursor of the page before.")
    return place


# ── the items of a base ──────────────────────────────────────────────────────────────────────────────────


@router.post("/knowledge-bases/{base_id}/items", status_code=202, responses={200: {"model": EstimateOut}})
async def add_items(
    base_id: PathBase, body: NewItems, context: CurrentContext, caller: CurrentCaller, response: Response
) -> AddedOut | EstimateOut:
    """Add items. The response means that they are durably accepted, not that they are searchable. Entries that can't be
    added are in `failed`; a request in which every entry is invalid is refused as a whole. With `dryRun`, nothing is added,
    and the response says what would be embedded and what it costs."""
    access = context.disk_access(caller)
    entries = await asyncio.to_thread(entries_of, body.items, context.sources, access)
    if body.dry_run:
        response.status_code = 200
        return await estimate_add(context, base_id, entries)
    added = await add.add(
        context.db,
        base_id,
        entries,
        context.queue_limits,
        parent_id=ItemId(body.parent_id) if body.parent_id else None,
        on_conflict=body.on_conflict,
    )
    return AddedOut.of(added)


@router.get("/knowledge-bases/{base_id}/items")
async def list_items(
    base_id: PathBase,
    context: CurrentContext,
    viewer: CurrentViewer,
    parent_id: Annotated[str | None, Query(alias="parentId")] = None,
    under: UUID | None = None,
    status: ItemStatus | None = None,
    type: str | None = None,  # noqa: A002
    q: Annotated[str | None, Query(max_length=500)] = None,
    tag: Annotated[str | None, Query(max_length=60)] = None,
    include_deleting: Annotated[bool, Query(alias="includeDeleting")] = False,
    sort: SortKey | None = None,
    descending: bool = False,
    limit: Limit = 100,
    cursor: Annotated[str | None, Query(max_length=4000)] = None,
) -> Page[ItemOut]:
    """List items: the roots; the children of `parentId`; all items with `parentId=*`; or everything below `under`. In the order they
    were added, or of the column `sort`; items that lack it come last."""
    chosen = ItemFilter(
        parent=_parse_parent_id(parent_id),
        everywhere=parent_id == "*",
        under=ItemId(under) if under else None,
        include_deleting=include_deleting,
        status=status,
        type=type,
        title=q,
        tag=tag,
    )
    page = await _page_of_items(context, base_id, chosen, TreeOrder(sort, descending), limit, cursor, viewer)
    if not page.items:  # a visible item implies a visible base, so only an empty page needs the check
        await guards.require_base(context.db.reads, base_id, viewer)
    return page


async def _page_of_items(
    context: ApiContext,
    base_id: BaseId,
    chosen: ItemFilter,
    order: TreeOrder,
    limit: int,
    cursor: str | None,
    viewer: Viewer,
) -> Page[ItemOut]:
    try:
        if order == catalog.BY_CREATION:
            items = await catalog.list_items(
                context.db.reads,
                base_id,
                chosen,
                limit=limit,
                after=ItemId(UUID(cursor)) if cursor else None,
                viewer=viewer,
            )
            return page_of(items, limit, ItemOut.of)
        rows = await catalog.list_items_sorted(
            context.db.reads, base_id, chosen, order, limit=limit, after=cursor, viewer=viewer
        )
    except ValueError:
        raise Invalid(
            "The cursor is invalid. Send the nextCursor of the page before, with the same order."
        ) from None
    return page_of(rows, limit, ItemOut.of, cursor=catalog.sort_cursor)


def _parse_parent_id(parent_id: str | None) -> ItemId | None:
    if parent_id in (None, "", "*"):
        return None
    try:
        return ItemId(UUID(parent_id))
    except ValueError:
        raise Invalid("parentId is not an item id. Send the id of an item, or * for all items.") from None


@router.post("/knowledge-bases/{base_id}/items/delete", status_code=202)
async def delete_items(
    base_id: PathBase, body: Selection, context: CurrentContext, caller: CurrentCaller
) -> AcceptedOut:
    """Delete items with everything below them. From this response on no request returns them. Of several jobs, `jobId` is the last."""
    accepted = AcceptedOut(root_ids=[], job_id=None)
    for item_ids in await id_batches(context.db, base_id, body):
        deleted = AcceptedOut.of(await delete.delete(context.db, base_id, item_ids, actor=caller.actor))
        accepted = AcceptedOut(root_ids=[*accepted.root_ids, *deleted.root_ids], job_id=deleted.job_id)
    return accepted


@router.post(
    "/knowledge-bases/{base_id}/items/reindex",
    status_code=202,
    responses={200: {"model": ReindexOut | EstimateOut}},
)
async def reindex_items(
    base_id: PathBase, body: ReindexSelection, context: CurrentContext, response: Response
) -> ReindexOut | EstimateOut:
    """Reindex items with everything below them. The live versions stay searchable until the new ones are complete. Of several
    jobs, `jobId` is the last. With `dryRun`, nothing is queued, and the response says what would be embedded."""
    if body.dry_run:
        response.status_code = 200
        selected = [item_id for batch in await id_batches(context.db, base_id, body) for item_id in batch]
        return await _estimate_reindex(context, base_id, selected)
    result = ReindexOut(root_ids=[], job_id=None, failed=[])
    for item_ids in await id_batches(context.db, base_id, body):
        batch = await _reindex(context, base_id, item_ids, body.on_active)
        result = ReindexOut(
            root_ids=[*result.root_ids, *batch.root_ids],
            job_id=batch.job_id or result.job_id,
            failed=[*result.failed, *batch.failed],
        )
    response.status_code = 202 if result.root_ids or not result.failed else 200
    return result


async def _estimate_reindex(context: ApiContext, base_id: BaseId, selected: Sequence[ItemId]) -> EstimateOut:
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id)
        await guards.require_items(tx, base, selected)
        embedder = await context.embedders.find(tx, base.embedder, base.org_id)
    return EstimateOut.of(
        await context.estimator.estimate_stored(base, embedder, base.chunking, list(selected))
    )


async def _reindex(
    context: ApiContext, base_id: BaseId, item_ids: list[ItemId], on_active: OnActive
) -> ReindexOut:
    """Probe the sources of the items, then queue the reindexing."""
    async with context.db.connection() as tx:
        items = await catalog.find_items(tx, item_ids)
        blobs = await contents.item_blob_names(tx, item_ids)
    # The text of notes and records is in the database, so there is nothing to probe.
    sources = {
        item.id: context.sources.for_item(item, blob=blobs.get(item.id))
        for item in items
        if item.type not in ("note", "record")
    }
    result = await reindex.reindex(context.db, base_id, item_ids, sources, on_active)
    return ReindexOut(
        root_ids=list(result.root_ids),
        job_id=result.job_id,
        failed=[RefusedItem.of(item_id, error) for item_id, error in result.refused.items()],
    )


async def item_titles(tx: Tx, item_ids: Iterable[UUID | None], org: OrgId | None = None) -> dict[UUID, str]:
    """The titles of those items that exist, by id."""
    known_ids = [ItemId(item_id) for item_id in set(item_ids) if item_id is not None]
    if not known_ids:
        return {}
    return {item.id: item.title for item in await catalog.find_items(tx, known_ids, org)}
