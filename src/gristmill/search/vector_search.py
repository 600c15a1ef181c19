"""Vector search: the visible chunks that are nearest to the query by cosine similarity.

    few chunks in scope      compare every vector, in one statement
    many                     compare the sign bits of all vectors in memory, then the full vectors of the nearest ones

The sign bits are one bit per dimension: a scan of 200,000 chunks takes a few milliseconds and skips chunks that the viewer
can't see. Batches grow until enough of their chunks are visible, so that a search never returns fewer hits than exist.
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

MAX_EXACT_CHUNKS = 25_000  # up to this many chunks, all vectors are compared
FIRST_BATCH = 1000  # the number of nearest chunks by sign bits whose full vectors are compared first
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
    """The nearest `limit` chunks, best first."""
    async with store.read_transaction(db) as tx:
        snapshot = await cache.open(tx, base_id)
    width = -(-len(vector) // 64)
    # Segments that were written before sign bits were introduced have none until compaction rewrites them.
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


def _hamming_distances(
    snapshot: Snapshot, vector: store.Vector, mask: NDArray[np.bool_] | None
) -> NDArray[np.uint16]:
    """The number of sign bits in which each chunk differs from the query; the maximum for chunks outside the mask."""
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
        # Where many chunks are hidden, continue until as many visible ones were compared as usual: the best match may
        # be in the next batch.
        if len(compared) >= max(FIRST_BATCH // 2, limit):
            break
        offset, batch = end, batch * _GROWTH
    return sorted(compared, key=lambda hit: (-hit.score, hit.no))[:limit]


def _nearest_ordinals(distances: NDArray[np.uint16], count: int) -> NDArray[np.int64]:
    """The ordinals of the `count` smallest distances, nearest first, ties in the order of the ordinals."""
    if count < len(distances):
        threshold = np.partition(distances, count - 1)[count - 1]
        ordinals = np.flatnonzero(distances <= threshold)
    else:
        ordinals = np.arange(len(distances))
    return ordinals[np.lexsort((ordinals, distances[ordinals]))][:count]


def _candidates(rows: list[store.ScoredChunk]) -> list[Candidate]:
    return [Candidate(row.id, row.no, row.score) for row in rows]
