"""An item of a base: a container (directory, sitemap, site, connector) or a leaf (file, url, note, record)."""

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NewType
from uuid import UUID

from gristmill.catalog.base import BaseId
from gristmill.catalog.lifecycle import ItemStatus
from gristmill.errors import GristmillError

ItemId = NewType("ItemId", UUID)

CONTAINERS = frozenset({"directory", "sitemap", "site", "connector"})


@dataclass(frozen=True)
class Item:
    """A row of `item`, without the text of a note or record."""

    id: ItemId
    base_id: BaseId
    parent_id: ItemId | None
    type: str
    title: str
    status: ItemStatus
    error_code: str | None
    error_message: str | None
    warnings: list[str]
    source: dict[str, Any]
    size_bytes: int | None
    wanted_version: int
    live_version: int | None
    chunk_count: int
    left_out: dict[str, int]  # containers: what the last listing skipped, by reason
    created_at: datetime
    updated_at: datetime
    percent: float | None = None  # progress of the wanted version, in queries that select it
    waiting_for: dict[str, Any] | None = None  # why it does not proceed, since when and until when
    acl: list[str] | None = None  # its own access list; None inherits
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    document: dict[str, Any] = field(
        default_factory=dict[str, Any]
    )  # what the live version says of itself, in queries that select it
    acl_as_of: datetime | None = None  # records: when their permissions were last read from the tool
    chunking: dict[str, Any] = field(default_factory=dict[str, Any])  # what differs from its base's
    file_id: UUID | None = (
        None  # the file that it was made from, in queries that select it; None: it has its own
    )
    acl_from: ItemId | None = (
        None  # the item whose access list applies, in queries that select it; None: its base's
    )

    freshness: dict[str, Any] | None = (
        None  # when its source is checked, and whether it is watched, in queries that select it
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", ItemStatus(self.status))

    @property
    def is_container(self) -> bool:
        """Whether its children come from its source."""
        return self.type in CONTAINERS


# Characters that reverse what follows, so that a name like "invoice[U+202E]fdp.exe" looks like another one.
_BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_INVISIBLE_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")  # control characters, surrogates, line separators


MAX_PAGE_TITLE = 500


def displayable(title: str) -> str:
    """`title` on one line, without characters that a terminal or page would act on instead of showing them."""
    shown = "".join(
        " " if unicodedata.category(letter) in _INVISIBLE_CATEGORIES else letter
        for letter in title
        if letter not in _BIDI_CONTROLS
    )
    return shown.strip() or "untitled"


def title_of_web_page(source: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """The title of a page that no one named: what it calls itself, else its address. `publish_versions` sets the same."""
    return str(document.get("title") or source["url"][:MAX_PAGE_TITLE])


def index_title(title: str, document: Mapping[str, Any]) -> str:
    """What keyword search indexes with every chunk of an item: its title, and the title, authors and keywords that the
    document declares, the lists cut as the column of this name does."""
    own = str(document.get("title", ""))
    added = [own] if own.lower() not in title.lower() else []
    for name, limit in (("authors", 100), ("keywords", 200)):
        if document.get(name):
            added.append(json.dumps(document[name], ensure_ascii=False)[:limit])
    return " ".join([title, *added])


def new_page(url: str) -> "NewItem":
    """A web page that no one named."""
    return NewItem("url", url[:MAX_PAGE_TITLE], url, source={"url": url}, titled_by_source=True)


@dataclass(frozen=True)
class NewItem:
    """An item to file. Two of one type with equal `key` under one parent are the same thing; `body` is a note's text, `blob` the
    hash of an uploaded file, `chunking` what differs from the base's, `file_id` the stored file that it is made from. An item with an `error` is filed as failed, and gets no job. Its title is made fit to be shown."""

    type: str
    title: str
    key: str
    source: dict[str, Any] = field(default_factory=dict[str, Any])
    body: str | None = None
    blob: bytes | None = None
    size_bytes: int | None = None
    error: GristmillError | None = None
    acl: list[str] | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    chunking: dict[str, Any] = field(default_factory=dict[str, Any])
    file_id: UUID | None = None
    fingerprint: str | None = None  # of a file on the disk
    titled_by_source: bool = False  # no one named it: its title is that of the document, once there is one

    def __post_init__(self) -> None:
        if not self.title.isprintable():
            object.__setattr__(self, "title", displayable(self.title))

    @property
    def status(self) -> ItemStatus:
        """Its first status."""
        if self.error is not None:
            return ItemStatus.FAILED
        return ItemStatus.PREPARING if self.type in CONTAINERS else ItemStatus.PROCESSING
