"""What every index must do: the contract of `search/index/port.py`, of the reference in memory and of a real cluster."""

import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from numpy.typing import NDArray

from gristmill.catalog import BaseId, ItemId
from gristmill.search import bm25
from gristmill.search.index.opensearch import OpenSearch
from gristmill.search.index.port import (
    SCAN_PAGE,
    Engine,
    Index,
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
from tests.search.memory_index import MemoryEngine
from tests.search.opensearch_cluster import ALL_TESTS

DIMENSION = 16
# Tests of thousands of points.
LARGE = {
    "test_a_scan_goes_through_all_pages_in_order",
    "test_labels_and_removals_of_many_points_take_effect_before_the_call_returns",
}
EVERYTHING = PointFilter()
next_number = itertools.count(1).__next__
_SUBJECTS = ["the miller", "a water wheel", "the old mill stone", "an 知识库", "os.path.join", "grain"]
_VERBS = ["grinds", "turns", "is grinding", "wears down", "feeds"]
_OBJECTS = ["wheat into flour", "barley", "the wheel of the mill", "flour, flour and flour", "nothing at all"]
TEXTS = [
    f"{s} {v} {o}" * (1 + n % 3) for n, (s, v, o) in enumerate(itertools.product(_SUBJECTS, _VERBS, _OBJECTS))
]


@pytest.fixture(params=["memory", pytest.param("opensearch", marks=pytest.mark.slow)])
async def engine(request: pytest.FixtureRequest) -> AsyncGenerator[Engine]:
    """Every implementation."""
    if request.param == "memory":
        yield MemoryEngine()
        return
    if request.node.originalname in LARGE and not ALL_TESTS:
        pytest.skip("takes long in a cluster: set OPENSEARCH_TESTS=all")
    cluster = request.getfixturevalue("opensearch")
    prefix = f"test-{uuid4().hex[:8]}"
    engine = OpenSearch(cluster.urls, prefix=prefix)
    yield engine
    await engine.close()
    cluster.http.delete(f"{cluster.urls[0]}/{prefix}-*").raise_for_status()


@pytest.fixture
async def index(engine: Engine) -> Index:
    return await engine.prepare(Space("tests/embedder", DIMENSION))


def new_base() -> BaseId:
    return BaseId(uuid4())


def vector(seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)


def point(
    base: BaseId, text: str, *, item: ItemId | None = None, version: int = 1, labels: Labels | None = None
) -> Point:
    no = next_number()
    counts = Counter(lexemes(text, "english"))
    return Point(
        no, base, item or ItemId(uuid4()), version, vector(no), counts, counts.total(), labels or Labels()
    )


async def by_words(
    index: Index, base: BaseId, query: str, scope: PointFilter = EVERYTHING, limit: int = 100
) -> list[int]:
    leg = await keyword_leg(index, base, *parse(query, {"english"}).terms)
    return [found.no for found in (await index.ask(base, [leg], scope, limit))[0]]


async def keyword_leg(index: Index, base: BaseId, *terms: Term, **fields: Any) -> KeywordLeg:
    """A search for these terms, with the statistics of the base."""
    return KeywordLeg(terms, await index.statistics(base, terms, EVERYTHING), **fields)


async def numbers(index: Index, base: BaseId) -> list[int]:
    """The numbers of all points, page by page."""
    found: list[int] = []
    while page := await index.scan(base, found[-1] if found else 0):
        found += [no for no, _, _ in page]
    return found


async def test_a_point_is_found_by_words_and_by_vector_once_put_returns(index: Index) -> None:
    base = new_base()
    first, second = point(base, "mill stones"), point(base, "water wheel")
    await index.put([first, second])
    legs = [await keyword_leg(index, base, Term(("wheel",))), VectorLeg(first.vector)]
    words, nearest = await index.ask(base, legs, EVERYTHING, 10)
    assert [found.no for found in words] == [second.no]
    assert [found.no for found in nearest] == [first.no, second.no]
    assert nearest[0].score == pytest.approx(1, abs=1e-5)


async def test_a_repeated_put_changes_nothing_not_even_newer_labels(index: Index) -> None:
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
    index: Index,
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


async def test_a_term_of_several_lexemes_counts_their_occurrences_together(index: Index) -> None:
    base = new_base()
    texts = ["mill stone mill", "stone", "grain", "mill mill mill"]
    points = [point(base, text) for text in texts]
    await index.put(points)
    leg = await keyword_leg(index, base, Term(("mill", "stone")))
    [several] = await index.ask(base, [leg], EVERYTHING, 10)
    one_word = ["mill mill mill", "mill", "grain", "mill mill mill"]
    expected = {points[n].no: score for n, score in embedded_scores(one_word, "mill").items()}
    assert {hit.no: hit.score for hit in several} == pytest.approx(expected, rel=1e-5)


async def test_prefixes_required_and_excluded_words(index: Index) -> None:
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


async def test_both_legs_return_only_what_the_filter_passes(index: Index) -> None:
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


async def test_nearest_neighbours_of_those_who_see_little(index: Index) -> None:
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
    index: Index,
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


async def test_scores_are_summed_by_item_and_ranks_counted(index: Index) -> None:
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


async def test_dropping_a_base_leaves_the_others(index: Index) -> None:
    base, other = new_base(), new_base()
    await index.put([point(base, "mill"), point(base, "stone"), survivor := point(other, "mill")])
    assert await index.drop(base) == 2
    assert await numbers(index, base) == []
    assert await numbers(index, other) == [survivor.no]


async def test_a_scan_goes_through_all_pages_in_order(index: Index) -> None:
    base = new_base()
    points = [point(base, "mill") for _ in range(SCAN_PAGE + 10)]
    await index.put(points)
    first_page = await index.scan(base, 0)
    assert first_page == [(p.no, p.item, p.version) for p in points[:SCAN_PAGE]]
    assert await numbers(index, base) == [p.no for p in points]
