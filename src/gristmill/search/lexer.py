"""Words, for index and query alike: PostgreSQL's own parser never sees the text.

    a word                       NFKC, lower case, its language's stem, without accents   "Läufer"     → lauf
    an identifier                whole, and its parts                                     "parseHTTP2" → parsehttp2, pars, http2
                                                                                          "max_size"   → max_size, max, size
    Chinese, Japanese, Korean,   every character and every pair                           "知识库"      → 知, 识, 库, 知识, 识库
    Thai, Lao, Khmer, Burmese

The pairs are what finds a two-character word inside a clause that has no spaces. A change here that changes lexemes
raises `RECIPE`: what was lexed by another recipe is lexed again (`tidy.py`).
"""

import functools
import itertools
import re
import threading
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import Stemmer

from gristmill.search.languages import ENGLISH, language_of

RECIPE = 1
LONGEST = 64  # characters of one lexeme; what is longer is no word that anybody searches for

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f"
)
_MARKS = "\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u0b82\u0bbe-\u0bcd"
_LETTERS = rf"[^\W_{_UNSPACED}](?:[^\W_{_UNSPACED}]|[{_MARKS}])*"
# A word, or words tied by an underscore or a dot: `snake_case`, `os.path.join`, `3.14`.
_RUN = re.compile(rf"[{_UNSPACED}]+|{_LETTERS}(?:[._]{_LETTERS})*")
# The same where all is ASCII: split where neither letter, digit, dot nor underscore stands, which is six times as fast,
# and then what was split.
_SPACED = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "._")}
_SIGNS = "\u2019\u2018\u201c\u201d\u2014\u2013\u2026\u2022\u00a0\u2192\u00b7\u00d7"  # that stand in texts which are ASCII else
_ASCII_RUN = re.compile(r"[A-Za-z0-9]+(?:[._][A-Za-z0-9]+)*")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_TIED = re.compile("[._]")
_PARTS = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")
_CJK = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f]"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A lexeme, its place among the words, and where in the text it stands."""

    lexeme: str
    position: int
    start: int
    end: int


def lex(text: str, language: str | None = None) -> Iterator[Token]:
    """The tokens of `text`, in order, stemmed for its own language unless one is given; several may share a place."""
    language = language or language_of(text)
    position = 0
    for run in _RUN.finditer(text):
        start, end = run.span()
        if _IS_UNSPACED.match(text, start):
            for at in range(start, end):
                position += 1
                yield Token(fold(text[at]), position, at, at + 1)
                if at + 1 < end:
                    yield Token(fold(text[at : at + 2]), position, at, at + 2)
            continue
        for lexeme, first, last in _lexemes(run.group(), language):
            if first == 0:
                position += 1
            yield Token(lexeme, position, start + first, start + last)


def forms(text: str, languages: Collection[str]) -> Iterator[tuple[Token, tuple[str, ...]]]:
    """The tokens of a question, each with all that it may be called in texts of these languages."""
    found: dict[tuple[int, int, int], tuple[Token, dict[str, None]]] = {}
    for language in sorted(languages) or [ENGLISH]:
        for token in lex(text, language):
            place = (token.position, token.start, -token.end)
            found.setdefault(place, (token, {}))[1][token.lexeme] = None
    for _, (token, names) in sorted(found.items()):
        yield token, tuple(names)


def runs(text: str) -> list[str]:
    """What stands between the spaces and signs of `text`, in order: words, and stretches without spaces. Where all is
    ASCII, with the dots and underscores around them."""
    if not text.isascii():
        for sign in _SIGNS:
            if sign in text:
                text = text.replace(sign, " ")
    return text.translate(_SPACED).split() if text.isascii() else _RUN.findall(text)


def lexemes(text: str, language: str) -> Iterator[str]:
    """The lexemes of `text` alone: no places, and several times as fast."""
    return itertools.chain.from_iterable(map(of_run, runs(text), itertools.repeat(language)))


def of_run(run: str, language: str) -> Sequence[str]:
    """The lexemes of one of the `runs`."""
    if run.isascii():
        words = (run,) if run.isalnum() else _ASCII_RUN.findall(run)
    elif _IS_UNSPACED.match(run):
        return (*map(fold, run), *(fold(run[at : at + 2]) for at in range(len(run) - 1)))
    else:
        words = (run,)
    return [lexeme for word in words for lexeme, _, _ in _lexemes(word, language)]


def is_mostly_cjk(text: str) -> bool:
    """Whether at least half of the text's letters are Chinese, Japanese or Korean."""
    letters = [character for character in text if character.isalpha()]
    return 2 * sum(1 for letter in letters if _CJK.match(letter)) >= max(1, len(letters))


@functools.lru_cache(maxsize=5_000)
def _lexemes(word: str, language: str) -> tuple[tuple[str, int, int], ...]:
    """A word's lexemes, each with the part of the word that it stands for; the whole comes first."""
    if word.isalpha() and (word.islower() or word.istitle() or word.isupper()):
        return ((_stem(fold(word), language), 0, len(word)),)
    pieces = list(_pieces(word))
    whole = fold(word) if _TIED.search(word) else _stem(fold(word), language)
    found = [(whole, 0, len(word))]
    if len(pieces) > 1:
        for first, last in pieces:
            lexeme = _stem(fold(word[first:last]), language)
            if lexeme and lexeme != whole:
                found.append((lexeme, first, last))
    return tuple(found)


def _pieces(word: str) -> Iterator[tuple[int, int]]:
    start = 0
    for tied in (*_TIED.finditer(word), None):
        end = tied.start() if tied else len(word)
        part = word[start:end]
        humps = list(_PARTS.finditer(part)) if _is_camel(part) else []
        if len(humps) > 1:
            if start > 0 or end < len(word):
                yield start, end
            for hump in humps:
                yield start + hump.start(), start + hump.end()
        elif part:
            yield start, end
        start = end + 1


def _is_camel(part: str) -> bool:
    return part.isascii() and not (part.islower() or part.isupper() or part.istitle() or part.isdecimal())


def fold(word: str) -> str:
    """A word in one spelling: case, width and ligatures don't count."""
    if word.isascii():
        return word.lower()[:LONGEST].replace("\0", "")
    return unicodedata.normalize("NFKC", word).casefold()[:LONGEST].replace("\0", "")


def _stem(word: str, language: str) -> str:
    if not word.isalpha() and word.isascii():
        return word  # with digits: a name, a number
    stem = _stemmer(language).stemWord(word)
    return stem if stem.isascii() else _without_accents(stem)


def _without_accents(word: str) -> str:
    """Latin letters without their accents; in other scripts a mark makes another letter."""
    apart = unicodedata.normalize("NFD", word)
    if all(c < "\u0250" or unicodedata.combining(c) for c in apart):
        return "".join(c for c in apart if not unicodedata.combining(c))
    return word


_NO_CACHE = 0  # words are remembered elsewhere
_stemmers = threading.local()  # a Stemmer is not safe to share between threads


class _Stems(Protocol):
    """What we use of PyStemmer, which has no types."""

    def stemWord(self, word: str, /) -> str: ...  # noqa: N802


def _stemmer(language: str) -> _Stems:
    kept: dict[str, _Stems] | None = getattr(_stemmers, "kept", None)
    if kept is None:
        kept = _stemmers.kept = {}
    if language not in kept:
        kept[language] = cast(_Stems, Stemmer.Stemmer(language, _NO_CACHE))  # pyright: ignore[reportUnknownMemberType]
    return kept[language]
