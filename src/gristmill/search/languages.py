"""The languages of texts and questions, where the stemmer's guess (`language_detection.py`) does not say enough. Pure functions."""

import re

from gristmill.search.language_detection import ENGLISH, STOP_WORDS, detect_language

_SAMPLE_CHARACTERS = 1000
_KANA = re.compile("[\u3040-\u30ff]")
# Languages without spaces between words, which are not stemmed, by their scripts.
_UNSPACED = (
    ("korean", re.compile("[\uac00-\ud7af]")),
    ("chinese", re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("thai", re.compile("[\u0e00-\u0e7f]")),
)
_ANY_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W\d_]+")
_ENGLISH_WORDS = frozenset(STOP_WORDS[ENGLISH].split()) | {
    "what",
    "how",
    "who",
    "where",
    "when",
    "why",
    "did",
    "does",
}


def name_language(text: str, stemmed_for: str) -> str:
    """The language of a text: known by its script where there are no spaces between words, else `stemmed_for`."""
    if text.isascii():
        return stemmed_for
    sample = text[:_SAMPLE_CHARACTERS]
    if _ANY_UNSPACED.search(sample) is None:
        return stemmed_for
    letters = sum(map(str.isalpha, sample))
    if 10 * len(_KANA.findall(sample)) > letters:
        return "japanese"
    for language, script in _UNSPACED:
        if (
            3 * len(script.findall(sample)) > letters
        ):  # a third: a text about software is full of English names
            return language
    return stemmed_for


def certain_language(query: str) -> str | None:
    """The language of a question, if its script or its words say so; None if it could be one of several."""
    language = name_language(query, detect_language(query))
    if language != ENGLISH:
        return language
    return ENGLISH if any(word.lower() in _ENGLISH_WORDS for word in _WORD.findall(query)) else None
