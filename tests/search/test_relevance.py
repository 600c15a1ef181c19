"""How well hits fit: scores from 0 to 1, and when nothing fits."""

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import numpy as np
import pytest

from gristmill import app, catalog
from gristmill.catalog import Base
from gristmill.embedding.embedder import EmbedderPaused, Vectors
from gristmill.search import Chunk, SearchRequest, Target, relevance
from gristmill.search.coverage import TermCounts, measure_coverage
from gristmill.search.probe_texts import CHINESE_PROBES, ENGLISH_PROBES
from gristmill.search.query_syntax import parse
from gristmill.search.relevance import DEFAULT_MIN_SCORE, Evidence
from gristmill.search.similarity_scale import Script, SimilarityScales, measure_scale
from gristmill.server.api.context import ON_BEHALF
from tests.embedding.hashed import HashedEmbedder
from tests.search.published_items import file_note, new_base, publish_version, write

NOTES = {
    "stones": "The miller dresses the grinding stones every spring with a steel pick.",
    "wheel": "The water wheel drives the main shaft through a pair of wooden gears.",
    "image": "Each service has a Dockerfile that starts from the base image of the company.",
    "rye": "Rye flour absorbs more water than wheat flour and needs a sourdough culture.",
    "磨坊": "磨坊主每年春天都会用钢镐重新打磨石磨，使谷物磨得更细。",
    "水车": "水车通过一对木制齿轮带动主轴，河水上涨时要关上闸门。",
}


def counts_of(query: str, chunks: int, **known: int) -> TermCounts:
    """As if the base had this many chunks, and the words of `known` in some of them."""
    terms = parse(query, ["english"]).terms
    return TermCounts(chunks, {term: known.get(term.names[0], 0) for term in terms})


def test_scores_rise_with_what_is_known_and_are_between_0_and_1() -> None:
    shares = [number / 10 for number in range(11)]
    kinds: list[tuple[str, Script]] = [("granite", "spaced"), ("universal", "unspaced"), ("other", "spaced")]
    for model, script in kinds:
        by_words = [relevance.score(Evidence(share, False, None, script)) for share in shares]
        by_vectors = [relevance.score(Evidence(None, False, 2 * share, script, model)) for share in shares]
        by_both = [relevance.score(Evidence(0.3, False, 2 * share, script, model)) for share in shares]
        for scores in (by_words, by_vectors, by_both):
            assert scores == sorted(scores)
            assert 0 <= scores[0] < DEFAULT_MIN_SCORE < scores[-1] <= 1
        # Nothing but an unrelated vector, or a few words of many, is no hit that fits.
        assert relevance.score(Evidence(0.0, False, 0.0, script, model)) < 0.1
        # Who types one word that is in the text wants to see it.
        assert relevance.score(Evidence(0.5, True, 0.0, script, model)) > DEFAULT_MIN_SCORE


def test_the_nearest_of_few_chunks_says_more_than_the_nearest_of_many() -> None:
    """A question in other words than its answer has no word of it, and only its vector is near."""
    kinds: list[tuple[str, Script]] = [("granite", "spaced"), ("universal", "unspaced")]
    for model, script in kinds:
        near = Evidence(0.0, False, 1.2, script, model, lead=0.3)
        few, many = (relevance.score(replace(near, chunks=chunks)) for chunks in (20, 3000))
        assert few > DEFAULT_MIN_SCORE
        assert few > many
        assert relevance.score(replace(near, chunks=20, similarity=0.5)) < DEFAULT_MIN_SCORE
        sizes = [relevance.score(replace(near, chunks=10**power)) for power in range(8)]
        assert sizes[0] == sizes[1] > sizes[2] > sizes[3] > sizes[4] == sizes[7], "beyond what was measured"
    ahead, level = (
        relevance.score(Evidence(0.0, False, 1.0, "spaced", "granite", lead=lead)) for lead in (0.5, 0.0)
    )
    assert ahead > level


@pytest.mark.slow
async def test_a_question_in_other_words_fits_in_a_few_notes(mill: app.Gristmill) -> None:
    """With the default embedder; what has nothing to do with the notes does not fit."""
    embedder = mill.embedders.get("granite-30m-en")
    await embedder.load()
    base = await new_base(mill.db)
    notes = (
        "The miller dresses both stones every spring.",
        "The water wheel drives the main shaft.",
        "Visitors leave their shoes in the hall.",
    )
    vectors = await embedder.embed_documents(notes)
    async with mill.db.transaction() as tx:
        items = await catalog.insert_items(
            tx, base.id, None, [catalog.NewItem("note", text, text, body=text) for text in notes]
        )
        for item, text, vector in zip(items, notes, vectors, strict=True):
            await write(tx, base, [(item, 1, [Chunk(0, text, 0, len(text), (), vector)])])
            await publish_version(tx, [item], 1, 1)
    base = replace(base, embedder_identity=embedder.identity, dimensions=embedder.dimensions)
    for query, text in (
        ("how do I sharpen a millstone?", notes[0]),
        ("Can I keep my boots on inside the house?", notes[2]),
    ):
        answer = await mill.searcher.answer([Target(base, embedder)], SearchRequest(query))
        assert (answer.hits[0].text, answer.fits) == (text, True), (query, answer.best_score)
    for query in ("How do I reset my password?", "asdf qwer zxcv", "best pizza near the office"):
        answer = await mill.searcher.answer([Target(base, embedder)], SearchRequest(query))
        assert (answer.best_score or 0) < 0.1, query


def test_the_scores_of_a_ranking_never_rise() -> None:
    assert relevance.descending([0.9, 0.5, 0.1]) == [0.9, 0.5, 0.1]
    assert relevance.descending([0.2, 0.8, 0.1]) == [0.8, 0.8, 0.1]
    assert relevance.descending([0.2, 0.1, 0.1, 0.1, 0.1, 0.9, 0.05]) == [0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05]
    assert relevance.descending([]) == []
    chance = random.Random(7)
    for _ in range(50):
        scores = [chance.random() for _ in range(chance.randint(1, 20))]
        fixed = relevance.descending(scores)
        assert fixed == sorted(fixed, reverse=True)
        assert fixed[0] == max(scores[:5])
        assert relevance.descending([*scores, 0.5])[: len(scores)] == fixed or len(scores) < 5


def test_coverage_is_the_share_of_what_the_query_says() -> None:
    query = "When does the miller dress the stones?"
    counts = counts_of(query, 1000, miller=20, dress=5, stone=30)
    every_word = measure_coverage(query, counts, ["The miller dresses the stones in spring."])
    one_word = measure_coverage(query, counts, ["Stones of the field."])
    small_words = measure_coverage(query, counts, ["When does the train to the sea leave?"])
    assert every_word.is_complete
    assert not one_word.is_complete
    assert every_word.share > 2 * one_word.share > 0
    assert small_words.share == 0
    assert (every_word.plain_share, small_words.plain_share) == (1, 0)
    assert one_word.share < one_word.plain_share < 0.5  # the rest of the query says more
    in_title = measure_coverage(query, counts, ["In spring.", "The miller dresses stones"])
    assert in_title == every_word


def test_chinese_coverage_counts_pairs_and_leaves_out_small_words() -> None:
    query = "磨坊主什么时候打磨石磨？"
    counts = counts_of(query, 1000)
    right = measure_coverage(query, counts, ["磨坊主每年春天都会打磨石磨。"])
    other = measure_coverage(query, counts, ["什么时候有会议？主任不在。"])
    assert right.share > 0.4 > 3 * other.share
    traditional = measure_coverage(query, counts, ["磨坊主每年春天都會打磨石磨。"])
    assert traditional == right
    alone = measure_coverage("组件", counts_of("组件", 1000), ["一个组件。"])
    assert alone.is_complete
    assert (alone.plain_share, alone.share < 0.4) == (1, True)


def test_without_frequencies_all_words_say_the_same() -> None:
    query = "merger of the guilds"
    counts = counts_of(query, 400, guild=300)
    text = ["The guilds of the town."]
    assert measure_coverage(query, counts, text).share < 0.1
    equal = measure_coverage(query, counts.without_frequencies(), text)
    assert equal == measure_coverage(query, counts_of(query, 400), text)
    assert equal.share == pytest.approx(1 / 2.87)


class KnowingEmbedder(HashedEmbedder):
    """Knows which question belongs to which passage of the English probes; everything has something in common."""

    def __init__(self) -> None:
        super().__init__("knowing")
        self.identity = "knowing/1/64"
        self.calls = 0

    def vector(self, text: str) -> Vectors:
        if any(text in pair for pair in CHINESE_PROBES):
            return np.eye(1, 64, 63, dtype=np.float32)[0]
        for number, (question, passage) in enumerate(ENGLISH_PROBES):
            if text in (question, passage):
                self.calls += 1
                vector = np.zeros(64, np.float32)
                vector[0], vector[1 + number] = 0.8, 0.6 if text == question else 0.3
                vector[20 + number] = 0 if text == question else 0.52
                return vector
        return super().vector(text)


async def test_the_scale_of_an_unknown_embedder_is_measured_once() -> None:
    embedder, scales = KnowingEmbedder(), SimilarityScales()
    scale = await scales.scale_for(embedder, "spaced")
    assert scale is not None
    assert (scale.unrelated, scale.related) == (pytest.approx(0.64), pytest.approx(0.82))
    assert scale.place(0.64) == pytest.approx(0, abs=1e-5)
    assert scale.place(0.73) == pytest.approx(0.5, abs=1e-5)
    calls = embedder.calls
    assert await scales.scale_for(embedder, "spaced") == scale
    assert embedder.calls == calls
    assert await measure_scale(embedder, "unspaced") is None  # it puts all Chinese texts at one place
    embedder.strengths = {"english": 1.0}
    assert await scales.scale_for(embedder, "spaced", "english") == scale
    assert await scales.scale_for(embedder, "spaced", "spanish") is None


async def test_a_search_goes_on_if_the_embedder_can_not_be_measured(mill: app.Gristmill, base: Base) -> None:
    class Refusing(HashedEmbedder):
        async def embed_documents(self, texts: Any) -> Any:
            raise EmbedderPaused("At its limit.", pause=timedelta(seconds=1))

    answer = await mill.searcher.answer([Target(base, Refusing())], SearchRequest("grinding stones"))
    assert answer.hits[0].title == "stones"
    assert answer.fits


@pytest.fixture
async def base(mill: app.Gristmill) -> Base:
    base = await new_base(mill.db, acl=["org:*"])
    async with mill.db.transaction() as tx:
        for title, text in NOTES.items():
            await file_note(tx, base, title, text)
    return base


async def ask(http: httpx.AsyncClient, base: Base, query: str, **fields: Any) -> Any:
    response = await http.post(f"/api/knowledge-bases/{base.id}/search", json={"query": query, **fields})
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("mode", ["hybrid", "text"])
async def test_right_questions_fit_and_gibberish_does_not(
    http: httpx.AsyncClient, base: Base, mode: str
) -> None:
    for query, title in (
        ("When does the miller dress the grinding stones?", "stones"),
        ("what drives the main shaft", "wheel"),
        ("Dockerfile", "image"),
        ("磨坊主什么时候打磨石磨？", "磨坊"),
        ("水车", "水车"),
    ):
        answer = await ask(http, base, query, mode=mode)
        assert answer["hits"][0]["title"] == title
        assert answer["fits"], query
        assert answer["hits"][0]["fits"]
        assert answer["bestScore"] == answer["hits"][0]["score"] >= DEFAULT_MIN_SCORE
        scores = [hit["score"] for hit in answer["hits"]]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
    for query in (
        "xkqz vrtplm wobbqk",
        "asdfgh jkl qwerty",
        "How do I renew my passport at the embassy?",
        "the of and is",
        "鑫赣诌谯馥",
        "公司年终奖金几月发放",
    ):
        answer = await ask(http, base, query, mode=mode)
        assert not answer["fits"], (query, answer["bestScore"])
        assert not any(hit["fits"] for hit in answer["hits"])
        assert (answer["bestScore"] or 0) < DEFAULT_MIN_SCORE


async def test_without_a_lowest_score_the_closest_texts_are_shown_all_the_same(
    http: httpx.AsyncClient, base: Base
) -> None:
    answer = await ask(http, base, "xkqz vrtplm wobbqk")
    assert answer["hits"]
    assert not answer["fits"]
    assert answer["bestScore"] == answer["hits"][0]["score"]


async def test_a_lowest_score_cuts_off_the_end_of_the_ranking(http: httpx.AsyncClient, base: Base) -> None:
    query = "the miller dresses grinding stones with water"
    everything = await ask(http, base, query)
    assert len(everything["hits"]) > 1
    bound = everything["hits"][0]["score"]
    answer = await ask(http, base, query, minScore=bound)
    fitting = [hit for hit in everything["hits"] if hit["score"] >= bound]
    assert [hit["chunkId"] for hit in answer["hits"]] == [hit["chunkId"] for hit in fitting]
    nothing = await ask(http, base, "xkqz vrtplm wobbqk", minScore=0.5)
    assert nothing["hits"] == []
    assert not nothing["fits"]
    assert 0 <= nothing["bestScore"] < 0.5
    response = await http.post(f"/api/knowledge-bases/{base.id}/search", json={"query": "x", "minScore": 1.5})
    assert response.status_code == 422


async def test_a_base_has_a_lowest_score_that_requests_can_change(
    http: httpx.AsyncClient, base: Base
) -> None:
    url = f"/api/knowledge-bases/{base.id}"
    assert (await http.get(url)).json()["settings"]["minScore"] == 0
    changed = await http.patch(url, json={"settings": {"minScore": 0.5}})
    assert changed.json()["settings"]["minScore"] == 0.5
    assert (await ask(http, base, "xkqz vrtplm wobbqk"))["hits"] == []
    assert (await ask(http, base, "xkqz vrtplm wobbqk", minScore=0))["hits"]
    assert (await ask(http, base, "grinding stones"))["hits"]
    stones = (await ask(http, base, "grinding stones"))["hits"][0]["itemId"]
    response = await http.post(f"/api/knowledge-items/{stones}/why-not", json={"query": "xkqz vrtplm wobbqk"})
    assert [reason["code"] for reason in response.json()["reasons"]] == ["low_score"]
    several = await http.post("/api/search", json={"query": "xkqz vrtplm wobbqk"})
    assert several.json()["hits"] == []
    assert (await http.patch(url, json={"settings": {"minScore": 0}})).json()["settings"]["minScore"] == 0
    assert (await ask(http, base, "xkqz vrtplm wobbqk"))["hits"]


async def test_the_score_of_the_first_hit_does_not_depend_on_how_many_are_returned(
    http: httpx.AsyncClient, base: Base
) -> None:
    several = await ask(http, base, "water for the wheel", limit=10)
    one = await ask(http, base, "water for the wheel", limit=1)
    assert len(one["hits"]) == 1
    assert one["hits"][0]["score"] == several["hits"][0]["score"]
    assert one["bestScore"] == several["bestScore"]


async def test_a_vector_search_has_scores_by_the_scale_of_its_embedder(mill: app.Gristmill) -> None:
    embedder = KnowingEmbedder()
    base = await new_base(mill.db)
    question = ENGLISH_PROBES[0][0]
    async with mill.db.transaction() as tx:
        for title, text in (("right", question), ("other", ENGLISH_PROBES[1][1])):
            await file_note_of(tx, base, embedder, title, text)
    base = replace(base, embedder_identity=embedder.identity)
    answer = await mill.searcher.answer([Target(base, embedder)], SearchRequest(question, mode="vector"))
    assert [(hit.title, hit.fits) for hit in answer.hits] == [("right", True), ("other", False)]
    explained = await mill.searcher.answer(
        [Target(base, embedder)], SearchRequest(question, mode="vector", explain=True)
    )
    assert [hit.score for hit in explained.hits] == [hit.score for hit in answer.hits]


async def file_note_of(tx: Any, base: Base, embedder: HashedEmbedder, title: str, text: str) -> None:
    (item,) = await catalog.insert_items(
        tx, base.id, None, [catalog.NewItem("note", title, title, body=text)]
    )
    await write(tx, base, [(item, 1, [Chunk(0, text, 0, len(text), (), embedder.vector(text))])])
    await publish_version(tx, [item], 1, 1)


async def test_a_hidden_document_changes_no_score(mill: app.Gristmill, http: httpx.AsyncClient) -> None:
    """With a hidden document that has a rare word, and without, a caller sees the same scores."""
    scores: list[list[float]] = []
    for hidden in ("The merger of both guilds.", "Nothing of interest here."):
        base = await new_base(mill.db, f"base {len(scores)}", acl=["org:*"])
        async with mill.db.transaction() as tx:
            for number in range(120):
                await file_note(tx, base, f"note {number}", f"Sack {number} of grain for the town.")
            await file_note(tx, base, "guilds", "The guilds of the town met in the hall.")
            await file_note(tx, base, "secret", hidden, acl=["team:8"])
        response = await http.post(
            f"/api/knowledge-bases/{base.id}/search",
            json={"query": "merger of the guilds", "mode": "text"},
            headers={ON_BEHALF: "team:7"},
        )
        scores.append([hit["score"] for hit in response.json()["hits"]])
    assert scores[0] == scores[1]


class TranslatingEmbedder(HashedEmbedder):
    """Gives a text and its translation the same vector."""

    def __init__(self) -> None:
        super().__init__("translating")
        self.strengths = {"english": 0.28, "chinese": 0.28}

    def vector(self, text: str) -> Vectors:
        words = [
            english
            for chinese, english in (("石磨", "stones"), ("水车", "wheel"))
            if chinese in text or english in text.lower()
        ]
        return super().vector(" ".join(words) or text)


async def test_a_chinese_question_finds_the_english_note_that_answers_it(mill: app.Gristmill) -> None:
    """In a base with notes in both languages, of which one in English has the answer."""
    embedder = TranslatingEmbedder()
    base = await new_base(mill.db)
    async with mill.db.transaction() as tx:
        for title, text in (
            ("stones", "The stones of the mill are dressed in spring, and then they run true."),
            ("wheel", "The wheel is driven by the river that is dammed above the mill."),
            ("春天", "春天的时候，村里的人一起去河边种树，每年都有很多人参加。"),
            ("面粉", "面粉要放在干燥的地方，否则容易发霉，每年要检查两次。"),
            ("河", "河水每年夏天上涨，村里的人要提前关上闸门。"),
        ):
            await file_note_of(tx, base, embedder, title, text)
    answer = await mill.searcher.answer([Target(base, embedder)], SearchRequest("石磨每年是什么时候打磨的？"))
    assert answer.hits[0].title == "stones"
    # A question whose words a note in its language has stays with that note.
    answer = await mill.searcher.answer([Target(base, embedder)], SearchRequest("面粉要放在什么地方？"))
    assert answer.hits[0].title == "面粉"
