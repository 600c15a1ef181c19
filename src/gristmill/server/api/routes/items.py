"""`/api/knowledge-bases/{id}/items` and `/files`: adding, listing, deleting and re-indexing."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field, field_validator

from gristmill import catalog
from gristmill.catalog import BaseId, ItemId, ItemStatus, NewItem, access
from gristmill.errors import Invalid, Permanent
from gristmill.operations import add, delete, guards, reindex
from gristmill.operations.source_factory import FolderSource, SourceFactory
from gristmill.server.api.context import (
    ApiContext,
    CurrentCaller,
    CurrentContext,
    CurrentViewer,
    PathBase,
    PathItem,
)
from gristmill.server.api.routes.item import AcceptedOut, AddedOut, ItemOut, RefusedItem, ReindexOut
from gristmill.server.api.schemas.common import (
    Acl,
    JsonObject,
    Limit,
    NonBlankText,
    Page,
    PathText,
    Patterns,
    RequestModel,
    Title,
)
from gristmill.sources import NoteSource, normalise
from gristmill.work import OnActive

router = APIRouter(tags=["items"])


class _NewItemFields(RequestModel):
    """What any item may come with: who may see it, unless its container or base says, and what is said of it."""

    title: Title | None = None
    acl: Acl | None = None
    metadata: Annotated[JsonObject, Field(default_factory=dict)]

    def with_acl_and_metadata(self, item: NewItem) -> NewItem:
        """`new`, with that."""
        acl = None if self.acl is None else access.parse_acl(self.acl)
        return replace(item, acl=acl, metadata=self.metadata)


class NewNote(_NewItemFields):
    """A note: the text comes with the request."""

    type: Literal["note"]
    content: NonBlankText

    def to_entry(self, _sources: SourceFactory) -> add.ItemToAdd:
        """As the operation takes it."""
        first_line = self.content.strip().splitlines()[0].lstrip("# ")
        title = self.title or "".join(c for c in first_line if c.isprintable()).strip()[:80] or "Note"
        item = NewItem("note", title, title, body=self.content)
        return add.ItemToAdd(self.with_acl_and_metadata(item), NoteSource(self.content, title))


class _DiskItem(_NewItemFields):
    path: PathText

    @field_validator("path")
    @classmethod
    def _require_absolute(cls, path: str) -> str:
        if not Path(path).is_absolute():
            raise ValueError("must be an absolute path on the server")
        return os.path.normpath(path)

    def new_item(self, kind: str) -> NewItem:
        """The item, under its path."""
        name = self.title or Path(self.path).name or self.path
        return self.with_acl_and_metadata(NewItem(kind, name, self.path, source={"path": self.path}))


class NewFile(_DiskItem):
    """A file on the server's disk, read when it is indexed."""

    type: Literal["file"]

    def to_entry(self, sources: SourceFactory) -> add.ItemToAdd:
        """As the operation takes it."""
        return add.ItemToAdd(self.new_item("file"), sources.file_source(Path(self.path)))


class NewDirectory(_DiskItem):
    """A folder on the server's disk, with all that is below it; each file becomes an item of its own."""

    type: Literal["directory"]
    ignore: Patterns | None = None

    def to_entry(self, _sources: SourceFactory) -> add.ItemToAdd:
        """As the operation takes it; the patterns are part of where it comes from."""
        item = self.new_item("directory")
        source = item.source | ({"ignore": self.ignore} if self.ignore else {})
        return add.ItemToAdd(replace(item, source=source), FolderSource(Path(self.path)))


class _WebItem(_NewItemFields):
    url: Annotated[str, Field(max_length=8192)]

    @field_validator("url")
    @classmethod
    def _normalise_url(cls, url: str) -> str:
        try:
            return normalise(url)
        except Permanent as error:
            raise ValueError(error.message) from None

    def new_item(self, kind: str) -> NewItem:
        """The item, under its address."""
        return self.with_acl_and_metadata(
            NewItem(kind, self.title or self.url[:500], self.url, source={"url": self.url})
        )


class NewUrl(_WebItem):
    """A web page, fetched when it is indexed."""

    type: Literal["url"]

    def to_entry(self, _sources: SourceFactory) -> add.ItemToAdd:
        """As the operation takes it; the page is looked at by its job, not while the caller waits."""
        return add.ItemToAdd(self.new_item("url"), None)


class NewSitemap(_WebItem):
    """A sitemap, or a site that names one in robots.txt; each page becomes an item of its own."""

    type: Literal["sitemap"]

    def to_entry(self, _sources: SourceFactory) -> add.ItemToAdd:
        """As the operation takes it."""
        return add.ItemToAdd(self.new_item("sitemap"), None)


AnyItem = Annotated[NewNote | NewFile | NewDirectory | NewUrl | NewSitemap, Field(discriminator="type")]


class NewItems(RequestModel):
    """Items to add; each is accepted or refused by itself."""

    items: Annotated[list[AnyItem], Field(max_length=10_000)]
    parent_id: UUID | None = None
    on_conflict: add.OnConflict = "rename"


class Selection(RequestModel):
    """Items, each standing for all that is below it."""

    item_ids: Annotated[list[UUID], Field(max_length=10_000)]


class ReindexSelection(Selection):
    """What to rebuild, and what to do about what is being worked on."""

    on_active: OnActive = "reject"


@router.post("/knowledge-bases/{base_id}/items", status_code=202)
async def add_items(
    base_id: PathBase, body: NewItems, context: CurrentContext, caller: CurrentCaller
) -> AddedOut:
    """Add items. An answer means that they are durably accepted, not yet searchable."""
    for item in body.items:
        if isinstance(item, NewFile | NewDirectory):
            context.check_path_allowed(caller, item.path)
    added = await add.add(
        context.db,
        base_id,
        [item.to_entry(context.sources) for item in body.items],
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
    include_deleting: Annotated[bool, Query(alias="includeDeleting")] = False,
    limit: Limit = 100,
    cursor: UUID | None = None,
) -> Page[ItemOut]:
    """Items in the order they were added: the roots, with `parentId` its children, with `parentId=*` all, with `under`
    all that is below one."""
    async with context.db.connection() as tx:
        page_items = await catalog.list_items(
            tx,
            base_id,
            limit=limit,
            after=ItemId(cursor) if cursor else None,
            parent=_parse_parent_id(parent_id),
            everywhere=parent_id == "*",
            under=ItemId(under) if under else None,
            include_deleting=include_deleting,
            status=status,
            type=type,
            title=q,
            viewer=viewer,
        )
        if not page_items:  # who sees an item sees its base: only an empty page leaves the question
            await guards.require_base(tx, base_id, viewer)
    shown_items = [ItemOut.of(item) for item in page_items]
    return Page(items=shown_items, next_cursor=str(page_items[-1].id) if len(page_items) == limit else None)


@router.post("/knowledge-bases/{base_id}/items/delete", status_code=202)
async def delete_items(base_id: PathBase, body: Selection, context: CurrentContext) -> AcceptedOut:
    """Delete items with all that is below them. From the answer on nothing shows them any more."""
    return AcceptedOut.of(
        await delete.delete(context.db, base_id, [ItemId(selected) for selected in body.item_ids])
    )


@router.post("/knowledge-bases/{base_id}/items/reindex", status_code=202)
async def reindex_items(
    base_id: PathBase, body: ReindexSelection, context: CurrentContext, response: Response
) -> ReindexOut:
    """Rebuild items with all that is below them; what is searchable stays so until the new version is whole."""
    result = await reindex_selection(
        context, base_id, [ItemId(selected) for selected in body.item_ids], body.on_active
    )
    response.status_code = 202 if result.root_ids or not result.failed else 200
    return result


async def reindex_selection(
    context: ApiContext, base_id: BaseId, item_ids: list[ItemId], on_active: OnActive
) -> ReindexOut:
    """Probe the sources of the selected items, and queue the rebuilding."""
    async with context.db.connection() as tx:
        items = await catalog.find_items(tx, item_ids)
        blobs = await catalog.item_blob_names(tx, item_ids)
    # A note is always there: its text need not be fetched to know that.
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


def _parse_parent_id(parent_id: str | None) -> ItemId | None:
    if parent_id in (None, "", "*"):
        return None
    try:
        return ItemId(UUID(parent_id))
    except ValueError:
        raise Invalid("parentId must be an item's id, or * for all items.") from None


@router.post("/knowledge-items/{item_id}/reprocess", status_code=202)
async def reprocess_item(item_id: PathItem, context: CurrentContext) -> ReindexOut:
    """Rebuild one item with all that is below it."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
    return await reindex_selection(context, item.base_id, [item.id], "reject")
