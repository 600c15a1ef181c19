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

FEW = 5000  # items; a list of them is read in some milliseconds, whatever the size of the base


@dataclass(frozen=True)
class Reach:
    """The items that can answer, when they are few; None when they are many, or all."""

    items: Sequence[UUID] | None = None
    keys: NDArray[np.int64] | None = None


ALL = Reach()


async def reach(tx: Tx, base_id: UUID, scope: Scope) -> Reach:
    """How much of a base is in scope."""
    if scope.is_everything:
        return ALL
    items = await store.scope(tx, base_id, scope, FEW + 1)
    if len(items) > FEW:
        return ALL
    return Reach(items, np.array([item_key(item) for item in items], np.int64))
