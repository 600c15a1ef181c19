"""Items to add, one model per type, and selections of items.

Each model translates itself into what `operations/add.py` takes: the item to insert, and the source to probe before the
request is answered (none where probing would make the caller wait for the network).
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, field_validator

from gristmill.catalog import NewItem, access
from gristmill.errors import Permanent
from gristmill.operations import add
from gristmill.operations.source_factory import FolderSource, SourceFactory
from gristmill.server.api.schemas.common import (
    Acl,
    JsonObject,
    NonBlankText,
    PathText,
    Patterns,
    RequestModel,
    Title,
)
from gristmill.sources import NoteSource, normalise
from gristmill.work import OnActive


class _NewItemFields(RequestModel):
    """Fields of every item type. Without `acl` the item inherits the access list of its container or base."""

    title: Title | None = None
    acl: Acl | None = None
    metadata: Annotated[JsonObject, Field(default_factory=dict)]

    def with_acl_and_metadata(self, item: NewItem) -> NewItem:
        """`item` with the access list and metadata of the request."""
        acl = None if self.acl is None else access.parse_acl(self.acl)
        return replace(item, acl=acl, metadata=self.metadata)


class NewNote(_NewItemFields):
    """A note; its text is part of the request."""

    type: Literal["note"]
    content: NonBlankText

    def to_entry(self, _sources: SourceFactory) -> add.ItemToAdd:
        """The item to add."""
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
            raise ValueError("must be an absolute path on the server, such as /srv/documents")
        return os.path.normpath(path)

    def new_item(self, kind: str) -> NewItem:
        """The item, identified by its path."""
        name = self.title or Path(self.path).name or self.path
        return self.with_acl_and_metadata(NewItem(kind, name, self.path, source={"path": self.path}))


class NewFile(_DiskItem):
    """A file on the server's disk, read when it is indexed."""

    type: Literal["file"]

    def to_entry(self, sources: SourceFactory) -> add.ItemToAdd:
        """The item to add."""
        return add.ItemToAdd(self.new_item("file"), sources.file_source(Path(self.path)))


class NewDirectory(_DiskItem):
    """A folder on the server's disk with everything below it; each file becomes its own item."""

    type: Literal["directory"]
    ignore: Patterns | None = None

    def to_entry(self, _sources: SourceFactory) -> add.ItemToAdd:
        """The item to add. The ignore patterns are part of its source, so that a reindex applies them again."""
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
        """The item, identified by its URL."""
        return self.with_acl_and_metadata(
            NewItem(kind, self.title or self.url[:500], self.url, source={"url": self.url})
        )


class NewUrl(_WebItem):
    """A web page, fetched when it is indexed."""

    type: Literal["url"]

    def to_entry(self, _sources: SourceFactory) -> add.ItemToAdd:
        """The item to add. Its job fetches the page, so that the caller does not wait for it."""
        return add.ItemToAdd(self.new_item("url"), None)


class NewSitemap(_WebItem):
    """A sitemap, or a site whose robots.txt names one; each page becomes its own item."""

    type: Literal["sitemap"]

    def to_entry(self, _sources: SourceFactory) -> add.ItemToAdd:
        """The item to add."""
        return add.ItemToAdd(self.new_item("sitemap"), None)


AnyItem = Annotated[NewNote | NewFile | NewDirectory | NewUrl | NewSitemap, Field(discriminator="type")]


class NewItems(RequestModel):
    """Items to add; each is accepted or rejected on its own."""

    items: Annotated[list[AnyItem], Field(max_length=10_000)]
    parent_id: UUID | None = None
    on_conflict: add.OnConflict = "rename"


class Selection(RequestModel):
    """Items, each including everything below it."""

    item_ids: Annotated[list[UUID], Field(max_length=10_000)]


class ReindexSelection(Selection):
    """Items to reindex, and what to do when some of them are still being processed."""

    on_active: OnActive = "reject"
