"""Saved searches."""

from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import Field

from gristmill import search
from gristmill.search.saved_searches import SavedSearch
from gristmill.server.api.schemas.common import (
    JsonObject,
    Name,
    NonBlankText,
    RequestModel,
    StoredModel,
)
from gristmill.server.api.schemas.search import FiltersIn
from gristmill.server.api.search_targets import MAX_BASES


class StoredSearch(RequestModel):
    """What is searched for: fields of `POST /api/search`."""

    query: Annotated[NonBlankText, Field(max_length=10_000)]
    base_ids: Annotated[list[UUID], Field(max_length=MAX_BASES)] | None = None
    mode: search.Mode = "hybrid"
    filters: Annotated[FiltersIn, Field(default_factory=FiltersIn.model_construct)]
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields that were sent, as they are stored."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class NewSavedSearch(RequestModel):
    """A search to store under a name."""

    name: Name
    search: StoredSearch


class SavedSearchChange(RequestModel):
    """Changes to a saved search; omitted fields stay as they are."""

    name: Name | None = None
    search: StoredSearch | None = None


class SavedSearchOut(StoredModel):
    """A saved search. `search` is what was sent: the body of a `POST /api/search`."""

    name: str
    search: JsonObject

    @classmethod
    def of(cls, saved: SavedSearch) -> Self:
        """Show `saved`."""
        return cls(
            id=saved.id,
            name=saved.name,
            search=saved.request,
            created_at=saved.created_at,
            updated_at=saved.updated_at,
        )
