"""What every index must do, through the real pipeline and the real searcher: the embedded index, and a real OpenSearch."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill import catalog
from gristmill.catalog import ADMIN, Item
from gristmill.catalog.access import member
from gristmill.db import Database
from gristmill.operations import bases, delete
from gristmill.search import Hit, SearchRequest, Target, explain_missing, selectivity
from gristmill.settings import Settings
from tests.operations.manual_worker import index_folder
from tests.search.index_setup import EMBEDDER, IndexSetup, connect, note, points
from tests.search.opensearch_cluster import Cluster

MODES = ("text", "vector", "hybrid")
ANN, BOB = member("ann@x.org"), member("bob@x.org")
TEXTS = [
    f"{subject} {verb} {obj}" * (1 + (row + column) % 3)
    for row, subject in enumerate(
        ("the miller", "a water wheel", "an 知识库 of mills", "os.path.join", "grain")
    )
    for column, verb in enumerate(("grinds", "turns", "is grinding"))
    for obj in ("wheat into flour", "barley", "the wheel of the mill", "flour, flour and flour")
]
QUERIES = [
    "mill",
    "the wheel of a mill",
    "flour flour barley",
    "知识库",
    "os.path.join grain",
    '"water wheel" turns',
    "mill -barley",
    "absent",
]


@pytest.fixture(params=["embedded", pytest.param("opensearch", marks=pytest.mark.slow)])
async def setup(
    request: pytest.FixtureRequest, db: Database, settings: Settings
) -> AsyncGenerator[IndexSetup]:
    """Every implementation."""
    if request.param == "embedded":
        yield await IndexSetup.start("embedded", db, settings)
        return
    async with connect(request.getfixturevalue("opensearch")) as indexes:
        yield await IndexSetup.start("opensearch", db, settings, indexes)


@pytest.fixture(params=["by items", "by labels"])
def both_filters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few items in scope are listed; many are filtered by what the index knows of them."""
    if request.param == "by labels":
        monkeypatch.setattr(selectivity, "MAX_LISTED_ITEMS", -1)


async def test_a_published_item_is_found_by_words_and_by_vector(setup: IndexSetup) -> None:
    base = await setup.base()
    assert await setup.titles(base, "wheel", "hybrid") == []
    await setup.add_notes(base, "The water wheel turns", "The miller grinds wheat")
    for mode in MODES:
        assert (await setup.titles(base, "water wheel", mode))[0] == "The water wheel turns"
    assert await setup.titles(base, "wheel") == ["The water wheel turns"]


async def test_scores_say_what_fits(setup: IndexSetup) -> None:
    """The same in every index: by words that a hit has, and by how rare they are in the base."""
    base = await setup.base()
    await setup.add_notes(base, "The water wheel turns", "The miller grinds wheat", "磨坊主打磨石磨")
    for query, fits in (
        ("water wheel", True),
        ("石磨", True),
        ("xkqz vrtplm", False),
        ("passport renewal", False),
    ):
        for mode in ("text", "hybrid"):
            request = SearchRequest(query, mode=mode)
            answer = await setup.searcher.answer([Target(base, EMBEDDER)], request)
            assert answer.fits == fits, (query, mode, answer.best_score)
            cut = await setup.searcher.answer([Target(base, EMBEDDER)], replace(request, min_score=0.5))
            assert [hit.title for hit in cut.hits] == [hit.title for hit in answer.hits if hit.score >= 0.5]
            assert cut.best_score == answer.best_score
    (hit, *_) = await setup.search(base, "water wheel barley flour")
    # Two of four words, each as rare as the others.
    assert hit.score == pytest.approx(0.66, abs=0.01)


async def test_a_new_version_replaces_the_old_one(setup: IndexSetup) -> None:
    base = await setup.base()
    await setup.add(base, note("rye bread", "recipe"))
    await setup.worker.add(base, note("spelt bread", "recipe"), on_conflict="replace")
    assert [hit.text for hit in await setup.search(base, "bread")] == ["rye bread"]
    await setup.work()
    for mode in MODES:
        assert [hit.text for hit in await setup.search(base, "bread", mode)] == ["spelt bread"]
    assert await setup.search(base, "rye") == []


async def test_a_deleted_item_is_gone_from_the_next_search(setup: IndexSetup) -> None:
    base = await setup.base()
    _, gone = await setup.add_notes(base, "a wheel that stays", "a wheel that goes")
    await delete.delete(setup.db, base.id, [gone.id])
    for mode in MODES:
        assert await setup.titles(base, "wheel", mode) == ["a wheel that stays"]
    await setup.work()
    assert await setup.titles(base, "wheel", "hybrid") == ["a wheel that stays"]
    await setup.worker.assert_healthy()


@pytest.mark.usefixtures("both_filters")
async def test_changed_access_takes_effect_with_the_next_search(setup: IndexSetup) -> None:
    """S2-28, C18: also while the index has not learnt of it."""
    base = await setup.base(acl=["org:*"])
    first, second = await setup.add_notes(base, "an oak wheel", "an iron wheel")
    # As good as each other, they are in the order of their chunks' numbers, and both were written at the same time.
    titles = ["an iron wheel", "an oak wheel"]
    assert sorted(await setup.titles(base, "wheel", viewer=ANN)) == titles
    for acl, seen in {("user_email:bob@x.org",): False, ("user_email:ann@x.org",): True, (): False}.items():
        async with setup.db.transaction() as tx:
            await catalog.set_acl(tx, first.id, [*acl])
        for _ in range(2):  # before and after the index has learnt of it
            for mode in MODES:
                assert ("an oak wheel" in await setup.titles(base, "wheel", mode, viewer=ANN)) is seen
            await setup.work()
        assert sorted(await setup.titles(base, "wheel", viewer=ADMIN)) == titles
    base = await bases.patch(setup.db, base.id, acl=["user_email:bob@x.org"])
    assert await setup.titles(base, "wheel", viewer=ANN) == []
    assert await setup.titles(base, "wheel", viewer=BOB) == [second.title]


@pytest.mark.usefixtures("both_filters")
async def test_filters(setup: IndexSetup, tmp_path: Path) -> None:
    """By type, place in the tree, metadata and dates, in every mode."""
    base = await setup.base()
    for path in ("folder/a.md", "folder/inner/b.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"a wheel of {path}")
    items = await index_folder(setup.worker, base, tmp_path / "folder")
    await setup.add(
        base,
        note("a wheel of oak", "oak", metadata={"wood": True, "tags": ["a", "b"]}),
        note("a wheel of iron", "iron", metadata={"wood": False, "year": 1900}),
    )
    await setup.worker.rows(
        "update item set created_at = created_at - interval '1 year' where title = 'oak' returning id"
    )
    await setup.work()
    last_month = datetime.now(UTC) - timedelta(days=30)
    expected: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {"a.md", "b.md", "oak", "iron"}),
        ({"types": ("note",)}, {"oak", "iron"}),
        ({"types": ("url",)}, set()),
        ({"under": (items["folder"].id,)}, {"a.md", "b.md"}),
        ({"under": (items["inner"].id,)}, {"b.md"}),
        ({"under": (items["a.md"].id,)}, {"a.md"}),
        ({"metadata": {"wood": True}}, {"oak"}),
        ({"metadata": {"tags": ["b"]}}, {"oak"}),
        ({"metadata": {"year": 1900.0}}, {"iron"}),
        ({"metadata": {"wood": 1}}, set()),
        ({"created_before": last_month}, {"oak"}),
        ({"created_after": last_month, "types": ("note",)}, {"iron"}),
    ]
    for filters, titles in expected:
        for mode in MODES:
            assert {*await setup.titles(base, "wheel", mode, filters=filters)} == titles, (filters, mode)


async def test_mistyped_words_find_similar_ones(setup: IndexSetup) -> None:
    """Only words of the base count, and whether a word is one that nobody has is a question of what the caller sees."""
    base, other = await setup.base(acl=["org:*"]), await setup.base("other")
    await setup.add(
        base,
        note("Electronic mail drives the wheel", "letters"),
        note("The wheal of the merger", "secret", acl=["user_email:bob@x.org"]),
    )
    await setup.add_notes(other, "electornix and elektornic")
    for viewer, query, corrected, titles in (
        (ADMIN, "electornic", [("electornic", "electronic")], ["letters"]),
        (ADMIN, "Wheal", [], ["secret"]),
        (ANN, "Wheal", [("Wheal", "wheel")], ["letters"]),
        (BOB, "Wheal", [], ["secret"]),
        (ANN, "mergr", [], []),
        (ANN, "qqqqqq", [], []),
        (
            ADMIN,
            "electornic mergr",
            [("electornic", "electronic"), ("mergr", "merger")],
            ["letters", "secret"],
        ),
    ):
        request = SearchRequest(query, mode="text", viewer=viewer)
        answer = await setup.searcher.answer([Target(base, EMBEDDER)], request)
        assert [(word.word, word.replacement) for word in answer.corrected] == corrected, (viewer, query)
        assert sorted(hit.title for hit in answer.hits) == titles, (viewer, query)


async def test_prefixes_phrases_and_excluded_words(setup: IndexSetup) -> None:
    base = await setup.base()
    await setup.add_notes(base, "grain in a mill stone bowl", "grind a stone in the mill", "water")
    for query, titles in {
        "gr*": {"grain in a mill stone bowl", "grind a stone in the mill"},
        "stones*": {"grain in a mill stone bowl", "grind a stone in the mill"},
        "in -stones* water": {"water"},
        '"mill stone"': {"grain in a mill stone bowl"},
        '"stone mill" -water': {"grain in a mill stone bowl", "grind a stone in the mill"},  # relaxed
        '"absent words"': set[str](),
        "stone -grain": {"grind a stone in the mill"},
        'stone -"mill stone"': {"grind a stone in the mill"},
        "-grain": set[str](),
        "the absent": {"grind a stone in the mill"},
    }.items():
        assert {*await setup.titles(base, query)} == titles, query


async def test_a_word_with_several_lexemes_counts_them_together(setup: IndexSetup) -> None:
    """In a base of two languages a word has a lexeme in each."""
    base = await setup.base()
    english = (
        "The old mills of the valley are standing by the water since the days of the first settlers. " * 3
    )
    german = (
        "Die alten Mühlen im Tal stehen seit den Tagen der ersten Siedler am Wasser und mahlen Korn. " * 3
    )
    await setup.add(base, note(english, "english"), note(german, "german"))
    for query, title in {"standing": "english", "mahlen": "german", "Mühlen": "german"}.items():
        (hit,) = await setup.search(base, query, explain=True)
        assert hit.title == title
        assert hit.explanation is not None
        (term,) = hit.explanation.terms
        assert (term.count, term.chunks) == (3, 1), query


@pytest.mark.slow
async def test_scores_and_order_are_the_same_in_every_index(
    db: Database, settings: Settings, opensearch: Cluster
) -> None:
    """Relevance does not depend on the index."""
    async with connect(opensearch) as indexes:
        embedded = await IndexSetup.start("embedded", db, settings)
        engine = await IndexSetup.start("opensearch", db, settings, indexes)
        first, second = await embedded.base("embedded"), await engine.base("engine")
        documents = [note("\n\n".join(TEXTS[n : n + 5]), f"{n}") for n in range(0, len(TEXTS), 5)]
        chunking = [note(text * 40, text[:20]) for text in TEXTS[:3]]  # several chunks each
        for setup, base in ((embedded, first), (engine, second)):
            await setup.add(base, *documents, *chunking)
        for query in QUERIES:
            for mode in MODES:
                results = [
                    await setup.search(base, query, mode, limit=50, explain=True)
                    for setup, base in ((embedded, first), (engine, second))
                ]
                ranked = [sorted(map(_ranking, hits), key=_by_score) for hits in results]
                assert [hit[:2] for hit in ranked[0]] == [hit[:2] for hit in ranked[1]], (query, mode)
                scores = [[hit[2:] for hit in hits] for hits in ranked]
                assert np.allclose(scores[0], scores[1], rtol=1e-4), (query, mode)


def _ranking(hit: Hit) -> tuple[str, int, float, float]:
    assert hit.explanation is not None
    return hit.title, hit.start, hit.score, hit.explanation.text_score or 0.0


def _by_score(ranking: tuple[str, int, float, float]) -> tuple[float, str, int]:
    """Equal scores are in the order of the chunks' numbers, which differ."""
    return -round(ranking[2], 3), *ranking[:2]


async def test_another_base_does_not_change_a_ranking(setup: IndexSetup) -> None:
    """Words are counted in each base by itself."""
    base = await setup.base()
    await setup.add_notes(base, *TEXTS[:20])
    before = [[(hit.title, hit.score) for hit in await setup.search(base, query)] for query in QUERIES]
    other = await setup.base("other")
    await setup.add_notes(other, *(f"mill flour barley {'grain ' * number}" for number in range(40)))
    assert before == [
        [(hit.title, hit.score) for hit in await setup.search(base, query)] for query in QUERIES
    ]


@pytest.mark.usefixtures("both_filters")
async def test_viewers_who_see_little_get_the_best_of_what_they_see(setup: IndexSetup) -> None:
    """C19: never fewer than asked for, if there are so many; the nearest ones, whatever share of the base is visible."""
    base = await setup.base(chunking={"maxTokens": 32})
    shares = {"team:tenth": 100, "team:hundredth": 10, "team:thousandth": 1}
    counts = [*((acl, count) for acl, count in shares.items()), *(("team:rest", 89) for _ in range(10))]
    await setup.add(
        base,
        *(note(_paragraphs(n, count), f"{n}", acl=[acl]) for n, (acl, count) in enumerate(counts)),
    )
    total = await setup.worker.value("select count(*) from chunk")
    assert total >= 1_000
    for principals, count in {(): total, **{(acl,): count for acl, count in shares.items()}}.items():
        viewer = catalog.Viewer(frozenset(principals)) if principals else ADMIN
        for mode in ("text", "vector"):
            hits = await setup.search(base, "wheel 17 of the mill", mode, viewer=viewer)
            assert len(hits) == min(10, count), (principals, mode)
        nearest = await setup.worker.rows(
            "select c.id from chunk c join item i on i.id = c.item_id where i.acl && %s or %s"
            " order by c.embedding <=> %s::vector, c.no limit 10",
            [*principals],
            not principals,
            str(EMBEDDER.vector("wheel 17 of the mill").tolist()),
        )
        assert [hit.chunk_id for hit in hits] == [row[0] for row in nearest], principals


def _paragraphs(seed: int, count: int) -> str:
    """Text of so many chunks."""
    words = [
        "stone",
        "water",
        "grain",
        "rye",
        "oak",
        "iron",
        "belt",
        "race",
        "sluice",
        "pond",
        "gear",
        "shaft",
    ]
    return "\n\n".join(
        f"Wheel {n} of mill {seed}: " + " ".join(words[(seed * 7 + n * k) % 12] for k in range(1, 20))
        for n in range(count)
    )


async def test_hits_are_explained(setup: IndexSetup) -> None:
    base = await setup.base(acl=["org:*"])
    await setup.add_notes(base, "the water wheel turns", "wheat")
    await setup.add(base, note("a hidden wheel", acl=["team:secret"]))
    for viewer, chunks in ((ADMIN, 2), (ANN, 1)):
        hits = await setup.search(base, "wheel turns", "hybrid", viewer=viewer, explain=True)
        explanation = hits[0].explanation
        assert explanation is not None
        assert {term.term: term.chunks for term in explanation.terms} == {"wheel": chunks, "turn": 1}
        assert sum(term.score for term in explanation.terms) == pytest.approx(
            explanation.text_score, rel=1e-3
        )


async def test_why_an_item_is_not_found(setup: IndexSetup) -> None:
    base = await setup.base()
    _, cart, hidden = await setup.add(
        base,
        note("the water wheel turns"),
        note("wheat and a wheel of a cart", "cart"),
        note("a wheel", acl=["team:secret"]),
    )

    async def why_not(item: Item, query: str, **options: Any) -> Any:
        request = SearchRequest(query, mode="text", **options)
        async with setup.db.connection() as tx:
            (current,) = await catalog.find_items(tx, [item.id])
        return await explain_missing(setup.db, setup.searcher, Target(base, EMBEDDER), request, current)

    answer = await why_not(cart, "water wheel")
    assert (answer.rank, answer.text_rank) == (3, 3)
    assert {term.term: term.count for term in answer.terms} == {"water": 0, "wheel": 1}
    answer = await why_not(hidden, "wheel", viewer=ANN)
    assert (answer.rank, answer.reasons[0].code) == (None, "acl")
    answer = await why_not(cart, "sluice")
    assert "no_words" in {reason.code for reason in answer.reasons}


async def test_a_base_is_removed_and_others_stay(setup: IndexSetup, request: pytest.FixtureRequest) -> None:
    base, other = await setup.base(), await setup.base("other")
    await setup.add_notes(base, "a wheel")
    await setup.add_notes(other, "a wheel")
    await bases.delete(setup.db, base.id)
    assert await setup.titles(base, "wheel", "hybrid") == []
    await setup.work()
    assert await setup.titles(other, "wheel", "hybrid") == ["a wheel"]
    assert await setup.worker.value("select count(*) from chunk where set_id = %s", base.id) == 0
    if setup.kind == "opensearch":
        cluster: Cluster = request.getfixturevalue("opensearch")
        assert points(cluster, base.id) == []
        assert len(points(cluster, other.id)) == 1
