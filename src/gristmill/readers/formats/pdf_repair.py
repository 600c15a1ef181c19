"""Mend the letters of a PDF page.

lam-alef        one glyph for two letters: PDFium, which turns right-to-left text around, turns these two around as well
fi, fl, ﻻ       ligatures and presentation forms become the letters they are made of
dual-encoder    a hyphen at the end of a line is kept if the word has one elsewhere, goes on with a capital or a digit, or is
                part of an address or an identifier (`app.example.io/load-balancer`)
"""

import ctypes
import re
import unicodedata
from typing import Any

from gristmill.readers.libraries import pdfium_c

_ALEF_LAM = re.compile("[\u0622\u0623\u0625\u0627]\u0644")
_HAS_ARABIC = re.compile("[\u0600-\u06ff]")
_LIGATURE = re.compile("[\ufb00-\ufb06\ufb1d-\ufb4f\ufb50-\ufdfb\ufe70-\ufefc]")
_LINE_HYPHEN = "\ufffe"  # PDFium's character for a hyphen at the end of a line, whose word it joins
_COMPOUND = re.compile(r"(?=\b(\w+-\w+))")  # pairs: of `state-of-the-art`, three
_HYPHENATED = re.compile(rf"([^\s{_LINE_HYPHEN}]*){_LINE_HYPHEN}([^\s{_LINE_HYPHEN}]*)")
_IDENTIFIER = re.compile(r"\w[./_:@]\w|\w-\w+-\w")
_LAST_WORD, _FIRST_WORD = re.compile(r"\w*\Z"), re.compile(r"\w*")


def mend_letters(textpage: Any, text: str) -> str:
    """The text of a page with its letters in order; as long as before, because places in it are places on the page."""
    if not _HAS_ARABIC.search(text):
        return text
    letters = list(text)
    x, y = ctypes.c_double(), ctypes.c_double()
    for match in _ALEF_LAM.finditer(text):
        places: list[float] = []
        for place in (match.start(), match.end() - 1):
            index = pdfium_c.FPDFText_GetCharIndexFromTextIndex(textpage, place)
            if pdfium_c.FPDFText_GetCharOrigin(textpage, index, x, y):
                places.append(x.value)
        if len(places) == 2 and abs(places[0] - places[1]) < 0.01:
            letters[match.start() : match.end()] = reversed(match[0])
    return "".join(letters)


def fold_ligatures(text: str) -> str:
    """The text with ligatures and presentation forms as their letters."""
    return _LIGATURE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)


def compounds_in(text: str) -> set[str]:
    """The words with hyphens, where lines end with hyphens too."""
    return set(_COMPOUND.findall(text.casefold())) if _LINE_HYPHEN in text else set()


def join_hyphens(text: str, compounds: set[str]) -> str:
    """A line whose words are joined where they were hyphenated; `compounds` are the words of the document with hyphens."""

    def join(match: re.Match[str]) -> str:
        before, after = match.groups()
        return f"{before}-{after}" if _keeps_hyphen(before, after, compounds) else before + after

    return _HYPHENATED.sub(join, text) if _LINE_HYPHEN in text else text


def _keeps_hyphen(before: str, after: str, compounds: set[str]) -> bool:
    """Whether a hyphen at the end of a line belongs to the word that it is in; both parts reach to the next space."""
    above, below = _LAST_WORD.findall(before)[0], _FIRST_WORD.findall(after)[0]
    if not above.isascii():
        return False
    if f"{above}-{below}".casefold() in compounds or any(map(_IDENTIFIER.search, (before, after))):
        return True
    return above != "" and below != "" and not below[0].islower()
