"""Words, for index and query alike: PostgreSQL's own parser never sees the text.

    a word of letters and digits     lower-cased, NFKC, English stem        "Running"    → run
    an identifier                    whole, and its parts                   "parseHTTP2" → parsehttp2, pars, http2
    Chinese, Japanese, Korean        every character and every pair         "知识库"      → 知, 识, 库, 知识, 识库

The pairs are what finds a two-character word inside a clause that has no spaces.
"""

import re
import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast

import Stemmer

LONGEST = 64  # characters of one lexeme; what is longer is no word that anybody searches for

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_RUN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_IS_CJK = re.compile(rf"[{_CJK}]")
_PARTS = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")
_stemmers = threading.local()  # a Stemmer is not safe to share between threads


@dataclass(frozen=True, slots=True)
class Token:
    """A lexeme, its place among the words, and where in the text it stands."""

    lexeme: str
    position: int
    start: int
    end: int


def lex(text: str) -> Iterator[Token]:
    """The tokens of `text`, in order; several may share a place."""
    position = 0
    for run in _RUN.finditer(text):
        word, start = run.group(), run.start()
        if _IS_CJK.match(word):
            for offset, character in enumerate(word):
                position += 1
                yield Token(character, position, start + offset, start + offset + 1)
                if offset + 1 < len(word):
                    yield Token(word[offset : offset + 2], position, start + offset, start + offset + 2)
        else:
            position += 1
            for lexeme in _lexemes(word):
                yield Token(lexeme, position, start, run.end())


def is_mostly_cjk(text: str) -> bool:
    """Whether at least half of the text's letters are Chinese, Japanese or Korean."""
    letters = [character for character in text if character.isalpha()]
    return 2 * sum(1 for letter in letters if _IS_CJK.match(letter)) >= max(1, len(letters))


def _lexemes(word: str) -> Iterator[str]:
    whole = _stem(_fold(word))
    yield whole
    parts = (
        _PARTS.findall(word)
        if word.isascii() and not (word.islower() or word.isupper() or word.istitle())
        else []
    )
    if len(parts) > 1:
        for part in parts:
            if (lexeme := _stem(_fold(part))) != whole:
                yield lexeme


def _fold(word: str) -> str:
    return unicodedata.normalize("NFKC", word).casefold()[:LONGEST]


def _stem(word: str) -> str:
    if not word.isascii():
        return word
    stemmer: _Stems | None = getattr(_stemmers, "english", None)
    if stemmer is None:
        stemmer = _stemmers.english = cast(_Stems, Stemmer.Stemmer("english"))  # pyright: ignore[reportUnknownMemberType]
    return stemmer.stemWord(word)


class _Stems(Protocol):
    """What we use of PyStemmer, which has no types."""

    def stemWord(self, word: str, /) -> str: ...  # noqa: N802
