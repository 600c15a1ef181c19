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
from gristmill.doors.api.context import Asking, AsViewer, Context, InContext, PathBase, PathItem
from gristmill.doors.api.item import AcceptedOut, AddedOut, ItemOut, RefusedItem, ReindexOut
from gristmill.doors.api.wire import Acl, Asked, Body, JsonObject, Limit, Page, PathText, Patterns, Title
from gristmill.errors import Invalid, Permanent
from gristmill.operations import add, delete, guards, reindex
from gristmill.operations.originals import Folder, Originals
from gristmill.sources import NoteSource, normalise
from gristmill.work import OnActive

router = APIRouter(tags=["items"])


class _New(Asked):
    """What any item may come with: who may see it, unless its container or base says, and what is said of it."""

    title: Title | None = None
    acl: Acl | None = None
    metadata: Annotated[JsonObject, Field(default_factory=dict)]

    def described(self, new: NewItem) -> NewItem:
        """`new`, with that."""
        acl = None if self.acl is None else access.checked(self.acl)
        return replace(new, acl=acl, metadata=self.metadata)


class NewNote(_New):
    """A note: the text comes with the request."""

    type: Literal["note"]
    content: Body

    def entry(self, _originals: Originals) -> add.Entry:
        """As the operation takes it."""
        first_line = self.content.strip().splitlines()[0].lstrip("# ")
        title = self.title or "".join(c for c in first_line if c.isprintable()).strip()[:80] or "Note"
        new = NewItem("note", title, title, body=self.content)
        return add.Entry(self.described(new), NoteSource(self.content, title))


class _OnDisk(_New):
    path: PathText

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str) -> str:
        if not Path(path).is_absolute():
            raise ValueError("must be an absolute path on the server")
        return os.path.normpath(path)

    def new(self, kind: str) -> NewItem:
        """The item, under its path."""
        name = self.title or Path(self.path).name or self.path
        return self.described(NewItem(kind, name, self.path, source={"path": self.path}))


class NewFile(_OnDisk):
    """A file on the server's disk, read when it is indexed."""

    type: Literal["file"]

    def entry(self, originals: Originals) -> add.Entry:
        """As the operation takes it."""
        return add.Entry(self.new("file"), originals.file(Path(self.path)))


class NewDirectory(_OnDisk):
    """A folder on the server's disk, with all that is below it; each file becomes an item of its own."""

    type: Literal["directory"]
    ignore: Patterns | None = None

    def entry(self, _originals: Originals) -> add.Entry:
        """As the operation takes it; the patterns are part of where it comes from."""
        new = self.new("directory")
        source = new.source | ({"ignore": self.ignore} if self.ignore else {})
        return add.Entry(replace(new, source=source), Folder(Path(self.path)))


class _OnTheWeb(_New):
    url: Annotated[str, Field(max_length=8192)]

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        try:
            return normalise(url)
        except Permanent as error:
            raise ValueError(error.message) from None

    def new(self, kind: str) -> NewItem:
        """The item, under its address."""
        return self.described(NewItem(kind, self.title or self.url[:500], self.url, source={"url": self.url}))


class NewUrl(_OnTheWeb):
    """A web page, fetched when it is indexed."""

    type: Literal["url"]

    def entry(self, _originals: Originals) -> add.Entry:
        """As the operation takes it; the page is looked at by its job, not while the caller waits."""
        return add.Entry(self.new("url"), None)


class NewSitemap(_OnTheWeb):
    """A sitemap, or a site that names one in robots.txt; each page becomes an item of its own."""

    type: Literal["sitemap"]

    def entry(self, _originals: Originals) -> add.Entry:
        """As the operation takes it."""
        return add.Entry(self.new("sitemap"), None)


AnyItem = Annotated[NewNote | NewFile | NewDirectory | NewUrl | NewSitemap, Field(discriminator="type")]


class NewItems(Asked):
    """Items to add; each is accepted or refused by itself."""

    items: Annotated[list[AnyItem], Field(max_length=10_000)]
    parent_id: UUID | None = None
    on_conflict: add.OnConflict = "rename"


class Selection(Asked):
    """Items, each standing for all that is below it."""

    item_ids: Annotated[list[UUID], Field(max_length=10_000)]


class ReindexSelection(Selection):
    """What to rebuild, and what to do about what is being worked on."""

    on_active: OnActive = "reject"


@router.post("/knowledge-bases/{base_id}/items", status_code=202)
async def add_items(base_id: PathBase, body: NewItems, context: InContext, caller: Asking) -> AddedOut:
    """Add items. An answer means that they are durably accepted, not yet searchable."""
    for item in body.items:
        if isinstance(item, NewFile | NewDirectory):
            context.confine(caller, item.path)
    added = await add.add(
        context.db,
        base_id,
        [item.entry(context.originals) for item in body.items],
        context.queue_limits,
        parent_id=ItemId(body.parent_id) if body.parent_id else None,
        on_conflict=body.on_conflict,
    )
    return AddedOut.of(added)


@router.get("/knowledge-bases/{base_id}/items")
async def list_items(
    base_id: PathBase,
    context: InContext,
    viewer: AsViewer,
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
        found = await catalog.list_items(
            tx,
            base_id,
            limit=limit,
            after=ItemId(cursor) if cursor else None,
            parent=_parent(parent_id),
            everywhere=parent_id == "*",
            under=ItemId(under) if under else None,
            deleting=include_deleting,
            status=status,
            type=type,
            title=q,
            viewer=viewer,
        )
        if not found:  # who sees an item sees its base: only an empty page leaves the question
            await guards.base_exists(tx, base_id, viewer)
    items = [ItemOut.of(item) for item in found]
    return Page(items=items, next_cursor=str(found[-1].id) if len(found) == limit else None)


@router.post("/knowledge-bases/{base_id}/items/delete", status_code=202)
async def delete_items(base_id: PathBase, body: Selection, context: InContext) -> AcceptedOut:
    """Delete items with all that is below them. From the answer on nothing shows them any more."""
    return AcceptedOut.of(
        await delete.delete(context.db, base_id, [ItemId(selected) for selected in body.item_ids])
    )


@router.post("/knowledge-bases/{base_id}/items/reindex", status_code=202)
async def reindex_items(
    base_id: PathBase, body: ReindexSelection, context: InContext, response: Response
) -> ReindexOut:
    """Rebuild items with all that is below them; what is searchable stays so until the new version is whole."""
    done = await reindex_selection(
        context, base_id, [ItemId(selected) for selected in body.item_ids], body.on_active
    )
    response.status_code = 202 if done.root_ids or not done.failed else 200
    return done


async def reindex_selection(
    context: Context, base_id: BaseId, ids: list[ItemId], on_active: OnActive
) -> ReindexOut:
    """Probe the sources of the selected items, and queue the rebuilding."""
    async with context.db.connection() as tx:
        items = await catalog.find_items(tx, ids)
        blobs = await catalog.blobs_of(tx, ids)
    # A note is always there: its text need not be fetched to know that.
    sources = {
        item.id: context.originals.of(item, blob=blobs.get(item.id))
        for item in items
        if item.type not in ("note", "record")
    }
    done = await reindex.reindex(context.db, base_id, ids, sources, on_active)
    return ReindexOut(
        root_ids=list(done.root_ids),
        job_id=done.job_id,
        failed=[RefusedItem.of(item_id, error) for item_id, error in done.refused.items()],
    )


def _parent(parent_id: str | None) -> ItemId | None:
    if parent_id in (None, "", "*"):
        return None
    try:
        return ItemId(UUID(parent_id))
    except ValueError:
        raise Invalid("parentId must be an item's id, or * for all items.") from None


@router.post("/knowledge-items/{item_id}/reprocess", status_code=202)
async def reprocess_item(item_id: PathItem, context: InContext) -> ReindexOut:
    """Rebuild one item with all that is below it."""
    async with context.db.connection() as tx:
        item = await guards.item_exists(tx, item_id)
    return await reindex_selection(context, item.base_id, [item.id], "reject")
