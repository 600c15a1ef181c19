"""Notice text of a PDF page whose characters are not those that the page shows.

A font may have no table from its glyphs to characters, or a wrong one. PDFium then returns numbers of glyphs as if they were characters,
and knows of most of them that they are not mapped. A font without a table may be right all the same, because its numbers are those
of ASCII. So characters are judged too:

    unmapped characters     control characters, letters beyond ASCII, or letters that no European language has as often
    the whole page          the same from some length on, which also finds wrong tables; of other scripts, few of their common letters

A page of which a part is unreadable is read by OCR, or has a warning; if the part is small, the page keeps its text and has the warning.
"""

import re
from enum import IntEnum
from typing import Any

from gristmill.readers.libraries import pdfium_c

# How often each letter from a to z occurs, on average over European languages in Latin script.
_FREQUENCIES = (8.9, 1.3, 3.1, 4.0, 13.5, 1.4, 1.9, 2.0, 7.6, 0.5, 1.3, 4.5, 2.9, 7.5, 6.6, 2.5, 0.5, 6.6, 6.6, 6.4, 4.0, 1.6, 0.8, 0.2, 0.9, 0.9)  # fmt: skip
_NORM = sum(share * share for share in _FREQUENCIES) ** 0.5
# Of three letters and more: letters in a wrong order give shorter ones by chance.
_COMMON_WORDS = frozenset(
    (
        "the", "and", "for", "that", "with", "are", "this", "not", "you", "can", "from", "has", "was", "all",
        "der", "die", "das", "und", "den", "von", "mit", "ist", "ein", "eine", "des", "dem", "auf", "nicht", "sich",
        "les", "une", "que", "est", "pour", "dans", "qui", "los", "las", "por", "con", "una", "para", "del", "che",
        "non", "per", "uma", "com", "een", "het", "van", "och", "att", "som", "det", "nie", "bir",
    )
)  # fmt: skip
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_BEYOND_ASCII = re.compile(r"[^\W\d_\x00-\x7f]")
_LATIN_1 = re.compile("[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u00ff]")
_WORD = re.compile(r"[^\W\d_]{2,}")
_MIN_LETTERS, _MIN_WORDS, _MIN_DIFFERENT_WORDS = 120, 15, 20  # of a page that can be judged
_MIN_LIKENESS = (
    0.72  # to a European language; those measured have .85 and more, letters in a wrong order .4 to .75
)
_MAX_SAMPLE, _BEGINNING = 4_000, 600  # characters
_MAX_ODD = 0.15  # of the characters
# Common letters of other scripts, and the least share that they have of the letters of a page.
_SCRIPTS = (
    (re.compile("[\u0400-\u04ff]"), frozenset("оеаинтсрвлкмі"), 0.5),
    (re.compile("[\u0370-\u03ff]"), frozenset("αοιετσνηυρπκμλςάέίόήύώ"), 0.55),
    (re.compile("[\u0620-\u064a\u06a9\u06cc]"), frozenset("المنيورتبهدی"), 0.4),
    (
        re.compile("[\u4e00-\u9fff]"),
        frozenset(
            "的一是不了在人有我他这這个個们們中来來上大为為和国國地到以说說时時要就出会會可也你对對生能而子那得于於着著下自之年过過发發后後作里用道行所"
            "然家种種事成方多经經么麼去法学學如都同现現当當没沒动動面起看定天分还還进進好小部其些主样樣理心本前开開但因只从從想实實日军者意无無力它与與"
            "长長把机機十民第公此已工使情明性知全三又关關点點正业業外将將两兩高间間由问問很最重并並物手应應战向头頭文体體政美相见見被利什二等产產或新己制"
            "身果加西斯月话話合回特代内內信表化老给給世位次度门門任常先海通教儿兒原东東声提立及比员員解水名真论論处處走义義各入几幾口认認条條平系气氣题題活"
        ),
        0.08,
    ),
)
_KANA = re.compile("[\u3040-\u30ff]")
_SAMPLED_LETTERS = 60  # of a page, to learn whether characters are mapped
_MIN_UNMAPPED, _MIN_DIFFERENT = 8, 6  # characters; bullets and boxes are fewer different ones
_MIN_SHORT_LETTERS, _SHORT_LIKENESS = 30, 0.6  # of unmapped text that is too short for the other limits
_MIN_UNMAPPED_SHARE, _LARGE_SHARE = 0.02, 0.1  # of a page


class Readability(IntEnum):
    """How much of a page's text is what the page shows."""

    UNREADABLE = 0  # too little: OCR has to read it
    PARTLY = 1  # all but some words
    READABLE = 2


def readability(textpage: Any, text: str) -> Readability:
    """Judge the text of a page by its characters, and by what PDFium knows of them."""
    if is_unreadable(text):
        return Readability.UNREADABLE
    unmapped = _text_without_map(textpage)
    if not unmapped:
        return Readability.READABLE
    visible = len("".join(unmapped.split()))
    total = max(1, len("".join(text.split())))
    if visible < max(_MIN_UNMAPPED, _MIN_UNMAPPED_SHARE * total) or not _is_wrong(unmapped):
        return Readability.READABLE
    return Readability.UNREADABLE if visible >= _LARGE_SHARE * total else Readability.PARTLY


def is_unreadable(text: str) -> bool:
    """Whether the characters of a page are not those that it shows, as far as they say so themselves."""
    sample = text[:_MAX_SAMPLE]
    visible = len(sample) - sum(map(sample.count, " \n|"))
    if visible >= 40 and len(_ODD.findall(sample)) > _MAX_ODD * visible:
        return True
    lowered = sample.casefold()
    beginning = _WORD.findall(lowered[:_BEGINNING])
    if len(beginning) >= _MIN_WORDS and _has_common_words(beginning, 0.1):  # most pages
        return False
    latin = sum(map(lowered.count, "abcdefghijklmnopqrstuvwxyz"))
    if latin < max(_MIN_LETTERS, 0.5 * visible):
        return not sample.isascii() and _has_uncommon_letters(lowered, latin)
    words = _WORD.findall(lowered)
    if len(words) < _MIN_WORDS or len(set(words)) < _MIN_DIFFERENT_WORDS or _has_common_words(words):
        return False
    return _likeness(lowered) < _MIN_LIKENESS


def _text_without_map(textpage: Any) -> str:
    """The characters that PDFium could not map, as they are; nothing if a sample has none."""
    count, has_error, raw = textpage.count_chars(), pdfium_c.FPDFText_HasUnicodeMapError, textpage.raw
    if not any(has_error(raw, index) == 1 for index in range(0, count, max(1, count // _SAMPLED_LETTERS))):
        return ""
    letters: list[str] = []
    for index in range(min(count, 2 * _MAX_SAMPLE)):
        code = pdfium_c.FPDFText_GetUnicode(raw, index)
        is_space = code in (0x20, 0x0D, 0x0A)
        if is_space or has_error(raw, index) == 1:
            letters.append(" " if is_space else chr(code) if code <= 0x10FFFF else "\ufffd")
    return "".join(letters)


def _is_wrong(text: str) -> bool:
    """Whether characters that are not mapped are wrong, and not by chance those that the page shows."""
    visible = "".join(text.split())
    if len(set(visible)) < _MIN_DIFFERENT:
        return False
    if len(_ODD.findall(visible)) > 0.05 * len(visible) or len(_BEYOND_ASCII.findall(visible)) > 0.3 * len(
        visible
    ):
        return True
    lowered = text.casefold()
    latin = sum(map(lowered.count, "abcdefghijklmnopqrstuvwxyz"))
    if latin < _MIN_SHORT_LETTERS or _has_common_words(_WORD.findall(lowered)):
        return False
    return _likeness(lowered) < (_MIN_LIKENESS if latin >= 2 * _MIN_SHORT_LETTERS else _SHORT_LIKENESS)


def _has_common_words(words: list[str], share: float = 0.02) -> bool:
    return sum(word in _COMMON_WORDS for word in words) > share * len(words)


def _likeness(lowered: str) -> float:
    """How like a European language the letters from a to z are, by how often each occurs: 1 if they are the same."""
    counts = [lowered.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
    product = sum(count * share for count, share in zip(counts, _FREQUENCIES, strict=True))
    return product / (_NORM * (sum(count * count for count in counts) ** 0.5 or 1.0))


def _has_uncommon_letters(lowered: str, latin: int) -> bool:
    """Whether a text of another script lacks the letters that are common there, or has accented ones for letters of another script."""
    accented = len(_LATIN_1.findall(lowered))
    if accented >= _MIN_LETTERS / 2 and accented > latin:
        return True
    for script, common, least in _SCRIPTS:
        letters = script.findall(lowered)
        if len(letters) < _MIN_LETTERS or len(_KANA.findall(lowered)) > 0.05 * len(letters):
            continue
        if sum(letter in common for letter in letters) < least * len(letters):
            return True
    return False
