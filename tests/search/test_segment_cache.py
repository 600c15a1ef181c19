"""The cache of segments stays within its limit, and searches don't depend on what it holds."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest

from gristmill import catalog
from gristmill.catalog import Base, NewItem
from gristmill.db import Database, Tx
from gristmill.search import Chunk, keyword_search, segment_cache, segment_store, vector_search
from gristmill.search.fuse import Candidate
from gristmill.search.scope import EVERYTHING
from gristmill.search.segment_cache import SegmentCache
from gristmill.search.selectivity import UNRESTRICTED
from tests.search.published_items import EMBEDDER, new_base, publish_version, write

SEGMENTS, CHUNKS = 12, 100
VECTOR = EMBEDDER.vector("a query")


@pytest.fixture
async def base(db: Database, monkeypatch: pytest.MonkeyPatch) -> Base:
    """Segments of random words and vectors, of which sign bits are compared and two are read at a time."""
    monkeypatch.setattr(vector_search, "MAX_EXACT_CHUNKS", 0)
    monkeypatch.setattr(segment_cache, "_MAX_CHUNKS_READ", 2 * CHUNKS)
    base = await new_base(db)
    rng = np.random.default_rng(3)
    for number in range(SEGMENTS):
        texts = [" ".join(f"w{word}" for word in rng.geometric(0.05, 20)) for _ in range(CHUNKS)]
        vectors = rng.standard_normal((CHUNKS, EMBEDDER.dimensions)).astype(np.float32)
        async with db.transaction() as tx:
            (item,) = await catalog.insert_items(
                tx, base.id, None, [NewItem("note", f"{number}", f"{number}")]
            )
            chunks = [
                Chunk(index, text, 0, 1, (), vector)
                for index, (text, vector) in enumerate(zip(texts, vectors, strict=True))
            ]
            await write(tx, base, [(item, 1, chunks)])
            await publish_version(tx, [item], 1, CHUNKS)
    return base


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The segments whose sign bits are read, one after the other."""
    ids_read: list[int] = []
    read_segment_signs = segment_store.read_segment_signs

    async def record(tx: Tx, base_id: UUID, ids: Sequence[int]) -> list[segment_store.SignsRow]:
        ids_read.extend(ids)
        return await read_segment_signs(tx, base_id, ids)

    monkeypatch.setattr(segment_store, "read_segment_signs", record)
    return ids_read


async def by_vector(db: Database, cache: SegmentCache, base: Base) -> list[Candidate]:
    return await vector_search.search(db, cache, base, EVERYTHING, UNRESTRICTED, VECTOR, 20)


async def by_words(db: Database, cache: SegmentCache, base: Base, query: str) -> list[Candidate]:
    results = await keyword_search.search(db, cache, base, EVERYTHING, UNRESTRICTED, query, 20)
    return results.candidates


@pytest.mark.parametrize("limit", [1, 20_000, 60_000, 100_000, 2**30])
async def test_results_are_the_same_and_the_limit_holds_whatever_it_is(
    db: Database, base: Base, limit: int
) -> None:
    """A base larger than the memory for it is read in parts by each search."""
    cache = SegmentCache(limit)
    expected = [await by_vector(db, SegmentCache(2**30), base)]
    queries = ["w1 w2", "w3 w40 -w5", "w1*", "nothing"]
    expected += [await by_words(db, SegmentCache(2**30), base, query) for query in queries]
    for _ in range(2):
        hits = [await by_vector(db, cache, base)]
        hits += [await by_words(db, cache, base, query) for query in queries]
        assert hits == expected
        # The numbers, items and lengths of the base that is searched are always in memory.
        assert cache.used_bytes <= max(limit, SEGMENTS * (CHUNKS * 4 + segment_cache.OBJECT_BYTES) * 2)


async def test_a_search_does_not_evict_what_the_next_one_needs(
    db: Database, base: Base, reads: list[int]
) -> None:
    """Of a base that does not fit, a part stays in memory, and the rest is read by each search."""
    cache = SegmentCache(50_000)
    per_search: list[list[int]] = []
    for _ in range(4):
        reads.clear()
        await by_vector(db, cache, base)
        per_search.append(sorted(reads))
    assert len(per_search[0]) == SEGMENTS
    assert 0 < len(per_search[1]) < SEGMENTS
    assert per_search[1] == per_search[2] == per_search[3]


async def test_of_searches_that_come_at_once_one_reads(db: Database, base: Base, reads: list[int]) -> None:
    """After a start, a hundred searches don't hold a hundred copies."""
    cache = SegmentCache(2**30)
    await asyncio.gather(*(by_vector(db, cache, base) for _ in range(4)))
    assert len(reads) == SEGMENTS


async def test_searches_that_wait_for_another_hold_no_connection(db: Database, base: Base) -> None:
    """However many there are, searches in other bases go on."""
    cache = SegmentCache(2**30)
    async with cache.turn("signs", base.id), cache.turn("index", base.id):
        waiting = [asyncio.create_task(by_vector(db, cache, base)) for _ in range(20)]
        waiting += [asyncio.create_task(by_words(db, cache, base, "w1")) for _ in range(20)]
        other = await new_base(db, "other")
        assert await by_words(db, cache, other, "w1") == []
        assert not any(task.done() for task in waiting)
    assert all(await asyncio.gather(*waiting))


async def test_the_memory_of_bases_that_are_no_longer_searched_is_used_for_others(
    db: Database, base: Base, monkeypatch: pytest.MonkeyPatch, reads: list[int]
) -> None:
    monkeypatch.setattr(segment_cache, "_RECENT_SEARCHES", 2)
    cache = SegmentCache(70_000)
    await by_vector(db, cache, base)
    other = await new_base(db, "other")
    async with db.transaction() as tx:
        (item,) = await catalog.insert_items(tx, other.id, None, [NewItem("note", "x", "x")])
        vectors = np.random.default_rng(4).standard_normal((3000, EMBEDDER.dimensions)).astype(np.float32)
        await write(tx, other, [(item, 1, [Chunk(n, "x", 0, 1, (), row) for n, row in enumerate(vectors)])])
        await publish_version(tx, [item], 1, 3000)
    for _ in range(4):
        reads.clear()
        await by_vector(db, cache, other)
    assert reads == []
