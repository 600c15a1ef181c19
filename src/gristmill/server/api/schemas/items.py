"""Items, their chunks, and the outcome of adding, deleting and reindexing them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Self, cast
from uuid import UUID

from pydantic import StrictBool

from gristmill import catalog
from gristmill.catalog import Item, ItemId, ItemStatus
from gristmill.errors import GristmillError
from gristmill.operations import add, delete
from gristmill.operations.estimates import CostEstimate
from gristmill.operations.source_factory import ADDED_LOCALLY, FETCHED
from gristmill.readers.text_boxes import PageBox
from gristmill.search import ChunkMark, ChunkRow
from gristmill.server.api.schemas.common import (
    Acl,
    ApiModel,
    BoxOut,
    ErrorBody,
    JsonObject,
    NonBlankText,
    RequestModel,
    StoredModel,
    Title,
)
from gristmill.server.api.schemas.freshness import FreshnessOut, RefreshIn, RefreshOut


class WaitingOut(ApiModel):
    """Why an item does not proceed: the last error, since when, the last attempt that was begun, and when the next one is
    due; null while it is being tried."""

    code: str
    message: str
    since: datetime
    attempt: int
    max_attempts: int
    next_attempt_at: datetime | None


class ItemOut(StoredModel):
    """An item. `metadata` is what people or its connector set; `document` what the document says of itself."""

    base_id: UUID
    parent_id: UUID | None
    type: str
    title: str
    status: ItemStatus
    phase: str
    error: ErrorBody | None
    progress: int
    waiting_for: WaitingOut | None
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
    document: JsonObject
    refresh: RefreshOut | None
    freshness: FreshnessOut | None

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
            error=ErrorBody.from_columns(item.error_code, item.error_message),
            progress=catalog.progress(item.status, item.percent),
            waiting_for=WaitingOut.model_validate(item.waiting_for) if item.waiting_for else None,
            deleting=item.status is ItemStatus.DELETING,
            size_bytes=item.size_bytes,
            chunk_count=item.chunk_count,
            version=item.live_version,
            warnings=[*item.warnings, *(["left_out"] if item.left_out else [])],
            left_out=item.left_out,
            source={
                name: value
                for name, value in item.source.items()
                if name not in ("root", ADDED_LOCALLY, FETCHED)
            },
            acl=item.acl,
            acl_as_of=item.acl_as_of,
            metadata=item.metadata,
            document=item.document,
            refresh=RefreshOut.of(item.freshness["rule"] if item.freshness else None),
            freshness=FreshnessOut.of(item.freshness),
        )


class ChangedItem(RequestModel):
    """Changes to an item. `content` is the text of a note; `acl: null` removes the item's own access list, so that it inherits
    again, and `refresh: null` its own rule. `watch` of a folder: null watches it if that is cheap."""

    title: Title | None = None
    content: NonBlankText | None = None
    acl: Acl | None = None
    metadata: JsonObject | None = None
    refresh: RefreshIn | None = None
    watch: StrictBool | None = None


class RefusedOut(ApiModel):
    """An entry of the request that was not added, by its index; `path` is its path, URL or name as it was sent."""

    index: int
    path: str
    error: ErrorBody


class SkippedOut(ApiModel):
    """An entry of the request that existed already, by its index."""

    index: int
    item_id: UUID


class AddedOut(ApiModel):
    """The entries that were durably accepted, those that existed already, and those that were rejected."""

    created: list[ItemOut]
    skipped: list[SkippedOut]
    failed: list[RefusedOut]
    correlation_id: UUID

    @classmethod
    def of(cls, added: add.AddResult) -> Self:
        """Show the result of an `add`."""
        return cls(
            created=[ItemOut.of(item) for item in added.created],
            skipped=[SkippedOut(index=entry.index, item_id=entry.item_id) for entry in added.skipped],
            failed=[
                RefusedOut(index=entry.index, path=entry.path, error=ErrorBody.of(entry.error))
                for entry in added.failed
            ],
            correlation_id=added.cause,
        )


class EstimateOut(ApiModel):
    """What a dry run found: how many documents, chunks and new texts there would be, and what embedding them costs. `cost` is null
    without a price. `exact` is false where something is estimated: `uncertainty` is the share by which `tokens` may be off, and `notes` says what is
    estimated and on what it rests."""

    dry_run: Literal[True] = True
    documents: int
    read_documents: int
    chunks: int
    texts: int
    tokens: int
    cost: float | None
    images: int
    exact: bool
    uncertainty: float
    notes: list[str]
    failed: list[RefusedOut]

    @classmethod
    def of(cls, estimate: CostEstimate, failed: Sequence[add.RejectedItem] = ()) -> Self:
        """Show an estimate, and the entries that can't be added."""
        refused = [
            RefusedOut(index=entry.index, path=entry.path, error=ErrorBody.of(entry.error))
            for entry in failed
        ]
        fields = {**vars(estimate), "exact": estimate.is_exact, "failed": refused}
        return cls.model_validate(fields)


class AcceptedOut(ApiModel):
    """The topmost items of the selection and the job that handles them; null when there was nothing to do."""

    root_ids: list[UUID]
    job_id: UUID | None

    @classmethod
    def of(cls, accepted: delete.DeletionAccepted) -> Self:
        """Show what was accepted."""
        return cls(root_ids=list(accepted.root_ids), job_id=accepted.job_id)


class RefusedItem(ApiModel):
    """A selected item that was not changed, and why."""

    item_id: UUID
    error: ErrorBody

    @classmethod
    def of(cls, item_id: ItemId, error: GristmillError) -> Self:
        """Show why `item_id` was not changed."""
        return cls(item_id=item_id, error=ErrorBody.of(error))


class ReindexOut(AcceptedOut):
    """The same, with the items that were rejected because their source can't be read."""

    failed: list[RefusedItem]


class ChangedChunk(RequestModel):
    """What becomes of a chunk: `disabled`, `pinned`, or neither with null."""

    mark: ChunkMark | None


class ChunkOut(ApiModel):
    """A chunk of an item's content; `start` and `end` are character offsets into that content. `boxes` are where it stands on
    its pages; null unless they were requested. A chunk that is `disabled` never answers, one that is `pinned` comes first where it
    fits."""

    id: UUID
    item_id: UUID
    index: int
    text: str
    start: int
    end: int
    page: int | None
    boxes: list[BoxOut] | None
    headings: list[str]
    mark: ChunkMark | None
    metadata: JsonObject

    @classmethod
    def of(cls, chunk: ChunkRow, boxes: Sequence[PageBox] | None = None) -> Self:
        """Show `chunk`."""
        return cls(
            id=chunk.id,
            item_id=chunk.item_id,
            index=chunk.index,
            text=chunk.text,
            start=chunk.start,
            end=chunk.end,
            page=chunk.page,
            boxes=None if boxes is None else [BoxOut.of(box) for box in boxes],
            headings=chunk.headings,
            mark=cast(ChunkMark | None, chunk.mark),
            metadata={"title": chunk.title, "version": chunk.version},
        )
