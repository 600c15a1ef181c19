"""The kinds of durable work that keep sources fresh; `work.py` has the table of all kinds."""

import hashlib
from dataclasses import dataclass

from gristmill.catalog import BaseId, ItemId
from gristmill.jobs import Priority, Work


@dataclass(frozen=True)
class FindDue(Work):
    """Queue checks for the bases that have sources to be checked now. Its schedule is the only standing cost of freshness."""

    kind = "find_due"
    attempts = 3

    def key(self) -> str:
        """One at a time."""
        return "refresh:due"


@dataclass(frozen=True)
class RefreshDocuments(Work):
    """Check the sources of pages and files that are due, or of these, and index what has changed."""

    kind = "refresh_documents"
    priority = Priority.BULK

    base_id: BaseId
    item_ids: tuple[ItemId, ...] = ()

    def key(self) -> str:
        """One per base, or per selection."""
        if self.item_ids:
            ids = ",".join(sorted(map(str, self.item_ids)))
            return f"knowledge:{self.base_id}:{hashlib.sha256(ids.encode()).hexdigest()}:refresh"
        return f"knowledge:{self.base_id}:refresh"


@dataclass(frozen=True)
class RefreshContainer(Work):
    """Compare a folder, sitemap or site with its source, and file, index or remove what differs."""

    kind = "refresh_container"
    priority = Priority.BULK

    base_id: BaseId
    item_id: ItemId

    def key(self) -> str:
        """One per container."""
        return f"item:{self.item_id}:refresh"
