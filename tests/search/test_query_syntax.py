import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.search.highlight import highlight_ranges
from gristmill.search.query_syntax import parse, without_syntax

ENGLISH = ("english",)


def test_words_are_terms_and_count_as_often_as_they_are_asked() -> None:
    question = parse("mill stones and mill wheels", ENGLISH)
    weights = {term.names[0]: term.weight for term in question.terms}
    assert weights == {"mill": 2.0, "stone": 1.0, "and": 1.0, "wheel": 1.0}


def test_a_phrase_is_demanded_and_its_words_are_looked_for() -> None:
    question = parse('who dressed the "mill stones"', ENGLISH)
    (phrase,) = question.phrases
    assert phrase.is_in("A mill stone is heavy.")
    assert not phrase.is_in("A stone of the mill is heavy.")
    assert {"mill", "stone"} <= question.names


def test_a_chinese_phrase_stands_in_a_clause() -> None:
    (phrase,) = parse('"知识库"', ENGLISH).phrases
    assert phrase.is_in("我们的知识库不会丢失文档")
    assert not phrase.is_in("知识的库")


@pytest.mark.parametrize(
    ("text", "excluded"),
    [
        ("stones -water", ["water"]),
        ("at -40 degrees", []),
        ("high-speed flow", []),
        ("a - b", []),
        ("-wheel stones", ["wheel"]),
    ],
)
def test_a_minus_excludes_words_only(text: str, excluded: list[str]) -> None:
    assert [term.names[0] for term in parse(text, ENGLISH).excluded] == excluded


def test_an_excluded_phrase_is_one() -> None:
    question = parse('stones -"water mill"', ENGLISH)
    assert [phrase.words for phrase in question.excluded_phrases] == [(("water",), ("mill",))]
    assert question.names == {"stone"}


def test_a_star_makes_a_prefix() -> None:
    question = parse("grind* x*", ENGLISH)
    assert question.prefixes == ("grind",)


def test_a_prefix_that_is_a_word_has_its_stem_which_is_what_the_index_has() -> None:
    question = parse("services* wheels", ENGLISH)
    assert (question.prefixes, question.names) == (("services",), {"servic", "wheel"})
    assert highlight_ranges("A service of wheels, serviced.", question) == [(2, 9), (13, 19), (21, 29)]


def test_a_word_has_a_name_in_every_language_of_the_base() -> None:
    (term,) = parse("Häuser", ("english", "german")).terms
    assert set(term.names) == {"hauser", "haus"}


def test_the_embedder_is_asked_without_the_syntax() -> None:
    assert without_syntax('"mill stones" -water grind*') == "mill stones grind"
    assert without_syntax("-water") == "-water"


@given(st.text(max_size=200))
def test_any_text_is_a_question(text: str) -> None:
    question = parse(text, ENGLISH)
    for start, end in highlight_ranges(text, question):
        assert 0 <= start < end <= len(text)


def test_highlights_are_where_the_words_are() -> None:
    text = "The miller sharpens the stones; grinding follows."
    highlights = [text[start:end] for start, end in highlight_ranges(text, parse("stone grind*", ENGLISH))]
    assert highlights == ["stones", "grinding"]


def highlighted_words(text: str, question: str, language: str = "english") -> list[str]:
    return [text[start:end] for start, end in highlight_ranges(text, parse(question, [language]))]


def test_stop_words_are_not_highlighted_unless_the_query_has_no_others() -> None:
    text = "A miller is at the mill, and the mill is old."
    assert highlighted_words(text, "is the mill a mill") == ["mill", "mill"]
    assert highlighted_words(text, "is the mil*") == ["miller", "mill", "mill"]
    assert highlighted_words("To be or not to be.", "to be") == ["To", "be", "to", "be"]
    german = "Der Müller und die Mühle sind nicht auf dem Berg, und die Räder drehen sich mit dem Wasser."
    assert highlighted_words(german, "die Mühle", "german") == ["Mühle"]
    assert highlighted_words("我们的知识库是最好的", "好的") == ["好的"]
    assert highlighted_words("我们的知识库是最好的", "最 的") == ["最"]


def test_characters_of_chinese_words_are_not_highlighted_elsewhere() -> None:
    """A character of a pair by itself is another word; one that was asked for by itself is highlighted."""
    assert highlighted_words("这个组件处理文件的事件。", "组件") == ["组件"]
    text = "为何不用？请看如何使用这个组件，任何人都能用。"
    assert highlighted_words(text, "如何使用组件") == ["使用", "组件"]
    assert highlighted_words("會議室在三樓。", "会议室 在哪里") == ["會議室"]
    assert highlighted_words("猫吃猫粮。", "猫 粮食") == ["猫", "猫"]
    assert highlighted_words("如何？", "如何") == ["如何"]
    assert highlighted_words("The 组件 mill", "mill 组件") == ["组件", "mill"]


def test_nothing_inside_an_html_tag_is_highlighted() -> None:
    text = '<a href="mill">A mill</a><!-- mill --> and a List<Mill> of 1 < 2 mill'
    assert highlighted_words(text, "a mill") == ["mill", "Mill", "mill"]
    assert highlighted_words("<div>mill</div>", "div") == []
