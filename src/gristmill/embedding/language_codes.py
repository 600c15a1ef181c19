"""Languages by their codes of ISO 639-1, with the names that embedders and search use for them."""

from collections.abc import Sequence

from gristmill.errors import Invalid

LANGUAGES = {
    "ar": "arabic",
    "bg": "bulgarian",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "he": "hebrew",
    "hi": "hindi",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "ja": "japanese",
    "ko": "korean",
    "lt": "lithuanian",
    "nb": "norwegian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "th": "thai",
    "tr": "turkish",
    "uk": "ukrainian",
    "ur": "urdu",
    "vi": "vietnamese",
    "zh": "chinese",
}


_NAMES = frozenset(LANGUAGES.values())


def language_names(codes: Sequence[str]) -> list[str]:
    """The names of languages by their codes; a region after a hyphen is left out (`zh-TW`). A name stays as it is."""
    names: list[str] = []
    for code in codes:
        name = code if code in _NAMES else LANGUAGES.get(code.split("-")[0].lower())
        if name is None:
            raise Invalid(
                f"There is no language {code!r} here. Write a code of two letters, such as en, zh or es. Known: {', '.join(LANGUAGES)}.",
                code="unknown_language",
            )
        names.append(name)
    return names
