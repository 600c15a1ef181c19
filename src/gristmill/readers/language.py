"""Which language a text is in, for those that its script or its commonest words give away; None for the others."""

import re
from collections import Counter

_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
)
_WORDS = {
    "en": [
        "the",
        "of",
        "and",
        "to",
        "in",
        "is",
        "that",
        "for",
        "it",
        "with",
        "as",
        "was",
        "on",
        "are",
        "be",
        "this",
        "by",
        "from",
    ],
    "de": [
        "der",
        "die",
        "und",
        "das",
        "ist",
        "nicht",
        "mit",
        "den",
        "von",
        "ein",
        "eine",
        "für",
        "auf",
        "dem",
        "sich",
        "des",
        "im",
        "auch",
    ],
    "fr": [
        "le",
        "les",
        "des",
        "est",
        "dans",
        "une",
        "que",
        "pour",
        "pas",
        "qui",
        "sur",
        "avec",
        "au",
        "sont",
        "plus",
        "par",
        "ce",
    ],
    "es": [
        "el",
        "los",
        "que",
        "las",
        "por",
        "con",
        "una",
        "para",
        "del",
        "se",
        "su",
        "como",
        "más",
        "pero",
        "esta",
        "son",
        "al",
    ],
    "it": [
        "il",
        "che",
        "di",
        "per",
        "una",
        "non",
        "con",
        "sono",
        "del",
        "della",
        "gli",
        "nel",
        "alla",
        "più",
        "anche",
        "come",
    ],
    "pt": [
        "o",
        "os",
        "que",
        "não",
        "uma",
        "para",
        "com",
        "dos",
        "das",
        "em",
        "por",
        "mais",
        "são",
        "foi",
        "como",
        "ao",
    ],
    "nl": [
        "het",
        "een",
        "van",
        "en",
        "dat",
        "niet",
        "zijn",
        "op",
        "te",
        "voor",
        "met",
        "aan",
        "worden",
        "ook",
        "bij",
        "door",
    ],
}
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")


def guess(text: str) -> str | None:
    """The language's code, or None."""
    letters = len(_LETTER.findall(text))
    if letters < 20:
        return None
    for code, pattern in _SCRIPTS:
        # A page of Japanese has fewer kana than ideographs, and Chinese text names in Latin letters.
        if len(pattern.findall(text)) > letters * (0.1 if code == "ja" else 0.3):
            return code
    words = Counter(_WORD.findall(text.lower()))
    total = sum(words.values())
    scores = {code: sum(words[word] for word in common) for code, common in _WORDS.items()}
    best = max(scores, key=lambda code: scores[code])
    return best if scores[best] > max(3, total // 12) else None
