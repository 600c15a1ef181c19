"""The vector leg: the nearest chunks by cosine, for these eyes.

    few chunks can answer      every vector is compared, in one statement
    many                       the signs of all vectors in memory, then the nearest of those by their whole vectors

The signs are a bit for each dimension: a scan of 200,000 takes some milliseconds, leaves out what the caller may not see,
and costs nothing to keep up. Batches grow until enough of them answer, so that nobody gets fewer hits than there are.
"""

import asyncio
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.db import Database
from gristmill.search import store
from gristmill.search.fuse import Found
from gristmill.search.reach import Reach
from gristmill.search.scope import Scope
from gristmill.search.segment import codes_of
from gristmill.search.shelf import Open, Shelf

EXACT = 25_000  # chunks that are compared one by one
COMPARED = 1000  # of the nearest by signs, by their whole vectors
_GROWTH = 4


async def search(
    db: Database, shelf: Shelf, base_id: UUID, scope: Scope, reach: Reach, vector: store.Vector, wanted: int
) -> list[Found]:
    """The nearest `wanted` chunks, best first."""
    async with store.reading(db) as tx:
        opened = await shelf.open(tx, base_id)
    width = -(-len(vector) // 64)
    # Segments of before the signs were kept have none, until they are tidied.
    if opened.chunks <= EXACT or any(a.codes.shape[0] != width for a in opened.arrays if len(a.nos)):
        async with store.reading(db) as tx:
            return _found(await store.nearest(tx, base_id, scope, vector, wanted))
    if reach.items is not None and reach.keys is not None:
        mask = opened.of_items(reach.keys)
        if np.count_nonzero(mask) <= EXACT:
            async with store.reading(db) as tx:
                near = await store.nearest_of_items(tx, base_id, scope, vector, reach.items, wanted)
            return _found(near)
    else:
        mask = None
    distances = await asyncio.to_thread(_distances, opened, vector, mask)
    return await _compare(db, base_id, scope, opened, distances, vector, wanted)


async def measure(
    db: Database, base_id: UUID, scope: Scope, vector: store.Vector, nos: list[int]
) -> list[Found]:
    """How near these chunks are, those that answer."""
    async with store.reading(db) as tx:
        return _found(await store.measured(tx, base_id, scope, vector, nos))


def _distances(opened: Open, vector: store.Vector, mask: NDArray[np.bool_] | None) -> NDArray[np.uint16]:
    """In how many signs each chunk differs; the most of all for those that can't answer."""
    asked = codes_of([vector])[:, 0]
    parts: list[NDArray[np.uint16]] = []
    for arrays in opened.arrays:
        part = np.zeros(len(arrays.nos), np.uint16)
        for signs, sought in zip(arrays.codes, asked, strict=True):
            part += np.bitwise_count(signs ^ sought)
        parts.append(part)
    distances = np.concatenate(parts)
    return distances if mask is None else np.where(mask, distances, np.uint16(0xFFFF))


async def _compare(
    db: Database,
    base_id: UUID,
    scope: Scope,
    opened: Open,
    distances: NDArray[np.uint16],
    vector: store.Vector,
    wanted: int,
) -> list[Found]:
    candidates = int(np.count_nonzero(distances < 0xFFFF))
    found: list[Found] = []
    done, batch = 0, COMPARED
    while done < candidates:
        upto = min(candidates, done + batch)
        chosen = await asyncio.to_thread(_nearest_places, distances, upto)
        part = chosen[done:]
        async with store.reading(db) as tx:
            found += _found(
                await store.measured(tx, base_id, scope, vector, [int(no) for no in opened.nos[part]])
            )
        # Where much is hidden, as many must answer as would be compared otherwise: else the best may be among the next.
        if len(found) >= max(COMPARED // 2, wanted):
            break
        done, batch = upto, batch * _GROWTH
    return sorted(found, key=lambda hit: (-hit.score, hit.no))[:wanted]


def _nearest_places(distances: NDArray[np.uint16], count: int) -> NDArray[np.int64]:
    """The places of the `count` smallest distances, nearest first, ties by place."""
    if count < len(distances):
        most = np.partition(distances, count - 1)[count - 1]
        chosen = np.flatnonzero(distances <= most)
    else:
        chosen = np.arange(len(distances))
    return chosen[np.lexsort((chosen, distances[chosen]))][:count]


def _found(rows: list[store.Scored]) -> list[Found]:
    return [Found(row.id, row.no, row.score) for row in rows]
