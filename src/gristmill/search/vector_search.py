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
from gristmill.search.fuse import Candidate
from gristmill.search.scope import Scope
from gristmill.search.segment import pack_signs
from gristmill.search.segment_cache import SegmentCache, Snapshot
from gristmill.search.selectivity import Selectivity

MAX_EXACT_CHUNKS = 25_000  # chunks that are compared one by one
FIRST_BATCH = 1000  # of the nearest by signs, by their whole vectors
_GROWTH = 4


async def search(
    db: Database,
    cache: SegmentCache,
    base_id: UUID,
    scope: Scope,
    selectivity: Selectivity,
    vector: store.Vector,
    limit: int,
) -> list[Candidate]:
    """The nearest `wanted` chunks, best first."""
    async with store.read_transaction(db) as tx:
        snapshot = await cache.open(tx, base_id)
    width = -(-len(vector) // 64)
    # Segments of before the signs were kept have none, until they are tidied.
    if snapshot.chunks <= MAX_EXACT_CHUNKS or any(
        arrays.signs.shape[0] != width for arrays in snapshot.arrays if len(arrays.nos)
    ):
        async with store.read_transaction(db) as tx:
            return _candidates(await store.nearest_chunks(tx, base_id, scope, vector, limit))
    if selectivity.items is not None and selectivity.keys is not None:
        mask = snapshot.mask_of_items(selectivity.keys)
        if np.count_nonzero(mask) <= MAX_EXACT_CHUNKS:
            async with store.read_transaction(db) as tx:
                rows = await store.nearest_chunks_of_items(
                    tx, base_id, scope, vector, selectivity.items, limit
                )
            return _candidates(rows)
    else:
        mask = None
    distances = await asyncio.to_thread(_hamming_distances, snapshot, vector, mask)
    return await _rerank_by_vector(db, base_id, scope, snapshot, distances, vector, limit)


async def similarities_of(
    db: Database, base_id: UUID, scope: Scope, vector: store.Vector, nos: list[int]
) -> list[Candidate]:
    """How near these chunks are, those that answer."""
    async with store.read_transaction(db) as tx:
        return _candidates(await store.similarities(tx, base_id, scope, vector, nos))


def _hamming_distances(
    snapshot: Snapshot, vector: store.Vector, mask: NDArray[np.bool_] | None
) -> NDArray[np.uint16]:
    """In how many signs each chunk differs; the most of all for those that can't answer."""
    query_bits = pack_signs([vector])[:, 0]
    parts: list[NDArray[np.uint16]] = []
    for arrays in snapshot.arrays:
        part = np.zeros(len(arrays.nos), np.uint16)
        for bits, query_word in zip(arrays.signs, query_bits, strict=True):
            part += np.bitwise_count(bits ^ query_word)
        parts.append(part)
    distances = np.concatenate(parts)
    return distances if mask is None else np.where(mask, distances, np.uint16(0xFFFF))


async def _rerank_by_vector(
    db: Database,
    base_id: UUID,
    scope: Scope,
    snapshot: Snapshot,
    distances: NDArray[np.uint16],
    vector: store.Vector,
    limit: int,
) -> list[Candidate]:
    candidate_count = int(np.count_nonzero(distances < 0xFFFF))
    compared: list[Candidate] = []
    offset, batch = 0, FIRST_BATCH
    while offset < candidate_count:
        end = min(candidate_count, offset + batch)
        ordinals = await asyncio.to_thread(_nearest_ordinals, distances, end)
        batch_ordinals = ordinals[offset:]
        async with store.read_transaction(db) as tx:
            compared += _candidates(
                await store.similarities(
                    tx, base_id, scope, vector, [int(no) for no in snapshot.nos[batch_ordinals]]
                )
            )
        # Where much is hidden, as many must answer as would be compared otherwise: else the best may be among the next.
        if len(compared) >= max(FIRST_BATCH // 2, limit):
            break
        offset, batch = end, batch * _GROWTH
    return sorted(compared, key=lambda hit: (-hit.score, hit.no))[:limit]


def _nearest_ordinals(distances: NDArray[np.uint16], count: int) -> NDArray[np.int64]:
    """The places of the `count` smallest distances, nearest first, ties by place."""
    if count < len(distances):
        threshold = np.partition(distances, count - 1)[count - 1]
        ordinals = np.flatnonzero(distances <= threshold)
    else:
        ordinals = np.arange(len(distances))
    return ordinals[np.lexsort((ordinals, distances[ordinals]))][:count]


def _candidates(rows: list[store.ScoredChunk]) -> list[Candidate]:
    return [Candidate(row.id, row.no, row.score) for row in rows]
