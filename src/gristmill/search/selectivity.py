"""How much a search may answer from, which decides how it is done.

everything        an admin without filters: nothing is asked
few items         they are known by id: only their chunks are looked at
many items        the best chunks are looked at first, and checked, until enough of them answer
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

MAX_LISTED_ITEMS = 5000  # items; a list of them is read in some milliseconds, whatever the size of the base


@dataclass(frozen=True)
class Selectivity:
    """The items that can answer, when they are few; None when they are many, or all."""

    items: Sequence[UUID] | None = None
    keys: NDArray[np.int64] | None = None


UNRESTRICTED = Selectivity()


async def measure_selectivity(tx: Tx, base_id: UUID, scope: Scope) -> Selectivity:
    """How much of a base is in scope."""
    if scope.is_everything:
        return UNRESTRICTED
    items = await store.items_in_scope(tx, base_id, scope, MAX_LISTED_ITEMS + 1)
    if len(items) > MAX_LISTED_ITEMS:
        return UNRESTRICTED
    return Selectivity(items, np.array([item_key(item) for item in items], np.int64))
