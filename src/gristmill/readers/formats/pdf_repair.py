"""Mend the letters of a PDF page, and notice when they are wrong.

    lam-alef        one glyph for two letters: PDFium, which turns right-to-left text around, turns these two around as well
    fi, fl, ﻻ       ligatures and presentation forms become the letters they are made of
    dual-encoder    a hyphen at the end of a line is kept if the word has one elsewhere, or goes on with a capital or a digit

A font may have no table from its glyphs to letters. PDFium then returns numbers of glyphs as if they were letters: control characters,
or letters that occur as often as no language has them. Such a page is unreadable, and OCR has to read it.
"""

import ctypes
import re
import unicodedata
from typing import Any

from gristmill.readers.libraries import pdfium_c

_ALEF_LAM = re.compile("[\u0622\u0623\u0625\u0627]\u0644")
_HAS_ARABIC = re.compile("[\u0600-\u06ff]")
_LIGATURE = re.compile("[\ufb00-\ufb06\ufb1d-\ufb4f\ufb50-\ufdfb\ufe70-\ufefc]")
_LINE_HYPHEN = "\x02"  # PDFium's character for a hyphen at the end of a line, whose word it joins
_COMPOUND = re.compile(r"\w+(?:-\w+)+")
_HYPHENATED = re.compile(rf"(\w*){_LINE_HYPHEN}(\w*)")
_WORD = re.compile(r"[^\W\d_]{2,}")
# How often each letter from a to z occurs, on average over European languages in Latin script.
_FREQUENCIES = (8.9, 1.3, 3.1, 4.0, 13.5, 1.4, 1.9, 2.0, 7.6, 0.5, 1.3, 4.5, 2.9, 7.5, 6.6, 2.5, 0.5, 6.6, 6.6, 6.4, 4.0, 1.6, 0.8, 0.2, 0.9, 0.9)  # fmt: skip
_NORM = sum(share * share for share in _FREQUENCIES) ** 0.5
_COMMON_WORDS = frozenset(
    (
        "the", "of", "and", "to", "in", "is", "for", "that", "it", "on", "with", "as", "are", "this", "be", "by", "or", "not", "an",
        "der", "die", "das", "und", "den", "von", "zu", "mit", "ist", "ein", "eine", "des", "dem", "auf", "nicht", "sich",
        "le", "la", "les", "et", "des", "un", "une", "du", "que", "est", "pour", "dans", "qui", "de", "en", "el", "los", "las",
        "por", "con", "una", "para", "del", "se", "il", "che", "di", "non", "per", "da", "os", "uma", "com", "een", "het", "van",
        "och", "att", "som", "det", "og", "er", "na", "w", "nie", "je", "ja", "on", "ei", "ve", "bir", "si", "cu", "az",
    )
)  # fmt: skip
_MIN_LETTERS = 120  # of a page that can be judged
_MIN_LIKENESS = 0.72  # to a European language; those measured have .85 and more, numbers of glyphs .1 to .6
_MAX_SAMPLE = 4_000  # characters
_MAX_ODD = 0.15  # of the characters


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
        keeps = f"{before}-{after}".casefold() in compounds or (
            bool(after) and not after[0].islower() and before != ""
        )
        return f"{before}-{after}" if keeps and before.isascii() else before + after

    return _HYPHENATED.sub(join, text) if _LINE_HYPHEN in text else text


def is_unreadable(text: str) -> bool:
    """Whether the characters of a page are not those that it shows."""
    sample = text[:_MAX_SAMPLE]
    visible = len(sample) - sum(map(sample.count, " \n|"))
    odd = sum(
        (letter < " " and letter not in "\n\t")
        or letter == "\ufffd"
        or "\ue000" <= letter <= "\uf8ff"
        or "\x7f" <= letter < "\xa0"
        for letter in sample
    )
    if visible >= 40 and odd > _MAX_ODD * visible:
        return True
    lowered = sample.casefold()
    counts = [lowered.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
    if sum(counts) < max(_MIN_LETTERS, 0.5 * visible):
        return False  # another script, or numbers
    words = _WORD.findall(lowered)
    if len(words) < 15 or sum(word in _COMMON_WORDS for word in words) > 0.02 * len(words):
        return False
    product = sum(count * share for count, share in zip(counts, _FREQUENCIES, strict=True))
    return product / (_NORM * sum(count * count for count in counts) ** 0.5) < _MIN_LIKENESS
