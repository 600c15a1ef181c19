"""Measures how many items are in the scope of a search, which decides how the search runs.

all items         an admin without filters: nothing to check
few items         listed by id: only their chunks are scored
a part            listed by key, to mark their chunks: only marked ones are looked at
many items        all chunks are scored, then checked from the best down until enough are visible

The list only says where to look. Whatever is found is checked again when it is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.db import Tx
from gristmill.search import store
from gristmill.search.scope import Scope
from gristmill.search.segment import item_keys

MAX_LISTED_ITEMS = 5000  # a list of this length is read in a few milliseconds, whatever the size of the base
_MARKED_PER_LISTED = (
    4  # up to so many times as many, marking their chunks is quicker than checking all that are hidden
)


@dataclass(frozen=True)
class Selectivity:
    """The items in scope: their ids if they are few, their keys also if they are not so few; None if they are many or
    all."""

    items: Sequence[UUID] | None = None
    keys: NDArray[np.int64] | None = None


UNRESTRICTED = Selectivity()


async def measure_selectivity(tx: Tx, base_id: UUID, scope: Scope) -> Selectivity:
    """List the items of a base that are in scope, unless they are many."""
    limit = MAX_LISTED_ITEMS * _MARKED_PER_LISTED
    if scope.is_everything or limit < 0:
        return UNRESTRICTED
    ids = await store.item_ids_in_scope(tx, base_id, scope, limit + 1)
    count = len(ids) // 16
    if count > limit:
        return UNRESTRICTED
    keys = item_keys(ids)
    if count > MAX_LISTED_ITEMS:
        return Selectivity(None, keys)
    return Selectivity([UUID(bytes=ids[start : start + 16]) for start in range(0, len(ids), 16)], keys)
