"""`/api/knowledge-bases/{id}/items` and `/api/knowledge-items`."""

import os
from pathlib import Path
from typing import Annotated, Literal, Self
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from pydantic import Field, field_validator

from gristmill import catalog
from gristmill.catalog import Item, ItemId, ItemStatus, NewItem
from gristmill.doors.api.context import InContext, PathBase, PathItem
from gristmill.doors.api.wire import (
    Asked,
    Body,
    ErrorBody,
    JsonObject,
    Limit,
    Page,
    PathText,
    Stamped,
    Title,
    Wire,
)
from gristmill.errors import Conflict
from gristmill.jobs import QueueLimits
from gristmill.operations import add, guards
from gristmill.sources import FileSource, NoteSource

router = APIRouter(tags=["items"])


class NewNote(Asked):
    """A note: the text comes with the request."""

    type: Literal["note"]
    title: Title | None = None
    content: Body

    def entry(self, _limit: int) -> add.Entry:
        """As the operation takes it."""
        first_line = self.content.strip().splitlines()[0].lstrip("# ")
        title = self.title or "".join(c for c in first_line if c.isprintable()).strip()[:80] or "Note"
        return add.Entry(NewItem("note", title, body=self.content), NoteSource(self.content, title))


class NewFile(Asked):
    """A file on the server's disk, read when it is indexed."""

    type: Literal["file"]
    title: Title | None = None
    path: PathText

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str) -> str:
        if not Path(path).is_absolute():
            raise ValueError("must be an absolute path on the server")
        return os.path.normpath(path)

    def entry(self, limit: int) -> add.Entry:
        """As the operation takes it."""
        new = NewItem("file", self.title or Path(self.path).name, source={"path": self.path})
        return add.Entry(new, FileSource(Path(self.path), limit))


class NewItems(Asked):
    """Items to add; each is accepted or refused by itself."""

    items: Annotated[
        list[Annotated[NewNote | NewFile, Field(discriminator="type")]], Field(max_length=10_000)
    ]


class ItemOut(Stamped):
    """An item as it is shown."""

    base_id: UUID
    parent_id: UUID | None
    type: str
    title: str
    status: ItemStatus
    phase: str
    error: ErrorBody | None
    progress: int
    deleting: bool
    size_bytes: int | None
    chunk_count: int
    version: int | None
    warnings: list[str]
    source: JsonObject

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
            progress=catalog.progress(item.status),
            deleting=item.status is ItemStatus.DELETING,
            size_bytes=item.size_bytes,
            chunk_count=item.chunk_count,
            version=item.live_version,
            warnings=item.warnings,
            source=item.source,
        )


class RefusedOut(Wire):
    """An entry of the request that was not added, by its place."""

    index: int
    path: str
    error: ErrorBody


class AddedOut(Wire):
    """What was durably accepted, and what was not."""

    created: list[ItemOut]
    failed: list[RefusedOut]


@router.post("/knowledge-bases/{base_id}/items", status_code=202)
async def add_items(base_id: PathBase, body: NewItems, context: InContext) -> AddedOut:
    """Add notes and files. An answer means that they are durably accepted, not yet searchable."""
    limit = context.settings.max_document_mb * 2**20
    queue = QueueLimits(lane=context.settings.max_queue_per_base, total=context.settings.max_queue)
    added = await add.add(context.db, base_id, [item.entry(limit) for item in body.items], queue)
    return AddedOut(
        created=[ItemOut.of(item) for item in added.created],
        failed=[
            RefusedOut(
                index=refused.index,
                path=refused.title,
                error=ErrorBody(code=refused.error.code, message=refused.error.message),
            )
            for refused in added.failed
        ],
    )


@router.get("/knowledge-bases/{base_id}/items")
async def list_items(
    base_id: PathBase,
    context: InContext,
    limit: Limit = 100,
    cursor: UUID | None = None,
    status: ItemStatus | None = None,
    type: str | None = None,  # noqa: A002
) -> Page[ItemOut]:
    """The items of a base, in the order they were added."""
    async with context.db.connection() as tx:
        await guards.base_exists(tx, base_id)
        found = await catalog.list_items(
            tx,
            base_id,
            limit=limit,
            after=ItemId(cursor) if cursor else None,
            everywhere=True,
            status=status,
            type=type,
        )
    return Page(
        items=[ItemOut.of(item) for item in found],
        next_cursor=str(found[-1].id) if len(found) == limit else None,
    )


@router.get("/knowledge-items/{item_id}")
async def get_item(item_id: PathItem, context: InContext) -> ItemOut:
    """One item: how far it is, and what went wrong if something did."""
    async with context.db.connection() as tx:
        return ItemOut.of(await guards.item_exists(tx, item_id))


@router.get("/knowledge-items/{item_id}/content", response_class=PlainTextResponse)
async def get_content(item_id: PathItem, context: InContext) -> PlainTextResponse:
    """The canonical content of the version that answers."""
    async with context.db.connection() as tx:
        item = await guards.item_exists(tx, item_id)
        text = await catalog.live_content(tx, item.id)
    if text is None:
        raise Conflict(f"The item is {item.status}: nothing of it is searchable yet.", code="item_not_ready")
    return PlainTextResponse(text, media_type="text/markdown; charset=utf-8")
