"""Vector search: the visible chunks that are nearest to the query by cosine similarity.

    few chunks in scope      compare every vector, in one statement
    many                     compare the sign bits of all vectors in memory, then the full vectors of the nearest ones

The sign bits are one bit per dimension: a scan of 200,000 chunks takes a few milliseconds and skips chunks that the viewer
can't see. Batches grow until enough of their chunks are visible, so that a search never returns fewer hits than exist.
"""

import asyncio
from collections.abc import Mapping
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.catalog import Base
from gristmill.db import Database, Tx
from gristmill.search import store
from gristmill.search.fuse import Candidate
from gristmill.search.scope import Scope
from gristmill.search.segment import Mask, pack_signs
from gristmill.search.segment_cache import SegmentCache, Signs
from gristmill.search.selectivity import Selectivity
from gristmill.search.snapshot import Snapshot

MAX_EXACT_CHUNKS = 25_000  # up to this many chunks, all vectors are compared
FIRST_BATCH = 1000  # the number of nearest chunks by sign bits whose full vectors are compared first
_GROWTH = 4
_HIDDEN = 0xFFFF  # the distance of chunks that are not in scope
_BLOCKS_PER_CANDIDATE = 4


async def search(
    db: Database,
    cache: SegmentCache,
    base: Base,
    scope: Scope,
    selectivity: Selectivity,
    vector: store.Vector,
    limit: int,
) -> list[Candidate]:
    """The nearest `limit` chunks, best first."""
    async with store.read_transaction(db) as tx:
        snapshot = await cache.open(tx, base.chunk_set)
        mask = await _scope_mask(snapshot, selectivity)
        if not _has_signs(snapshot, vector):
            return _candidates(await store.nearest_chunks(tx, base, scope, vector, limit))
        if mask is not None and selectivity.items is not None and np.count_nonzero(mask) <= MAX_EXACT_CHUNKS:
            items = selectivity.items
            return _candidates(await store.nearest_chunks_of_items(tx, base, scope, vector, items, limit))
        distances = (
            await _distances(tx, cache, base.chunk_set, snapshot, vector)
            if cache.has_all("signs", snapshot)
            else None
        )
    if distances is None:  # wait for a turn to read them, meanwhile without a connection
        async with cache.turn("signs", base.chunk_set), store.read_transaction(db) as tx:
            snapshot = await cache.open(tx, base.chunk_set)
            mask = await _scope_mask(snapshot, selectivity)
            distances = await _distances(tx, cache, base.chunk_set, snapshot, vector)
    if mask is not None:
        distances[~mask] = _HIDDEN
    return await _rerank_by_vector(db, base, scope, snapshot, distances, vector, limit)


def _has_signs(snapshot: Snapshot, vector: store.Vector) -> bool:
    """Whether sign bits are scanned. Segments that were written before they were introduced have none until compaction
    rewrites them."""
    width = -(-len(vector) // 64)
    return snapshot.chunks > MAX_EXACT_CHUNKS and all(
        chunks.sign_words == width for chunks in snapshot.segments if chunks.nos.size
    )


async def _scope_mask(snapshot: Snapshot, selectivity: Selectivity) -> Mask | None:
    """Marks the chunks in scope; None if that is not known."""
    if selectivity.keys is None:
        return None
    return await asyncio.to_thread(snapshot.mask_of_items, selectivity.keys)


async def _distances(
    tx: Tx, cache: SegmentCache, set_id: UUID, snapshot: Snapshot, vector: store.Vector
) -> NDArray[np.uint16]:
    """The number of sign bits in which each chunk differs from the query."""
    distances = np.full(snapshot.chunks, _HIDDEN, np.uint16)
    query_bits = pack_signs([vector])[:, 0]
    await cache.scan_signs(
        tx, set_id, snapshot, lambda signs: _measure_distances(snapshot, signs, query_bits, distances)
    )
    return distances


def _measure_distances(
    snapshot: Snapshot,
    signs: Mapping[int, Signs],
    query_bits: NDArray[np.uint64],
    distances: NDArray[np.uint16],
) -> None:
    """Write the number of sign bits in which each chunk of some segments differs from the query."""
    for position, words in signs.items():
        if len(words) != len(query_bits):  # written with another embedder since
            continue
        part = distances[snapshot.starts[position] : snapshot.starts[position + 1]]
        part[:] = 0
        difference, bit_counts = np.empty(len(part), np.uint64), np.empty(len(part), np.uint8)
        for word, query_word in zip(words, query_bits, strict=True):
            np.bitwise_xor(word, query_word, out=difference)
            np.bitwise_count(difference, out=bit_counts)
            part += bit_counts


async def _rerank_by_vector(
    db: Database,
    base: Base,
    scope: Scope,
    snapshot: Snapshot,
    distances: NDArray[np.uint16],
    vector: store.Vector,
    limit: int,
) -> list[Candidate]:
    candidate_count = int(np.count_nonzero(distances != _HIDDEN))
    needed = max(FIRST_BATCH // 2, limit)
    nearest: list[Candidate] = []
    compared = 0
    offset, batch = 0, FIRST_BATCH
    while offset < candidate_count:
        end = min(candidate_count, offset + batch)
        ordinals = await asyncio.to_thread(nearest_ordinals, distances, end)
        nos: list[int] = snapshot.nos_at(ordinals[offset:]).tolist()
        async with store.read_transaction(db) as tx:
            rows, visible = await store.similarities(tx, base, scope, vector, nos, limit)
        nearest += _candidates(rows)
        compared += visible
        # Where many chunks are hidden, continue until as many visible ones were compared as usual: the best match may
        # be in the next batch.
        if compared >= needed:
            break
        offset, batch = end, _next_batch(batch, compared=compared, of=end, needed=needed)
    return sorted(nearest, key=lambda hit: (-hit.score, hit.no))[:limit]


def _next_batch(batch: int, *, compared: int, of: int, needed: int) -> int:
    """As many as should hold the visible chunks that are missing, if as many are visible as so far, and some more."""
    largest = batch * _GROWTH
    return (
        max(batch // _GROWTH, min(largest, 3 * of * (needed - compared) // (2 * compared)))
        if compared
        else largest
    )


def nearest_ordinals(distances: NDArray[np.uint16], count: int) -> NDArray[np.int64]:
    """The ordinals of the `count` smallest distances, nearest first, ties in the order of the ordinals."""
    ordinals = np.flatnonzero(distances <= _bound_of_nearest(distances, count))
    if count < len(ordinals):
        values = distances[ordinals]
        ordinals = ordinals[values <= np.partition(values, count - 1)[count - 1]]
    return ordinals[np.lexsort((ordinals, distances[ordinals]))][:count]


def _bound_of_nearest(distances: NDArray[np.uint16], count: int) -> int:
    """A distance that at least `count` chunks don't exceed: so many blocks have one that is as near. Most chunks are
    farther, and need not be compared with each other."""
    block = len(distances) // (_BLOCKS_PER_CANDIDATE * count)
    if block < 2:
        return _HIDDEN
    nearest = np.minimum.reduceat(distances, np.arange(0, len(distances), block))
    return int(np.partition(nearest, count - 1)[count - 1])


def _candidates(rows: list[store.ScoredChunk]) -> list[Candidate]:
    return [Candidate(row.id, row.no, row.score) for row in rows]
