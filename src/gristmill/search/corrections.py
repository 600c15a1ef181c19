"""What a search has changed about its query, as the response says it. Pure functions."""

from collections.abc import Mapping, Sequence

from gristmill.search.lexer import fold, matching_ranges
from gristmill.search.model import Hit, WordCorrection


def corrections_in_hits(
    corrections: Sequence[Mapping[str, Sequence[str]]], hits: Sequence[Hit]
) -> list[WordCorrection]:
    """The words that were replaced, each with the first word that was found instead. A replacement that no hit shows is
    left out: it may be a word of documents that the viewer can't see."""
    lexemes_by_word: dict[str, set[str]] = {}
    for of_base in corrections:
        for word, lexemes in of_base.items():
            lexemes_by_word.setdefault(word, set()).update(lexemes)
    shown: list[WordCorrection] = []
    for word, lexemes in lexemes_by_word.items():
        replacement = next(filter(None, (_first_match(hit, lexemes) for hit in hits)), None)
        if replacement is not None:
            shown.append(WordCorrection(word, replacement))
    return shown


def _first_match(hit: Hit, lexemes: set[str]) -> str | None:
    for text in (hit.text, hit.title, *hit.headings):
        for start, end in matching_ranges(text, lexemes.__contains__):
            return fold(text[start:end])
    return None
