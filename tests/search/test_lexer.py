import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.search import lexer
from gristmill.search.lexer import (
    MAX_LEXEME_LENGTH,
    fold,
    is_mostly_cjk,
    lex,
    lexemes_from_cache,
    matching_ranges,
    query_tokens,
    split_words,
)
from gristmill.search.lexer import lexemes as fast_lexemes


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


@pytest.mark.parametrize(
    ("traditional", "simplified"),
    [
        ("知識庫與資料庫", "知识库与资料库"),
        ("裡面的麵條發黴了", "里面的面条发霉了"),
        ("頭髮乾後，於臺灣瞭解計畫", "头发干后，于台湾了解计划"),
        ("衞生署說明綫路", "卫生署说明线路"),
    ],
)
def test_traditional_and_simplified_chinese_are_the_same_words(traditional: str, simplified: str) -> None:
    """Also of Hong Kong and Taiwan; at the same places, so that highlights are exact."""
    assert positions(traditional) == positions(simplified)
    assert fold(traditional) == fold(simplified)


@pytest.mark.parametrize(
    ("form", "usual"),
    [
        ("ｶﾞｷﾞｸｹ", "ガギクケ"),
        (unicodedata.normalize("NFD", "ガギ한국어"), "ガギ한국어"),
        ("⽤⼾", "用户"),
        ("\uf9e4", "理"),
    ],
)
def test_half_width_composed_and_compatibility_forms_are_the_same_words(form: str, usual: str) -> None:
    assert [token.lexeme for token in lex(form)] == [token.lexeme for token in lex(usual)]
    ranges = [(token.start, token.end) for token in lex(form)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == len(form)
    assert [*fast_lexemes(form, "english")] == [*fast_lexemes(usual, "english")]


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("hindi", "के की का को में से लिए"),
        ("greek", "του της που για όταν και"),
        ("turkish", "önce eden kim"),
        ("russian", "это они его"),
    ],
)
def test_no_stemmer_cuts_a_word_to_a_letter(language: str, words: str) -> None:
    for word in words.split():
        [token] = lex(word, language)
        letters = [letter for letter in token.lexeme if not unicodedata.category(letter).startswith("M")]
        assert len(letters) >= 2 or token.lexeme == word


def test_greek_words_are_found_without_their_accents() -> None:
    assert positions("όταν", "greek") == positions("οταν", "greek")


def test_languages_without_a_stemmer_keep_their_words() -> None:
    assert [token.lexeme for token in lex("ספרים של", "hebrew")] == ["ספרים", "של"]


def test_vietnamese_words_are_found_with_their_accents_and_without() -> None:
    """Accents make different words; those who type none still find them all."""
    assert positions("người đọc", "vietnamese") == [
        ("người", 1, 0, 5),
        ("nguoi", 1, 0, 5),
        ("đọc", 2, 6, 9),
        ("doc", 2, 6, 9),
    ]
    assert [names for _, names in query_tokens("người doc", ["vietnamese"])] == [("người",), ("doc",)]


def test_identifiers_are_found_whole_and_by_their_parts() -> None:
    assert {"parsehttp2", "http2"} <= lexemes("parseHTTP2")
    assert lexemes("max_queue_size") == {"max_queue_size", "max", "queue", "size"}
    assert lexemes("os.path.joinAll") == {"os.path.joinall", "os", "path", "joinal", "join", "all"}


def test_mixed_text_keeps_both_languages() -> None:
    assert {"gpu", "显", "显存"} <= lexemes("GPU显存")


def positions(text: str, language: str | None = None) -> list[tuple[str, int, int, int]]:
    return [(token.lexeme, token.position, token.start, token.end) for token in lex(text, language)]


def test_tokens_have_the_position_of_their_word_and_their_own_range() -> None:
    assert positions("Mills, grinding") == [("mill", 1, 0, 5), ("grind", 2, 7, 15)]
    assert positions("库存 ok") == [
        ("库", 1, 0, 1),
        ("库存", 1, 0, 2),
        ("存", 2, 1, 2),
        ("ok", 3, 3, 5),
    ]
    assert [token[0::2] for token in positions("run maxQueue.size2")] == [
        ("run", 0),
        ("maxqueue.size2", 4),
        ("maxqueu", 4),
        ("max", 4),
        ("queue", 7),
        ("size2", 13),
    ]
    assert {token[3] for token in positions("run maxQueue.size2")} == {3, 18, 12, 7}


def test_parts_equal_to_the_word_are_not_repeated() -> None:
    assert lexemes("HTTPServer") == {"httpserver", "http", "server"}
    assert lexemes("__init__") == {"init"}
    assert lexemes("a.b") == {"a.b", "a", "b"}
    assert lexemes("v2") == {"v2"}
    assert lexemes("2fast") == {"2fast"}
    assert lexemes("2024") == {"2024"}
    assert positions("millS", "english") == [("mill", 1, 0, 5), ("s", 1, 4, 5)]


def test_words_are_split_at_spaces_and_signs() -> None:
    assert split_words("max_size.b, c-d") == ["max_size.b", "c", "d"]
    assert split_words("__init__ .a") == ["__init__", ".a"]
    assert split_words("mill’s “stone” – flour") == ["mill", "s", "stone", "flour"]
    assert split_words("the mill’s “__init__”") == ["the", "mill", "s", "__init__"]
    assert split_words("Mühle, GPU显存") == ["Mühle", "GPU", "显存"]


def test_a_joined_word_is_not_stemmed_and_a_camel_word_is() -> None:
    assert lexemes("maxMills") == {"maxmil", "max", "mill"}
    assert "mühlen.höfe" in {token.lexeme for token in lex("Mühlen.Höfe", "german")}
    assert lexemes("iPhone.Mills") == {"iphone.mills", "iphon", "i", "phone", "mill"}


def test_accents_are_removed_from_latin_letters_only() -> None:
    assert lexemes("café") == lexemes("cafe")
    assert lexemes("й") != lexemes("и")
    assert lexemes("ɐ\u0301") != lexemes("ɐ")


def test_a_long_word_is_cut_at_64_characters() -> None:
    assert max(map(len, lexemes("9" * 100))) == 64
    assert max(map(len, lexemes("é" * 100))) <= 64


def test_a_language_stems_its_own_words() -> None:
    assert positions("Mühlen", "german") == [("muhl", 1, 0, 6)]
    assert [names for _, names in query_tokens("running", ["english", "german"])] == [("run", "running")]
    assert [names for _, names in query_tokens("runs", [])] == [("run",)]


@given(st.text(alphabet="abAB12._ -知识庫éß’ｶﾞか\u3099ำ", max_size=60), st.sampled_from(["english", "german"]))
def test_the_fast_ways_give_the_same_lexemes(text: str, language: str) -> None:
    """What is indexed, what a query looks for and what is highlighted must agree."""
    expected = [token.lexeme for token in lex(text, language)]
    assert sorted(fast_lexemes(text, language)) == sorted(expected)
    words = split_words(text)
    cached = [lexeme for word in words for lexeme in lexemes_from_cache(word, language)]
    assert sorted(cached) == sorted(expected)
    assert sorted(lexeme for word in words for lexeme in lexemes_from_cache(word, language)) == sorted(
        expected
    )


@given(st.text(alphabet="abAB1._ 知識ｶﾞ", max_size=40))
def test_ranges_of_matches_are_those_of_the_tokens(text: str) -> None:
    def matches(lexeme: str) -> bool:
        return "a" in lexeme or lexeme == "知"

    expected = {(token.start, token.end) for token in lex(text) if matches(token.lexeme)}
    assert set(matching_ranges(text, matches)) == expected


def test_half_of_the_letters_decide_which_script_a_text_has() -> None:
    assert is_mostly_cjk("知a")
    assert not is_mostly_cjk("知ab")
    assert is_mostly_cjk("知识ab")


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
def test_the_language_of_a_query_is_detected_by_its_letters(text: str, expected: bool) -> None:
    assert is_mostly_cjk(text) is expected


def test_the_cache_of_lexemes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of up to 32 characters, 40,000 of them; a full cache starts again."""
    cache: defaultdict[str, dict[str, Sequence[str]]] = defaultdict(dict)
    monkeypatch.setattr(lexer, "_lexeme_cache", cache)
    for length in (32, 33):
        lexemes_from_cache("m" * length, "english")
    assert [*cache["english"]] == ["m" * 32]
    cache["german"] = dict.fromkeys(map(str, range(39_998)), ())
    lexemes_from_cache("last", "english")
    assert sum(map(len, cache.values())) == 40_000
    assert lexemes_from_cache("mills", "english") == ["mill"]
    assert cache == {"english": {"mills": ["mill"]}}


SAMPLES = [
    "The millers' wheels were grinding: running, runs, ran; Mills & Sons (est. 1897) – “quoted”, don’t…",
    "parseHTTP2 HTTPServer max_queue_size os.path.joinAll __init__ v2.10.3 3.14 iPhone.Mills x86_64 millS A_B",
    "Die Mühlen mahlen langsam, Läufer laufen; Straße, Größe. Les élèves étudiaient à l’école, déjà vu, cœur.",
    "知识库不会丢失任何文档。GPU显存 不足，ＡＰＩ テスト 검색 엔진 ไทย မြန်မာ",
    "Мельница мелет муку; ёлка и йод. Η αλήθεια. مكتبة الكتب हिन्दी भाषा Tiếng Việt ɐ\u0301",
    "a" * 70 + " " + "é" * 70 + " " + "9" * 70 + " \0nul\0 ﬁne ½ ² Ⅳ",
]


def test_lexemes_stay_the_same_until_the_version_changes() -> None:
    """Segments keep their lexemes while the version is the same. Who changes lexemes raises `LEXER_VERSION`, and then this
    digest."""
    digest = hashlib.sha256(str(lexer.LEXER_VERSION).encode())
    for text in SAMPLES:
        for language in ("english", "german", "french"):
            for token in lex(text, language):
                digest.update(f"{token.lexeme} {token.position} {token.start} {token.end}\n".encode())
    assert digest.hexdigest() == "32cbfc29d5133a96716b3e432ff9591e728490251cabe6dff1af54e885a5643e"
