"""How much vectors count, by the languages of the base, of the question and of the embedder."""

import pytest

from gristmill.embedding.local_models import GRANITE, UNIVERSAL
from gristmill.search.languages import certain_language, name_language
from gristmill.search.leg_weights import (
    CROSS_LANGUAGE_WEIGHT,
    FOREIGN_WEIGHT,
    ONE_WORD_WEIGHT,
    VECTOR_WEIGHT,
    language_among_others,
    limit_for_one_word,
    vector_weight,
    weights_for_languages,
)

ENGLISH_QUESTION = "how do I restart the server"
GERMAN_QUESTION = "wie kann ich das System nicht mit der Hand starten und die Daten von dem"
VIETNAMESE_QUESTION = "Ai là người đã sáng lập ra công ty này?"
CHINESE_QUESTION = "如何重启服务器"


@pytest.mark.parametrize(
    ("query", "languages", "weight"),
    [
        (ENGLISH_QUESTION, {"english": 100}, VECTOR_WEIGHT),
        ("kubectl rollout", {"english": 100}, VECTOR_WEIGHT),
        ("kubectl rollout", {}, VECTOR_WEIGHT),
        ("kubectl rollout", {"vietnamese": 100}, 0.0),
        (VIETNAMESE_QUESTION, {"vietnamese": 100, "english": 4}, 0.0),
        (ENGLISH_QUESTION, {"vietnamese": 60, "english": 40}, VECTOR_WEIGHT),
        ("kubectl rollout", {"vietnamese": 50, "english": 50}, VECTOR_WEIGHT / 2),
        (CHINESE_QUESTION, {"english": 100}, 0.0),
        (CHINESE_QUESTION, {"english": 50, "chinese": 50}, 0.0),
        (GERMAN_QUESTION, {"english": 100}, FOREIGN_WEIGHT),
        (GERMAN_QUESTION, {"german": 100}, 0.0),
        ("", {"english": 1}, VECTOR_WEIGHT),
    ],
)
def test_an_english_embedder_counts_where_the_base_is_english(
    query: str, languages: dict[str, int], weight: float
) -> None:
    assert vector_weight(query, languages, GRANITE.strengths) == pytest.approx(weight)


@pytest.mark.parametrize(
    ("query", "languages"),
    [
        (CHINESE_QUESTION, {"english": 100}),
        (GERMAN_QUESTION, {"english": 100}),
        (ENGLISH_QUESTION, {"chinese": 100}),
        ("как перезапустить", {"english": 70, "german": 30}),
    ],
)
def test_a_multilingual_embedder_leads_where_the_question_is_in_another_language(
    query: str, languages: dict[str, int]
) -> None:
    assert vector_weight(query, languages, UNIVERSAL.strengths) == CROSS_LANGUAGE_WEIGHT


def test_a_multilingual_embedder_is_left_out_where_it_does_not_know_the_language() -> None:
    assert vector_weight(VIETNAMESE_QUESTION, {"vietnamese": 100}, UNIVERSAL.strengths) == 0
    assert 0 < vector_weight(CHINESE_QUESTION, {"chinese": 100}, UNIVERSAL.strengths) < VECTOR_WEIGHT


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("用 Postgres 做知识库搜索", "chinese"),
        ("データベースを再起動する方法", "japanese"),
        ("서버를 다시 시작하는 방법", "korean"),
        ("วิธีรีสตาร์ทเซิร์ฟเวอร์", "thai"),
        ("A long English sentence about the character 知.", "english"),
    ],
)
def test_languages_without_spaces_are_known_by_their_script(text: str, language: str) -> None:
    assert name_language(text, "english") == language


@pytest.mark.parametrize(
    ("query", "language"),
    [(ENGLISH_QUESTION, "english"), ("kubectl rollout", None), ("", None), ("как перезапустить", "russian")],
)
def test_a_question_without_evidence_has_no_certain_language(query: str, language: str | None) -> None:
    assert certain_language(query) == language


def test_one_word_is_searched_for_by_words_first() -> None:
    assert limit_for_one_word("Dockerfile", VECTOR_WEIGHT) == ONE_WORD_WEIGHT
    assert limit_for_one_word("Dockerfile", 0.1) == 0.1
    assert limit_for_one_word("the Dockerfile", VECTOR_WEIGHT) == VECTOR_WEIGHT
    assert limit_for_one_word("磨坊主什么时候打磨石磨", VECTOR_WEIGHT) == VECTOR_WEIGHT


def test_the_language_of_a_chunk_matters_where_the_embedder_knows_several() -> None:
    strengths = {"english": 0.3, "chinese": 0.3}
    mixed = {"english": 50, "chinese": 50, "german": 50}
    assert language_among_others("磨坊主什么时候打磨石磨", mixed, strengths) == "chinese"
    assert language_among_others("who sharpens the stones", mixed, strengths) == "english"
    assert language_among_others("wann werden die Steine geschärft und von wem", mixed, strengths) is None
    assert language_among_others("millstone", mixed, strengths) is None  # it could be any
    assert language_among_others("who sharpens the stones", {"english": 99, "chinese": 1}, strengths) is None
    assert language_among_others("who sharpens the stones", mixed, {"english": 1.0}) is None


def test_other_languages_weigh_more_where_words_cover_nothing() -> None:
    covered = weights_for_languages(0.17, is_covered_by_words=True)
    uncovered = weights_for_languages(0.17, is_covered_by_words=False)
    assert (covered.own, covered.other) == (0.17, 0.8)
    assert uncovered.own > covered.own
    assert uncovered.other > covered.other
