"""A knowledge base: a tree of items that are embedded alike and searched together."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NewType
from uuid import UUID

from gristmill.catalog.lifecycle import BaseStatus

BaseId = NewType("BaseId", UUID)
OnRestart = Literal["resume", "park"]


@dataclass(frozen=True)
class Base:
    """A row of `base`."""

    id: BaseId
    name: str
    status: BaseStatus
    error_code: str | None
    error_message: str | None
    embedder: str
    embedder_identity: str
    dimensions: int
    chunking: dict[str, Any]
    file_processor: str | None
    on_restart: OnRestart
    acl: list[str]
    created_at: datetime
    updated_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", BaseStatus(self.status))

    @property
    def lane(self) -> str:
        """The lane that the base's jobs run in."""
        return str(self.id)
