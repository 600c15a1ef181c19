"""The index in an OpenSearch cluster of three real nodes."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from gristmill.catalog import BaseId, ItemId
from gristmill.errors import Permanent
from gristmill.search import bm25
from gristmill.search.index.opensearch import OpenSearch, OpenSearchIndex
from gristmill.search.index.port import (
    SCAN_PAGE,
    IndexUnavailable,
    KeywordLeg,
    Labels,
    Point,
    PointFilter,
    Space,
    VectorLeg,
    metadata_tokens,
)
from gristmill.search.lexer import lexemes
from gristmill.search.query_syntax import Term, parse
from gristmill.search.segment import ChunkText, build
from tests.search.opensearch_cluster import Cluster
from tests.wait_until import ended, wait_until

pytestmark = pytest.mark.slow

DIMENSION = 16
EVERYTHING = PointFilter()
_numbers = itertools.count(1)
_SUBJECTS = ["the miller", "a water wheel", "the old mill stone", "an 知识库", "os.path.join", "grain"]
_VERBS = ["grinds", "turns", "is grinding", "wears down", "feeds"]
_OBJECTS = ["wheat into flour", "barley", "the wheel of the mill", "flour, flour and flour", "nothing at all"]
TEXTS = [
    f"{s} {v} {o}" * (1 + n % 3) for n, (s, v, o) in enumerate(itertools.product(_SUBJECTS, _VERBS, _OBJECTS))
]


@pytest.fixture
async def engine(opensearch: Cluster) -> AsyncGenerator[OpenSearch]:
    engine = OpenSearch(opensearch.urls, prefix=f"test-{uuid4().hex[:8]}")
    yield engine
    await engine.close()


@pytest.fixture
async def index(engine: OpenSearch) -> OpenSearchIndex:
    return await engine.prepare(Space("tests/embedder", DIMENSION))


def new_base() -> BaseId:
    return BaseId(uuid4())


def vector(seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)


def point(
    base: BaseId, text: str, *, item: ItemId | None = None, version: int = 1, labels: Labels | None = None
) -> Point:
    no = next(_numbers)
    counts = Counter(lexemes(text, "english"))
    return Point(
        no, base, item or ItemId(uuid4()), version, vector(no), counts, counts.total(), labels or Labels()
    )


async def by_words(
    index: OpenSearchIndex, base: BaseId, query: str, scope: PointFilter = EVERYTHING, limit: int = 100
) -> list[int]:
    leg = await keyword_leg(index, base, *parse(query, {"english"}).terms)
    return [found.no for found in (await index.ask(base, [leg], scope, limit))[0]]


async def keyword_leg(index: OpenSearchIndex, base: BaseId, *terms: Term, **fields: Any) -> KeywordLeg:
    """A search for these terms, with the statistics of the base."""
    return KeywordLeg(terms, await index.statistics(base, terms, EVERYTHING), **fields)


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
    assert nearest[0].score == pytest.approx(1, abs=1e-5)


async def test_a_repeated_put_changes_nothing_not_even_newer_labels(index: OpenSearchIndex) -> None:
    base = new_base()
    chunk = point(base, "mill", labels=Labels(("group:a",)))
    await index.put([chunk])
    await index.relabel(base, [chunk.item], Labels(("group:b",)))
    await index.put([chunk])
    assert await numbers(index, base) == [chunk.no]
    assert await by_words(index, base, "mill", PointFilter(("group:a",))) == []
    assert await by_words(index, base, "mill", PointFilter(("group:b",))) == [chunk.no]


def embedded_scores(texts: Sequence[str], query: str) -> dict[int, float]:
    """The scores of the texts, by position, as the embedded index has them."""
    chunks = [ChunkText(no, uuid4(), "", (), text) for no, text in enumerate(texts)]
    segment = build(chunks, np.zeros((1, len(texts)), np.uint64))
    terms = [
        bm25.combine_postings(
            term.weight,
            [
                (0, postings)
                for name in term.names
                if (postings := segment.index.postings_of(name)) is not None
            ],
            len(texts),
        )
        for term in parse(query, {"english"}).terms
    ]
    scores = bm25.score(terms, segment.arrays.lengths)
    return {no: float(score) for no, score in enumerate(scores) if score > 0}


async def test_scores_equal_those_of_the_embedded_index_and_no_other_base_changes_them(
    index: OpenSearchIndex,
) -> None:
    """Relevance is the same as without an engine, and word statistics are those of the base alone."""
    base, other = new_base(), new_base()
    points = [point(base, text) for text in TEXTS]
    await index.put(points)
    queries = ["mill", "the wheel of a mill", "flour flour barley", "知识库", "os.path.join grain", "absent"]
    for round_number in range(2):
        for query in queries:
            expected = {points[n].no: score for n, score in embedded_scores(TEXTS, query).items()}
            leg = await keyword_leg(index, base, *parse(query, {"english"}).terms)
            [hits] = await index.ask(base, [leg], EVERYTHING, len(TEXTS))
            assert {hit.no: hit.score for hit in hits} == pytest.approx(expected, rel=1e-5), query
            assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.no))
        if round_number == 0:
            await index.put([point(other, "mill flour barley grain " * 5) for _ in range(100)])


async def test_a_term_of_several_lexemes_counts_their_occurrences_together(index: OpenSearchIndex) -> None:
    base = new_base()
    texts = ["mill stone mill", "stone", "grain", "mill mill mill"]
    points = [point(base, text) for text in texts]
    await index.put(points)
    leg = await keyword_leg(index, base, Term(("mill", "stone")))
    [several] = await index.ask(base, [leg], EVERYTHING, 10)
    one_word = ["mill mill mill", "mill", "grain", "mill mill mill"]
    expected = {points[n].no: score for n, score in embedded_scores(one_word, "mill").items()}
    assert {hit.no: hit.score for hit in several} == pytest.approx(expected, rel=1e-5)


async def test_prefixes_required_and_excluded_words(index: OpenSearchIndex) -> None:
    base = new_base()
    grain, grind, stone = (point(base, text) for text in ("grain", "grind stone", "stone"))
    await index.put([grain, grind, stone])
    leg = await keyword_leg(index, base, Term(("gr",), prefix=True))
    [prefix] = await index.ask(base, [leg], EVERYTHING, 10)
    assert {hit.no for hit in prefix} == {grain.no, grind.no}
    leg = await keyword_leg(index, base, Term(("grind",)), Term(("stone",)), required=(("stone", "wheel"),))
    [required] = await index.ask(base, [leg], EVERYTHING, 10)
    assert {hit.no for hit in required} == {grind.no, stone.no}
    leg = await keyword_leg(index, base, Term(("stone",)), excluded=(Term(("grind",)),))
    [without] = await index.ask(base, [leg], EVERYTHING, 10)
    assert [hit.no for hit in without] == [stone.no]


async def test_both_legs_return_only_what_the_filter_passes(index: OpenSearchIndex) -> None:
    base, folder = new_base(), ItemId(uuid4())
    everywhere = {"en": True, "tags": ["a", "b"]}
    labels = [
        Labels(("group:a",), (folder,), "file", metadata_tokens(everywhere)),
        Labels(("group:b",), (), "url", metadata_tokens({"en": False})),
        Labels(None, (folder,), "url"),
    ]
    first, second, third = points = [point(base, "mill", labels=label) for label in labels]
    await index.put(points)
    legs = [await keyword_leg(index, base, Term(("mill",))), VectorLeg(vector(0))]
    for scope, expected in {
        EVERYTHING: {first.no, second.no, third.no},
        PointFilter(("group:a",)): {first.no, third.no},
        PointFilter(("group:a",), sees_base_list=False): {first.no},
        PointFilter(()): {third.no},
        PointFilter((), sees_base_list=False): set[int](),
        PointFilter(types=("url",)): {second.no, third.no},
        PointFilter(under=(folder,)): {first.no, third.no},
        PointFilter(under=(second.item,)): {second.no},
        PointFilter(items=(first.item, third.item)): {first.no, third.no},
        PointFilter(items=()): set[int](),
        PointFilter(metadata=metadata_tokens({"tags": ["b"]})): {first.no},
        PointFilter(metadata=metadata_tokens({"en": 1})): set[int](),
    }.items():
        for hits in await index.ask(base, legs, scope, 10):
            assert {hit.no for hit in hits} == expected, scope


async def test_nearest_neighbours_of_those_who_see_little(index: OpenSearchIndex) -> None:
    """Never fewer than k: the filter applies during the search."""
    base = new_base()
    points = [
        point(base, "mill", labels=Labels((f"group:{n % 100}", f"tenth:{n % 10}"))) for n in range(1_500)
    ]
    await index.put(points)
    for principals in (None, ("tenth:3",), ("group:42",)):
        visible = [
            p for p in points if principals is None or set(p.labels.principals or ()) & set(principals)
        ]
        for seed in range(5):
            query = vector(seed)
            [hits] = await index.ask(base, [VectorLeg(query)], PointFilter(principals), 10)

            def cosine(p: Point, query: NDArray[np.float32] = query) -> float:
                return float(p.vector @ query / np.linalg.norm(p.vector) / np.linalg.norm(query))

            best = sorted(visible, key=cosine, reverse=True)[:10]
            assert [hit.no for hit in hits] == [p.no for p in best]
            assert [hit.score for hit in hits] == pytest.approx([cosine(p) for p in best], abs=1e-5)


async def test_labels_and_removals_of_many_points_take_effect_before_the_call_returns(
    index: OpenSearchIndex,
) -> None:
    base, item = new_base(), ItemId(uuid4())
    points = [
        point(base, "mill", item=item, version=1 + n % 2, labels=Labels(("group:a",))) for n in range(1_300)
    ]
    other = point(base, "mill", labels=Labels(("group:a",)))
    await index.put([*points, other])
    await index.relabel(base, [item], Labels(("group:b",)))
    assert await by_words(index, base, "mill", PointFilter(("group:a",))) == [other.no]
    assert len(await by_words(index, base, "mill", PointFilter(("group:b",)), 2_000)) == 1_300
    old = [p.no for p in points if p.version == 1]
    await index.remove(base, old)
    assert set(await numbers(index, base)) == {other.no, *(p.no for p in points if p.version == 2)}
    await index.remove(base, [p.no for p in points])
    await index.remove(base, old)
    assert await numbers(index, base) == [other.no]


async def test_scores_are_summed_by_item_and_ranks_counted(index: OpenSearchIndex) -> None:
    base, item = new_base(), ItemId(uuid4())
    await index.put([point(base, text, item=item) for text in ("mill", "mill mill stone", "grain")])
    await index.put([other := point(base, "mill of another item")])
    leg = await keyword_leg(index, base, Term(("mill",)))
    [hits] = await index.ask(base, [leg], EVERYTHING, 10)
    by_no = {hit.no: hit.score for hit in hits}
    sums = await index.item_scores(base, leg, [item, other.item])
    assert sums[other.item] == pytest.approx(by_no[other.no], rel=1e-5)
    assert sums[item] == pytest.approx(sum(by_no.values()) - by_no[other.no], rel=1e-5)
    assert [await index.count_above(base, leg, hit.score) for hit in hits] == [0, 1, 2]
    mine = await index.statistics(base, leg.terms, PointFilter(items=(item,)))
    assert (mine.chunks, mine.by_term) == (3, (2,))


async def test_dropping_a_base_leaves_the_others(index: OpenSearchIndex) -> None:
    base, other = new_base(), new_base()
    await index.put([point(base, "mill"), point(base, "stone"), survivor := point(other, "mill")])
    assert await index.drop(base) == 2
    assert await numbers(index, base) == []
    assert await numbers(index, other) == [survivor.no]


async def test_a_scan_goes_through_all_pages_in_order(index: OpenSearchIndex) -> None:
    base = new_base()
    points = [point(base, "mill") for _ in range(SCAN_PAGE + 10)]
    await index.put(points)
    first_page = await index.scan(base, 0)
    assert first_page == [(p.no, p.item, p.version) for p in points[:SCAN_PAGE]]
    assert await numbers(index, base) == [p.no for p in points]


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
        await index.put([Point(next(_numbers), base, ItemId(uuid4()), 1, np.ones(3, np.float32), {}, 0)])
    assert refused.value.code == "index_request_refused"


async def test_no_reachable_node_is_an_error_that_may_pass() -> None:
    engine = OpenSearch(["http://127.0.0.1:9"])
    with pytest.raises(IndexUnavailable) as unavailable:
        await engine.prepare(Space("tests/embedder", DIMENSION))
    assert unavailable.value.code == "index_unavailable"
    assert (await engine.health()).status == "down"
    await engine.close()


async def test_a_killed_node_loses_nothing_and_searches_go_on(
    engine: OpenSearch, index: OpenSearchIndex, opensearch: Cluster
) -> None:
    """Every acknowledged point is there after kill -9, with the node away and when it is back."""
    base = new_base()
    await index.put(before := [point(base, "mill") for _ in range(50)])
    victim = opensearch.nodes[0]
    victim.kill()
    opensearch.wait(nodes=2, status="yellow")
    try:
        assert await numbers(index, base) == [p.no for p in before]
        await index.put(during := [point(base, "mill") for _ in range(50)])
        assert len(await by_words(index, base, "mill", limit=200)) == 100
        assert (await engine.health()).status == "degraded"
    finally:
        opensearch.start(victim)
        opensearch.wait(nodes=3)
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


async def test_a_node_killed_and_restarted_under_load_shows_every_search_all_that_was_acknowledged(
    index: OpenSearchIndex, opensearch: Cluster
) -> None:
    """Searches answer with every point acknowledged before they began, or say that the engine is not available."""
    base, victim = new_base(), opensearch.nodes[1]
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
                opensearch.start(victim)
            await put_until_acknowledged(index, batch)
            acknowledged.update(p.no for p in batch)
        await ended(searches)
    finally:
        searches.cancel()
        if victim.process is None:
            opensearch.start(victim)
        await asyncio.to_thread(opensearch.wait)
    assert any(100 <= count <= 300 for count in answers), "a search answered while the node was away"
    assert await numbers(index, base) == sorted(acknowledged)


async def test_a_cluster_that_is_away_is_an_error_and_nothing_is_lost_when_it_is_back(
    engine: OpenSearch, index: OpenSearchIndex, opensearch: Cluster
) -> None:
    """All nodes killed at once: requests fail with a code of their own, and every acknowledged point comes back."""
    base = new_base()
    await index.put(points := [point(base, "mill") for _ in range(50)])
    opensearch.kill()
    try:
        with pytest.raises(IndexUnavailable):
            await by_words(index, base, "mill")
        with pytest.raises(IndexUnavailable):
            await index.put([point(base, "mill")])
        assert (await engine.health()).status == "down"
    finally:
        for node in opensearch.nodes:
            opensearch.start(node)
        opensearch.wait()
    assert await by_words(index, base, "mill") == [p.no for p in points]


@pytest.fixture(autouse=True)
def remove_indices(opensearch: Cluster) -> Generator[None]:
    """Every test has indices of its own; the cluster is not for keeping them."""
    yield
    with httpx.Client(base_url=opensearch.urls[1], timeout=60, trust_env=False) as http:
        http.delete("/test-*")
