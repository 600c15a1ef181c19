"""Every kind of durable work: its arguments, lane, attempts, uniqueness and band.

    kind              arguments        lane    attempts   unique while it lives     band
    index_document    item, version    base    5          item and version          normal; interactive for few

A kind is added here, handled in `ingest/` or `connectors/`, and tied to its handler in `app.py`.
"""

from dataclasses import dataclass
from uuid import UUID

from gristmill.catalog import ItemId
from gristmill.jobs import Work


@dataclass(frozen=True)
class IndexDocument(Work):
    """Read, chunk, embed and publish one version of a leaf."""

    kind = "index_document"

    item_id: ItemId
    version: int

    def key(self) -> str:
        """One job per version of an item."""
        return f"item:{self.item_id}:{self.version}:index"

    def subject(self) -> UUID:
        """The item."""
        return self.item_id
