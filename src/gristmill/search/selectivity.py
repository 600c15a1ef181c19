"""Measures how many items are in the scope of a search, which decides how the search runs.

all items         an admin without filters: nothing to check
few items         listed by id: only their chunks are scored
many items        all chunks are scored, then checked from the best down until enough are visible
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.db import Tx
from gristmill.search import store
from gristmill.search.scope import Scope
from gristmill.search.segment import item_key

MAX_LISTED_ITEMS = 5000  # a list of this length is read in a few milliseconds, whatever the size of the base


@dataclass(frozen=True)
class Selectivity:
    """The ids and keys of the items in scope if they are few; None if they are many or all."""

    items: Sequence[UUID] | None = None
    keys: NDArray[np.int64] | None = None


UNRESTRICTED = Selectivity()


async def measure_selectivity(tx: Tx, base_id: UUID, scope: Scope) -> Selectivity:
    """List the items of a base that are in scope, if they are few."""
    if scope.is_everything:
        return UNRESTRICTED
    items = await store.items_in_scope(tx, base_id, scope, MAX_LISTED_ITEMS + 1)
    if len(items) > MAX_LISTED_ITEMS:
        return UNRESTRICTED
    return Selectivity(items, np.array([item_key(item) for item in items], np.int64))
