"""What a search may answer from: whose eyes ask, and under which conditions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.catalog import ADMIN, Viewer


@dataclass(frozen=True)
class Filters:
    """Conditions on the items that hits belong to; what is None or empty holds for all. `under` are containers, or
    documents with others inside, and stand for all that is below them; a connector is one."""

    types: tuple[str, ...] = ()
    under: tuple[UUID, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    created_after: datetime | None = None
    created_before: datetime | None = None
    updated_after: datetime | None = None
    updated_before: datetime | None = None


NO_FILTERS = Filters()


@dataclass(frozen=True)
class Scope:
    """Eyes and conditions, as every reading statement takes them."""

    viewer: Viewer = ADMIN
    filters: Filters = NO_FILTERS

    @property
    def is_everything(self) -> bool:
        """Whether nothing that answers is left out."""
        return self.viewer.principals is None and self.filters == NO_FILTERS

    def parameters(self) -> dict[str, Any]:
        """The parameters of the SQL function `item_searchable`."""
        filters = self.filters
        return {
            "eyes": self.viewer.principals,
            "types": list(filters.types) or None,
            "under": list(filters.under) or None,
            "metadata": Jsonb(dict(filters.metadata)) if filters.metadata else None,
            "created_after": filters.created_after,
            "created_before": filters.created_before,
            "updated_after": filters.updated_after,
            "updated_before": filters.updated_before,
        }


EVERYTHING = Scope()
