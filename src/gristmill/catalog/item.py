"""An item of a base: a container (directory, sitemap, connector) or a leaf (file, url, note, record)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NewType
from uuid import UUID

from gristmill.catalog.base import BaseId
from gristmill.catalog.lifecycle import ItemStatus

ItemId = NewType("ItemId", UUID)

CONTAINERS = frozenset({"directory", "sitemap", "connector"})


@dataclass(frozen=True)
class Item:
    """A row of `item`, without a note's text."""

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
    created_at: datetime
    updated_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", ItemStatus(self.status))


@dataclass(frozen=True)
class NewItem:
    """What is to be filed; `body` is a note's text."""

    type: str
    title: str
    source: dict[str, Any] = field(default_factory=dict[str, Any])
    body: str | None = None
    size_bytes: int | None = None
