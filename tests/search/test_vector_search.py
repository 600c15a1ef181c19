"""Vector search: exact for few chunks, by sign bits for many; never fewer hits than exist."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import catalog
from gristmill.catalog import Base, NewItem, Viewer
from gristmill.db import Database
from gristmill.search import Chunk, Scope, selectivity, store, vector_search
from gristmill.search.segment_cache import SegmentCache
from tests.search.published_items import EMBEDDER, new_base, publish_version, write

ITEMS, EACH = 60, 10


@pytest.fixture
async def base(db: Database) -> Base:
    """Random vectors; every tenth item is visible to a team only."""
    base = await new_base(db)
    rng = np.random.default_rng(5)
    async with db.transaction() as tx:
        new = [NewItem("note", f"{n}", f"{n}", acl=["team:1"] if n % 10 == 0 else None) for n in range(ITEMS)]
        items = await catalog.insert_items(tx, base.id, None, new)
        vectors = rng.standard_normal((ITEMS * EACH, EMBEDDER.dimensions)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        batch = [
            (item, 1, [Chunk(k, f"text {n} {k}", 0, 1, (), vectors[n * EACH + k]) for k in range(EACH)])
            for n, item in enumerate(items)
        ]
        await write(tx, base, batch)
        await publish_version(tx, items, 1, EACH)
    return base


@pytest.mark.parametrize("exact", [0, 100_000])
@pytest.mark.parametrize("viewer", [Viewer(None), Viewer(frozenset({"team:1"})), Viewer(frozenset())])
async def test_both_methods_return_the_same_as_comparing_every_visible_chunk(
    db: Database, base: Base, monkeypatch: pytest.MonkeyPatch, exact: int, viewer: Viewer
) -> None:
    """Promise 7, and recall: hidden chunks are not returned, and do not reduce the number of hits."""
    monkeypatch.setattr(vector_search, "MAX_EXACT_CHUNKS", exact)
    scope = Scope(viewer)
    vector = EMBEDDER.vector("a query")
    async with store.read_transaction(db) as tx:
        estimate = await selectivity.measure_selectivity(tx, base.id, scope)
        expected = [row.no for row in await store.nearest_chunks(tx, base, scope, vector, 10)]
    hits = await vector_search.search(db, SegmentCache(2**20), base, scope, estimate, vector, 10)
    assert [hit.no for hit in hits] == expected
    assert len(hits) == (10 if viewer.entries is None or viewer.entries else 0)


async def test_batches_grow_until_enough_chunks_are_visible(
    db: Database, base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_search, "MAX_EXACT_CHUNKS", 0)
    monkeypatch.setattr(vector_search, "FIRST_BATCH", 4)
    scope = Scope(Viewer(frozenset({"team:1"})))
    vector = EMBEDDER.vector("a query")
    hits = await vector_search.search(
        db, SegmentCache(2**20), base, scope, selectivity.UNRESTRICTED, vector, ITEMS
    )
    assert len(hits) == ITEMS // 10 * EACH


@given(st.lists(st.integers(min_value=0, max_value=6), min_size=1, max_size=400), st.data())
def test_the_nearest_of_many_are_those_of_a_sort(values: list[int], data: st.DataObject) -> None:
    """Whatever the number of blocks whose minima are compared first."""
    count = data.draw(st.integers(min_value=1, max_value=len(values)))
    distances = np.array(values, np.uint16)
    expected = sorted(range(len(values)), key=lambda n: (values[n], n))[:count]
    assert vector_search.nearest_ordinals(distances, count).tolist() == expected


async def test_segments_that_do_not_fit_into_the_cache_are_read_again(db: Database, base: Base) -> None:
    cache, scope, vector = SegmentCache(1), Scope(), EMBEDDER.vector("a query")
    first = await vector_search.search(db, cache, base, scope, selectivity.UNRESTRICTED, vector, 10)
    assert await vector_search.search(db, cache, base, scope, selectivity.UNRESTRICTED, vector, 10) == first
