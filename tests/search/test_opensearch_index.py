"""What is special about an OpenSearch cluster: what it stores and refuses, and what happens when nodes die."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from uuid import uuid4

import numpy as np
import pytest

from gristmill.catalog import ItemId
from gristmill.errors import Permanent
from gristmill.search.index.opensearch import OpenSearch, OpenSearchIndex
from gristmill.search.index.port import IndexUnavailable, Point, Space
from tests.search.opensearch_cluster import Cluster, takes_minutes
from tests.search.test_index_contract import DIMENSION, by_words, new_base, next_number, numbers, point
from tests.wait_until import ended, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
async def engine(request: pytest.FixtureRequest) -> AsyncGenerator[OpenSearch]:
    """With the cluster that the test uses: shared, or its own."""
    name = "own_opensearch" if "own_opensearch" in request.fixturenames else "opensearch"
    cluster: Cluster = request.getfixturevalue(name)
    prefix = f"test-{uuid4().hex[:8]}"
    engine = OpenSearch(cluster.urls, prefix=prefix)
    yield engine
    await engine.close()
    cluster.http.delete(f"{cluster.urls[0]}/{prefix}-*").raise_for_status()


@pytest.fixture
async def index(engine: OpenSearch) -> OpenSearchIndex:
    return await engine.prepare(Space("tests/embedder", DIMENSION))


async def test_the_engine_stores_no_text(index: OpenSearchIndex, opensearch: Cluster) -> None:
    base = new_base()
    await index.put([chunk := point(base, "The miller was grinding")])
    found = opensearch.http.post(
        f"{opensearch.urls[0]}/_search", json={"query": {"term": {"no": chunk.no}}}
    ).json()
    [source] = [hit["_source"] for hit in found["hits"]["hits"] if hit["_source"]["base"] == str(base)]
    assert source["words"].split() == ["the", "miller", "was", "grind"]


async def test_preparing_twice_is_harmless_and_a_vector_of_another_size_is_refused(
    engine: OpenSearch,
) -> None:
    space = Space("tests/embedder", DIMENSION)
    index, base = await engine.prepare(space), new_base()
    await index.put([chunk := point(base, "mill")])
    assert await numbers(await engine.prepare(space), base) == [chunk.no]
    with pytest.raises(Permanent, match="refused") as refused:
        await index.put([Point(next_number(), base, ItemId(uuid4()), 1, np.ones(3, np.float32), {}, 0)])
    assert refused.value.code == "index_request_refused"


async def test_no_reachable_node_is_an_error_that_may_pass() -> None:
    engine = OpenSearch(["http://127.0.0.1:9"])
    with pytest.raises(IndexUnavailable) as unavailable:
        await engine.prepare(Space("tests/embedder", DIMENSION))
    assert unavailable.value.code == "index_unavailable"
    assert (await engine.health()).status == "down"
    await engine.close()


@takes_minutes
async def test_a_killed_node_loses_nothing_and_searches_go_on(
    engine: OpenSearch, index: OpenSearchIndex, own_opensearch: Cluster
) -> None:
    """Every acknowledged point is there after kill -9, with the node away and when it is back."""
    base = new_base()
    await index.put(before := [point(base, "mill") for _ in range(50)])
    victim = own_opensearch.nodes[0]
    victim.kill()
    own_opensearch.wait(nodes=2, status="yellow")
    try:
        assert await numbers(index, base) == [p.no for p in before]
        await index.put(during := [point(base, "mill") for _ in range(50)])
        assert len(await by_words(index, base, "mill", limit=200)) == 100
        assert (await engine.health()).status == "degraded"
    finally:
        own_opensearch.start(victim)
        own_opensearch.wait(nodes=3)
    assert (await engine.health()).status == "ok"
    assert await numbers(index, base) == [p.no for p in [*before, *during]]


async def put_until_acknowledged(index: OpenSearchIndex, points: Sequence[Point]) -> None:
    async def is_put() -> bool:
        try:
            await index.put(points)
        except IndexUnavailable:
            return False
        return True

    await wait_until(is_put, every=0.1)


@takes_minutes
async def test_a_node_killed_and_restarted_under_load_shows_every_search_all_that_was_acknowledged(
    index: OpenSearchIndex, own_opensearch: Cluster
) -> None:
    """Searches answer with every point acknowledged before they began, or say that the engine is not available."""
    base, victim = new_base(), own_opensearch.nodes[1]
    batches = [[point(base, "mill") for _ in range(10)] for _ in range(60)]
    acknowledged: set[int] = set()
    answers: list[int] = []

    async def search_until_all_are_acknowledged() -> None:
        while len(acknowledged) < 600:
            expected = set(acknowledged)
            try:
                hits = set(await by_words(index, base, "mill", limit=1_000))
            except IndexUnavailable:
                continue
            assert expected <= hits
            answers.append(len(acknowledged))

    searches = asyncio.create_task(search_until_all_are_acknowledged())
    try:
        for number, batch in enumerate(batches):
            if number == 10:
                victim.kill()
            if number == 30:
                own_opensearch.start(victim)
            await put_until_acknowledged(index, batch)
            acknowledged.update(p.no for p in batch)
        await ended(searches)
    finally:
        searches.cancel()
        if not victim.is_running:
            own_opensearch.start(victim)
        await asyncio.to_thread(own_opensearch.wait)
    assert any(100 <= count <= 300 for count in answers), "a search answered while the node was away"
    assert await numbers(index, base) == sorted(acknowledged)


@takes_minutes
async def test_a_cluster_that_is_away_is_an_error_and_nothing_is_lost_when_it_is_back(
    engine: OpenSearch, index: OpenSearchIndex, own_opensearch: Cluster
) -> None:
    """All nodes killed at once: requests fail with a code of their own, and every acknowledged point comes back."""
    base = new_base()
    await index.put(points := [point(base, "mill") for _ in range(50)])
    own_opensearch.kill()
    try:
        with pytest.raises(IndexUnavailable):
            await by_words(index, base, "mill")
        with pytest.raises(IndexUnavailable):
            await index.put([point(base, "mill")])
        assert (await engine.health()).status == "down"
    finally:
        for node in own_opensearch.nodes:
            own_opensearch.start(node)
        own_opensearch.wait()
    assert await by_words(index, base, "mill") == [p.no for p in points]
