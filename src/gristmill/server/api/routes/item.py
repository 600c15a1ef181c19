"""`/api/knowledge-items/{id}`: one item, what it holds, and what can be done with it."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from fastapi import APIRouter, Query, Response

from gristmill import catalog, search
from gristmill.catalog import Item, ItemId, ItemStatus
from gristmill.errors import Forbidden, GristmillError, Invalid
from gristmill.operations import add, delete, describe, guards
from gristmill.server.api.context import CurrentCaller, CurrentContext, CurrentViewer, PathItem
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.schemas.common import (
    Acl,
    ApiModel,
    ErrorBody,
    JsonObject,
    Limit,
    Page,
    RequestModel,
    StoredModel,
)

router = APIRouter(prefix="/knowledge-items", tags=["items"])


class ItemOut(StoredModel):
    """An item as it is shown."""

    base_id: UUID
    parent_id: UUID | None
    type: str
    title: str
    status: ItemStatus
    phase: str
    error: ErrorBody | None
    progress: int
    waiting_for: str | None
    deleting: bool
    size_bytes: int | None
    chunk_count: int
    version: int | None
    warnings: list[str]
    left_out: dict[str, int]
    source: JsonObject
    acl: list[str] | None
    acl_as_of: datetime | None
    metadata: JsonObject

    @classmethod
    def of(cls, item: Item) -> Self:
        """Show `item`."""
        return cls(
            id=item.id,
            created_at=item.created_at,
            updated_at=item.updated_at,
            base_id=item.base_id,
            parent_id=item.parent_id,
            type=item.type,
            title=item.title,
            status=item.status,
            phase=catalog.phase(item.status),
            error=ErrorBody(code=item.error_code, message=item.error_message or "")
            if item.error_code
            else None,
            progress=catalog.progress(item.status, item.percent),
            waiting_for=item.waiting_for,
            deleting=item.status is ItemStatus.DELETING,
            size_bytes=item.size_bytes,
            chunk_count=item.chunk_count,
            version=item.live_version,
            warnings=[*item.warnings, *(["left_out"] if item.left_out else [])],
            left_out=item.left_out,
            source={name: value for name, value in item.source.items() if name != "root"},
            acl=item.acl,
            acl_as_of=item.acl_as_of,
            metadata=item.metadata,
        )


class ChangedItem(RequestModel):
    """What to change of an item. `acl: null` takes its own list away: it inherits again."""

    acl: Acl | None = None
    metadata: JsonObject | None = None


class RefusedOut(ApiModel):
    """An entry of the request that was not added, by its place."""

    index: int
    path: str
    error: ErrorBody


class SkippedOut(ApiModel):
    """An entry of the request that is there already, by its place."""

    index: int
    item_id: UUID


class AddedOut(ApiModel):
    """What was durably accepted, what was there already, and what was not accepted."""

    created: list[ItemOut]
    skipped: list[SkippedOut]
    failed: list[RefusedOut]
    correlation_id: UUID

    @classmethod
    def of(cls, added: add.AddResult) -> Self:
        """Show what an `add` did."""
        return cls(
            created=[ItemOut.of(item) for item in added.created],
            skipped=[SkippedOut(index=entry.index, item_id=entry.item_id) for entry in added.skipped],
            failed=[
                RefusedOut(index=entry.index, path=entry.title, error=ErrorBody.of(entry.error))
                for entry in added.failed
            ],
            correlation_id=added.cause,
        )


class AcceptedOut(ApiModel):
    """The outermost of what was selected, and the job that does it; null when there was nothing to do."""

    root_ids: list[UUID]
    job_id: UUID | None

    @classmethod
    def of(cls, accepted: delete.DeletionAccepted) -> Self:
        """Show what was accepted."""
        return cls(root_ids=list(accepted.root_ids), job_id=accepted.job_id)


class RefusedItem(ApiModel):
    """A selected item that is left as it is, and why."""

    item_id: UUID
    error: ErrorBody

    @classmethod
    def of(cls, item_id: ItemId, error: GristmillError) -> Self:
        """Show a refusal."""
        return cls(item_id=item_id, error=ErrorBody.of(error))


class ReindexOut(AcceptedOut):
    """The same, with what was refused because its source can't be read."""

    failed: list[RefusedItem]


class ChunkOut(ApiModel):
    """A piece of an item's content; `start` and `end` are characters of it."""

    id: UUID
    item_id: UUID
    index: int
    text: str
    start: int
    end: int
    page: int | None
    headings: list[str]
    metadata: JsonObject


@router.get("/{item_id}")
async def get_item(
    item_id: PathItem, context: CurrentContext, viewer: CurrentViewer, response: Response
) -> ItemOut:
    """One item: how far it is, and what went wrong if something did."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id, viewer)
    set_etag(response, item.updated_at)
    return ItemOut.of(item)


@router.patch("/{item_id}")
async def patch_item(
    item_id: PathItem,
    body: ChangedItem,
    context: CurrentContext,
    caller: CurrentCaller,
    response: Response,
    if_match: IfMatch = None,
) -> ItemOut:
    """Change who may see an item, and what is said of it; what is searchable stays so. The list is for admins to change."""
    if "acl" in body.model_fields_set and not caller.viewer.is_admin:
        raise Forbidden("Access lists are changed by admins.", code="role_too_low")
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
    changed = await describe.describe(
        context.db,
        item.base_id,
        item.id,
        acl=body.acl,
        inherit=body.acl is None and "acl" in body.model_fields_set,
        metadata=body.metadata,
        check=lambda updated_at: check_if_match(if_match, updated_at),
    )
    set_etag(response, changed.updated_at)
    return ItemOut.of(changed)


@router.delete("/{item_id}", status_code=202)
async def delete_item(item_id: PathItem, context: CurrentContext) -> AcceptedOut:
    """Delete an item with all that is below it."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
    return AcceptedOut.of(await delete.delete(context.db, item.base_id, [item.id]))


@router.get("/{item_id}/chunks")
async def list_chunks(
    item_id: PathItem,
    context: CurrentContext,
    viewer: CurrentViewer,
    limit: Limit = 100,
    cursor: Annotated[str | None, Query(max_length=60)] = None,
) -> Page[ChunkOut]:
    """The chunks that search reads, of the item and all below it, in order."""
    async with context.db.transaction() as tx:
        item = await guards.require_item(tx, item_id, viewer)
        base = await guards.require_base(tx, item.base_id, viewer)
        await guards.require_listable_chunks(tx, base, item)
        chunks = await search.list_chunks(
            tx, base.id, item.id, limit=limit, after=_parse_chunk_cursor(cursor), viewer=viewer
        )
    last = chunks[-1] if len(chunks) == limit else None
    return Page(
        items=[
            ChunkOut(
                id=chunk.id,
                item_id=chunk.item_id,
                index=chunk.index,
                text=chunk.text,
                start=chunk.start,
                end=chunk.end,
                page=chunk.page,
                headings=chunk.headings,
                metadata={"title": chunk.title, "version": chunk.version},
            )
            for chunk in chunks
        ],
        next_cursor=f"{last.item_id}:{last.index}" if last else None,
    )


def _parse_chunk_cursor(cursor: str | None) -> tuple[UUID, int] | None:
    if cursor is None:
        return None
    item_id, _, index = cursor.rpartition(":")
    try:
        return UUID(item_id), int(index)
    except ValueError:
        raise Invalid("cursor is not one that this list gave.") from None
