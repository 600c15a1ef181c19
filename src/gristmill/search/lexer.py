"""Splits texts into lexemes, for index and query alike; PostgreSQL's text search is not used.

    a word                       NFKC, lower case, stemmed, without accents      "Läufer"     → lauf
    an identifier                as it is, and its parts                         "parseHTTP2" → parsehttp2, pars, http2
                                                                                 "max_size"   → max_size, max, size
    Chinese, Japanese, Korean,   every character and every pair of neighbours,   "知識庫"      → 知, 识, 库, 知识, 识库
    Thai, Lao, Khmer, Burmese    with traditional characters as simplified

The pairs match a two-character word inside a clause that has no spaces. A stem of less than two letters is not used: some
stemmers leave one letter of each small word, or none. A change that produces different lexemes must
raise `LEXER_VERSION`: compaction then lexes the chunks of older segments again (`compaction.py`).
"""

import functools
import itertools
import operator
import re
import threading
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import Stemmer

from gristmill.search.han_variants import HAN_VARIANTS
from gristmill.search.language_detection import ENGLISH, detect_language

LEXER_VERSION = 2
MAX_LEXEME_LENGTH = 64  # characters; longer strings are not words that people search for
NOT_STEMMED = frozenset(
    {"vietnamese", "ukrainian", "bulgarian", "urdu", "hebrew"}
)  # there is no stemmer for them
ACCENTED = frozenset({"vietnamese"})  # accents make different words: a word is indexed with and without them
_MIN_STEM_LETTERS = 2

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2f00-\u2fd5\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f"
)
_MARKS = "\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u0b82\u0bbe-\u0bcd"
_LETTERS = rf"[^\W_{_UNSPACED}](?:[^\W_{_UNSPACED}]|[{_MARKS}])*"
# A word, or words joined by an underscore or a dot: `snake_case`, `os.path.join`, `3.14`.
_WORD = re.compile(rf"[{_UNSPACED}]+|{_LETTERS}(?:[._]{_LETTERS})*")
# For ASCII texts: replacing separators by spaces and splitting there is six times as fast as the regular expression.
_SEPARATORS_TO_SPACES = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "._")}
_TYPOGRAPHIC_SIGNS = "\u2019\u2018\u201c\u201d\u2014\u2013\u2026\u2022\u00a0\u2192\u00b7\u00d7"  # common in texts that are otherwise ASCII
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+(?:[._][A-Za-z0-9]+)*")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
# One character of a script without spaces, as people see it: a kana with its voicing mark, a syllable of jamo.
_UNIT = re.compile(
    "[\u1100-\u115f][\u1160-\u11a7]?[\u11a8-\u11ff]?|[\u3040-\u30ff\uff66-\uff9d][\u3099\u309a\uff9e\uff9f]|.",
    re.DOTALL,
)
_JOINER = re.compile("[._]")
_CAMEL_PARTS = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")
_CJK = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f]"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A lexeme, its word position, and its character range in the text."""

    lexeme: str
    position: int
    start: int
    end: int


def lex(text: str, language: str | None = None) -> Iterator[Token]:
    """The tokens of `text`, in order, stemmed for `language` or else for the detected one. Several tokens can share a
    position."""
    language = language or detect_language(text, split_words(text))
    position = 0
    for word in _WORD.finditer(text):
        start = word.start()
        if _IS_UNSPACED.match(text, start):
            units = _units(word.group())
            for number, (unit, unit_start, unit_end) in enumerate(units, 1):
                position += 1
                yield Token(unit, position, start + unit_start, start + unit_end)
                if number < len(units):
                    next_unit, _, next_end = units[number]
                    yield Token(unit + next_unit, position, start + unit_start, start + next_end)
            continue
        last_range: tuple[int, int] | None = None
        for lexeme, part_start, part_end in _lexemes(word.group(), language):
            if part_start == 0 and last_range != (0, part_end):
                position += 1
            last_range = part_start, part_end
            yield Token(lexeme, position, start + part_start, start + part_end)


def matching_ranges(
    text: str, matches: Callable[[str], bool], language: str | None = None
) -> Iterator[tuple[int, int]]:
    """The character ranges of matching lexemes, in order: the same as with `lex`, but only words that contain a match
    are lexed in full."""
    language = language or detect_language(text, split_words(text))
    for match in (_ASCII_WORD if text.isascii() else _WORD).finditer(text):
        word, start = match.group(), match.start()
        if _IS_UNSPACED.match(word):
            units = _units(word)
            for number, (unit, unit_start, unit_end) in enumerate(units, 1):
                if matches(unit):
                    yield start + unit_start, start + unit_end
                if number < len(units) and matches(unit + units[number][0]):
                    yield start + unit_start, start + units[number][2]
        elif any(map(matches, lexemes_from_cache(word, language))):
            for token in lex(word, language):
                if matches(token.lexeme):
                    yield start + token.start, start + token.end


def query_tokens(text: str, languages: Collection[str]) -> Iterator[tuple[Token, tuple[str, ...]]]:
    """The tokens of a query, each with the lexemes that it becomes in these languages."""
    tokens: dict[tuple[int, int, int], tuple[Token, dict[str, None]]] = {}
    for language in sorted(languages) or [ENGLISH]:
        lexed: set[tuple[int, int, int]] = set()
        for token in lex(text, language):
            position = (token.position, token.start, -token.end)
            if position not in lexed:  # a word that is written with accents is not looked for without them
                tokens.setdefault(position, (token, {}))[1][token.lexeme] = None
            lexed.add(position)
    for _, (token, names) in sorted(tokens.items()):
        yield token, tuple(names)


def split_words(text: str) -> list[str]:
    """The words of `text`, in order: what is between spaces and punctuation. In an ASCII text, words keep the dots and
    underscores around them."""
    if not text.isascii():
        for sign in _TYPOGRAPHIC_SIGNS:
            if sign in text:
                text = text.replace(sign, " ")
    return text.translate(_SEPARATORS_TO_SPACES).split() if text.isascii() else _WORD.findall(text)


def lexemes(text: str, language: str) -> Iterator[str]:
    """The lexemes of `text` without positions: several times as fast as `lex`."""
    return itertools.chain.from_iterable(map(lexemes_of_word, split_words(text), itertools.repeat(language)))


def lexemes_of_word(raw_word: str, language: str) -> Sequence[str]:
    """The lexemes of one word from `split_words`."""
    if raw_word.isascii():
        parts = (raw_word,) if raw_word.isalnum() else _ASCII_WORD.findall(raw_word)
    elif _IS_UNSPACED.match(raw_word):
        units = _unit_lexemes(raw_word)
        return (*units, *map(operator.add, units, units[1:]))
    else:
        parts = (raw_word,)
    return [lexeme for part in parts for lexeme, _, _ in _lexemes(part, language)]


_MAX_CACHED_WORDS = 40_000  # of all languages together: some 12 MB
_MAX_CACHED_LENGTH = 32
_lexeme_cache: defaultdict[str, dict[str, Sequence[str]]] = defaultdict(dict)


def lexemes_from_cache(word: str, language: str) -> Sequence[str]:
    """The same as `lexemes_of_word`, with a cache."""
    lexemes = _lexeme_cache[language].get(word)
    if lexemes is None:
        lexemes = lexemes_of_word(word, language)
        if len(word) <= _MAX_CACHED_LENGTH:
            if sum(map(len, _lexeme_cache.values())) >= _MAX_CACHED_WORDS:
                _lexeme_cache.clear()
            _lexeme_cache[language][word] = lexemes
    return lexemes


def cached_lexemes(words: Collection[str], language: str) -> list[Sequence[str]]:
    """The lexemes of each word."""
    known = list(map(_lexeme_cache[language].get, words))
    return [
        lexemes_from_cache(word, language) if lexemes is None else lexemes
        for word, lexemes in zip(words, known, strict=True)
    ]


def is_unspaced(text: str) -> bool:
    """Whether the text begins in a script without spaces."""
    return _IS_UNSPACED.match(text) is not None


def is_mostly_cjk(text: str) -> bool:
    """Whether at least half of the text's letters are Chinese, Japanese or Korean."""
    letters = [character for character in text if character.isalpha()]
    return 2 * sum(1 for letter in letters if _CJK.match(letter)) >= max(1, len(letters))


@functools.lru_cache(maxsize=5_000)
def _lexemes(word: str, language: str) -> tuple[tuple[str, int, int], ...]:
    """A word's lexemes, each with the character range in the word; the lexeme of the entire word comes first."""
    if language in ACCENTED and not word.isascii():
        accented = fold(word)
        return tuple((form, 0, len(word)) for form in dict.fromkeys((accented, _without_accents(accented))))
    if word.isalpha() and (word.islower() or word.istitle() or word.isupper()):
        return ((_stem(fold(word), language), 0, len(word)),)
    parts = list(_identifier_parts(word))
    whole_lexeme = fold(word) if _JOINER.search(word) else _stem(fold(word), language)
    lexemes = [(whole_lexeme, 0, len(word))]
    if len(parts) > 1:
        for part_start, part_end in parts:
            lexeme = _stem(fold(word[part_start:part_end]), language)
            if lexeme and lexeme != whole_lexeme:
                lexemes.append((lexeme, part_start, part_end))
    return tuple(lexemes)


def _identifier_parts(word: str) -> Iterator[tuple[int, int]]:
    start = 0
    for joiner in (*_JOINER.finditer(word), None):
        end = joiner.start() if joiner else len(word)
        segment = word[start:end]
        camel_parts = list(_CAMEL_PARTS.finditer(segment)) if _is_camel(segment) else []
        if len(camel_parts) > 1:
            if start > 0 or end < len(word):
                yield start, end
            for camel_part in camel_parts:
                yield start + camel_part.start(), start + camel_part.end()
        elif segment:
            yield start, end
        start = end + 1


def _is_camel(part: str) -> bool:
    return part.isascii() and not (part.islower() or part.isupper() or part.istitle() or part.isdecimal())


def fold(word: str) -> str:
    """The word with case, character width, ligatures and variants of Chinese characters normalised."""
    if word.isascii():
        return word.lower()[:MAX_LEXEME_LENGTH].replace("\0", "")
    normalised = unicodedata.normalize("NFKC", word).casefold()[:MAX_LEXEME_LENGTH].replace("\0", "")
    return normalised.translate(HAN_VARIANTS) if _IS_UNSPACED.search(normalised) else normalised


def _units(run: str) -> list[tuple[str, int, int]]:
    """The characters of a run of a script without spaces, folded, each with its range."""
    if unicodedata.is_normalized("NFKC", run):
        return [(unit, at, at + 1) for at, unit in enumerate(run.translate(HAN_VARIANTS))]
    return [(fold(unit.group()), *unit.span()) for unit in _UNIT.finditer(run)]


def _unit_lexemes(run: str) -> Sequence[str]:
    """The same as `_units`, without ranges."""
    if unicodedata.is_normalized("NFKC", run):
        return run.translate(HAN_VARIANTS)
    return [fold(unit) for unit in _UNIT.findall(run)]


def _stem(word: str, language: str) -> str:
    if not word.isalpha() and word.isascii():
        return word  # has digits: a name or a number
    stem = word if language in NOT_STEMMED else _stemmer(language).stemWord(word)
    if len(stem) < 2 * _MIN_STEM_LETTERS and _letter_count(stem) < _MIN_STEM_LETTERS:
        stem = word
    return stem if stem.isascii() else _without_accents(stem)


def _letter_count(stem: str) -> int:
    return sum(not unicodedata.category(character).startswith("M") for character in stem)


def _without_accents(word: str) -> str:
    """The word without accents, if it is Latin or Greek; in other scripts a mark makes a different letter."""
    decomposed = unicodedata.normalize("NFD", word)
    if all(c < "\u0250" or "\u0370" <= c < "\u0400" or unicodedata.combining(c) for c in decomposed):
        return "".join(c for c in decomposed if not unicodedata.combining(c)).replace("đ", "d")
    return word


_NO_CACHE = 0  # `lexemes_from_cache` caches already
_stemmers = threading.local()  # a Stemmer is not safe to share between threads


class _Stemmer(Protocol):
    """The part of PyStemmer that we use; the library has no type hints."""

    def stemWord(self, word: str, /) -> str: ...  # noqa: N802


def _stemmer(language: str) -> _Stemmer:
    stemmers: dict[str, _Stemmer] | None = getattr(_stemmers, "by_language", None)
    if stemmers is None:
        stemmers = _stemmers.by_language = {}
    if language not in stemmers:
        stemmers[language] = cast(_Stemmer, Stemmer.Stemmer(language, _NO_CACHE))  # pyright: ignore[reportUnknownMemberType]
    return stemmers[language]
