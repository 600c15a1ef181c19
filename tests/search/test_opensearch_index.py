"""An OpenSearch cluster as an engine: what `search/index/engine.py` asks for, what it stores, and what happens when nodes die."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import numpy as np
import pytest

from gristmill.catalog import BaseId, ItemId
from gristmill.errors import Permanent
from gristmill.search.index import opensearch as opensearch_engine
from gristmill.search.index.engine import (
    IndexUnavailable,
    ItemCounts,
    KeywordLeg,
    Labels,
    Point,
    PointFilter,
    Space,
    VectorLeg,
)
from gristmill.search.index.opensearch import OpenSearch, OpenSearchIndex
from gristmill.search.lexer import lexemes
from gristmill.search.query_syntax import Term, parse
from tests.search.index_setup import PREFIX
from tests.search.opensearch_cluster import Cluster
from tests.search.shared_cluster import takes_minutes
from tests.wait_until import ended, wait_until

pytestmark = pytest.mark.slow


DIMENSION = 16
EVERYTHING = PointFilter()
next_number = itertools.count(1).__next__


@pytest.fixture
async def engine(request: pytest.FixtureRequest) -> AsyncGenerator[OpenSearch]:
    """With the cluster that the test uses: shared, or its own."""
    name = "own_opensearch" if "own_opensearch" in request.fixturenames else "opensearch"
    cluster: Cluster = request.getfixturevalue(name)
    engine = OpenSearch(cluster.urls, prefix=PREFIX)
    yield engine
    await engine.close()


@pytest.fixture
async def index(engine: OpenSearch) -> OpenSearchIndex:
    return await engine.prepare(Space("tests/embedder", DIMENSION))


def new_base() -> BaseId:
    return BaseId(uuid4())


def point(
    base: BaseId, text: str, *, item: ItemId | None = None, version: int = 1, labels: Labels | None = None
) -> Point:
    no = next_number()
    counts = Counter(lexemes(text, "english"))
    vector = np.random.default_rng(no).standard_normal(DIMENSION).astype(np.float32)
    return Point(
        no, base, item or ItemId(uuid4()), version, vector, counts, counts.total(), labels or Labels()
    )


async def keyword_leg(index: OpenSearchIndex, base: BaseId, *terms: Term) -> KeywordLeg:
    """A search for these terms, with the statistics of the base."""
    return KeywordLeg(terms, await index.statistics(base, terms, EVERYTHING))


async def by_words(
    index: OpenSearchIndex, base: BaseId, query: str, scope: PointFilter = EVERYTHING, limit: int = 100
) -> list[int]:
    leg = await keyword_leg(index, base, *parse(query, {"english"}).terms)
    return [found.no for found in (await index.ask(base, [leg], scope, limit))[0]]


async def numbers(index: OpenSearchIndex, base: BaseId) -> list[int]:
    """The numbers of all points, page by page."""
    found: list[int] = []
    while page := await index.scan(base, found[-1] if found else 0):
        found += [no for no, _, _ in page]
    return found


async def test_a_point_is_found_by_words_and_by_vector_once_put_returns(index: OpenSearchIndex) -> None:
    base = new_base()
    first, second = point(base, "mill stones"), point(base, "water wheel")
    await index.put([first, second])
    legs = [await keyword_leg(index, base, Term(("wheel",))), VectorLeg(first.vector)]
    words, nearest = await index.ask(base, legs, EVERYTHING, 10)
    assert [found.no for found in words] == [second.no]
    assert [found.no for found in nearest] == [first.no, second.no]
    assert nearest[0].score == pytest.approx(1, abs=1e-4)


async def test_a_repeated_put_changes_nothing_not_even_newer_labels(index: OpenSearchIndex) -> None:
    base = new_base()
    chunk = point(base, "mill", labels=Labels(("group:a",)))
    await index.put([chunk])
    await index.relabel(base, [chunk.item], Labels(("group:b",)))
    await index.put([chunk])
    assert await numbers(index, base) == [chunk.no]
    assert await by_words(index, base, "mill", PointFilter(("group:a",))) == []
    assert await by_words(index, base, "mill", PointFilter(("group:b",))) == [chunk.no]


async def test_a_point_is_overwritten_unless_it_has_changed_since(
    index: OpenSearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late repetition can't bring back old labels."""
    base = new_base()
    chunk = point(base, "mill", labels=Labels(("group:a",)))
    other = replace(chunk, lexemes={"wheel": 1}, length=1, labels=Labels(("group:b",)))
    await index.put([chunk])
    await index.put([other, point(base, "grain")], replace=True)
    assert await by_words(index, base, "mill") == []
    assert await by_words(index, base, "wheel", PointFilter(("group:b",))) == [chunk.no]
    read_states = cast(Any, index)._states

    async def read_states_then_relabel(points: Sequence[Point]) -> Any:
        states = await read_states(points)
        await index.relabel(base, [chunk.item], Labels(("group:c",)))
        return states

    monkeypatch.setattr(index, "_states", read_states_then_relabel)
    with pytest.raises(IndexUnavailable):
        await index.put([chunk], replace=True)
    assert await by_words(index, base, "wheel", PointFilter(("group:c",))) == [chunk.no]


async def test_bases_of_two_databases_may_have_the_same_numbers(index: OpenSearchIndex) -> None:
    """Two installations can share a cluster without settings of their own."""
    chunk = point(new_base(), "mill")
    others = [replace(chunk, base=new_base()) for _ in range(10)]  # some of them in the same shard
    await index.put([chunk, *others])
    for other in others:
        assert await numbers(index, other.base) == [chunk.no]
    await index.remove(chunk.base, [chunk.no])
    assert [await numbers(index, other.base) for other in others] == [[chunk.no]] * 10


async def test_labels_and_removals_of_many_points_take_effect_before_the_call_returns(
    index: OpenSearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opensearch_engine, "_CHANGE_BATCH", 50)
    base, item = new_base(), ItemId(uuid4())
    points = [
        point(base, "mill", item=item, version=1 + n % 2, labels=Labels(("group:a",))) for n in range(120)
    ]
    other = point(base, "mill", labels=Labels(("group:a",)))
    await index.put([*points, other])
    await index.relabel(base, [item], Labels(("group:b",)))
    assert await by_words(index, base, "mill", PointFilter(("group:a",))) == [other.no]
    assert len(await by_words(index, base, "mill", PointFilter(("group:b",)), 200)) == 120
    old = [p.no for p in points if p.version == 1]
    await index.remove(base, old)
    assert set(await numbers(index, base)) == {other.no, *(p.no for p in points if p.version == 2)}
    await index.remove(base, [p.no for p in points])
    await index.remove(base, old)
    assert await numbers(index, base) == [other.no]


async def test_terms_are_counted_by_item_and_ranks_by_score(index: OpenSearchIndex) -> None:
    base, item = new_base(), ItemId(uuid4())
    await index.put([point(base, text, item=item) for text in ("mill", "mill mill stone", "grain")])
    await index.put([other := point(base, "mill of another item")])
    leg = await keyword_leg(index, base, Term(("mill",)))
    [hits] = await index.ask(base, [leg], EVERYTHING, 10)
    terms = [Term(("mill",)), Term(("stone", "grain")), Term(("mi",), prefix=True), Term(("none",))]
    counts = await index.item_counts(base, terms, [item, other.item])
    assert counts == {item: ItemCounts((3, 2, 2, 0), 5), other.item: ItemCounts((1, 0, 1, 0), 4)}
    assert [await index.count_above(base, leg, hit.score) for hit in hits] == [0, 1, 2]
    mine = await index.statistics(base, leg.terms, PointFilter(items=(item,)))
    assert (mine.chunks, mine.by_term) == (3, (2,))
    assert (mine.documents.documents, mine.documents.by_term, mine.documents.mean_length) == (1, [1], 5)
    assert (leg.statistics.documents.documents, leg.statistics.documents.by_term) == (2, [2])


async def test_dropping_a_base_leaves_the_others(index: OpenSearchIndex) -> None:
    base, other = new_base(), new_base()
    await index.put([point(base, "mill"), point(base, "stone"), survivor := point(other, "mill")])
    assert await index.drop(base) == 2
    assert await numbers(index, base) == []
    assert await numbers(index, other) == [survivor.no]


async def test_a_scan_goes_through_all_pages_in_order(
    index: OpenSearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opensearch_engine, "SCAN_PAGE", 50)
    base = new_base()
    points = [point(base, "mill") for _ in range(60)]
    await index.put(points)
    assert await index.scan(base, 0) == [(p.no, p.item, p.version) for p in points[:50]]
    assert await numbers(index, base) == [p.no for p in points]


async def test_the_engine_stores_no_text(index: OpenSearchIndex, opensearch: Cluster) -> None:
    base = new_base()
    await index.put([point(base, "The miller was grinding")])
    found = opensearch.http.post(
        f"{opensearch.urls[0]}/_search", json={"query": {"term": {"base": str(base)}}}
    ).json()
    [source] = [hit["_source"] for hit in found["hits"]["hits"]]
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
