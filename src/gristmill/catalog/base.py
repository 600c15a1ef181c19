"""A knowledge base: a tree of items that are embedded alike and searched together."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NewType
from uuid import UUID

from gristmill.catalog.lifecycle import BaseStatus
from gristmill.identity.organisation import OrgId

BaseId = NewType("BaseId", UUID)
OnRestart = Literal["resume", "park"]
AssetReuse = Literal["any", "document", "force"]


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
    ingested: bool  # all that it was given has been announced as done
    busy_since: datetime | None  # when it was given what is not
    settings: dict[str, Any]
    org_id: OrgId

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", BaseStatus(self.status))

    @property
    def lane(self) -> str:
        """The lane that the base's jobs run in."""
        return str(self.id)

    @property
    def ignore(self) -> list[str]:
        """Patterns of what its folders leave out."""
        return self.settings.get("ignore", [])

    @property
    def asset_reuse(self) -> AssetReuse:
        """Whether what was said of an equal image before will do: for any document, for the same, or never."""
        return self.settings.get("assetReuse", "any")

    @property
    def include_hidden(self) -> bool:
        """Whether its folders take in names that begin with a dot."""
        return self.settings.get("includeHidden", False)
