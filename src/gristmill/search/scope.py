"""The scope of a search: the viewer and the filters that hits must pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.catalog import ADMIN, Viewer
from gristmill.search.conditions import Condition, to_jsonpath


@dataclass(frozen=True)
class Filters:
    """Conditions on the items of hits; None or empty means no condition. `under` lists containers (a connector is one)
    or documents with attachments, and includes everything below them."""

    types: tuple[str, ...] = ()
    under: tuple[UUID, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    condition: Condition | None = None  # on the metadata, with operators
    created_after: datetime | None = None
    created_before: datetime | None = None
    updated_after: datetime | None = None
    updated_before: datetime | None = None


NO_FILTERS = Filters()


@dataclass(frozen=True)
class Scope:
    """The viewer and the filters, as parameters of every statement that reads chunks."""

    viewer: Viewer = ADMIN
    filters: Filters = NO_FILTERS

    @property
    def is_everything(self) -> bool:
        """Whether every live item is in scope."""
        return self.viewer.principals is None and self.filters == NO_FILTERS

    def parameters(self) -> dict[str, Any]:
        """The parameters of the SQL function `item_searchable`."""
        filters = self.filters
        return {
            "principals": self.viewer.principals,
            "types": list(filters.types) or None,
            "under": list(filters.under) or None,
            "metadata": Jsonb(dict(filters.metadata)) if filters.metadata else None,
            "condition": None if filters.condition is None else to_jsonpath(filters.condition),
            "created_after": filters.created_after,
            "created_before": filters.created_before,
            "updated_after": filters.updated_after,
            "updated_before": filters.updated_before,
        }


EVERYTHING = Scope()
