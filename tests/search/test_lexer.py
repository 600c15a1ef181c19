import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.search.lexer import MAX_LEXEME_LENGTH, is_mostly_cjk, lex


def lexemes(text: str) -> set[str]:
    return {token.lexeme for token in lex(text)}


def test_words_are_folded_and_stemmed() -> None:
    assert lexemes("Running RUNS run") == {"run"}


def test_full_width_letters_are_the_same_letters() -> None:
    assert lexemes("ＡＰＩ") == lexemes("api")


def test_chinese_gives_every_character_and_every_pair() -> None:
    assert lexemes("知识库") == {"知", "识", "库", "知识", "识库"}


def test_a_two_character_word_is_found_inside_a_clause() -> None:
    assert lexemes("识库") <= lexemes("我们的知识库不会丢失文档")


def test_identifiers_are_found_whole_and_by_their_parts() -> None:
    assert {"parsehttp2", "http2"} <= lexemes("parseHTTP2")
    assert lexemes("max_queue_size") == {"max_queue_size", "max", "queue", "size"}
    assert lexemes("os.path.joinAll") == {"os.path.joinall", "os", "path", "joinal", "join", "all"}


def test_mixed_text_keeps_both_languages() -> None:
    assert {"gpu", "显", "显存"} <= lexemes("GPU显存")


@given(st.text(max_size=300))
def test_every_token_stands_where_it_says(text: str) -> None:
    last = 0
    for token in lex(text):
        assert 0 <= token.start < token.end <= len(text)
        assert 0 < len(token.lexeme) <= 3 * MAX_LEXEME_LENGTH
        assert "\0" not in token.lexeme
        assert token.position >= last
        last = token.position


@pytest.mark.parametrize(
    ("text", "expected"),
    [("知识库", True), ("how to 部署", False), ("部署 k8s", True), ("", False), ("42", False)],
)
def test_the_language_of_a_query_is_told_by_its_letters(text: str, expected: bool) -> None:
    assert is_mostly_cjk(text) is expected
