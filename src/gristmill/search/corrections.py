"""What a search has changed about its query, as the response says it. Pure functions."""

from collections.abc import Mapping, Sequence

from gristmill.search.language_detection import detect_language
from gristmill.search.lexer import fold, lex, matching_ranges, split_words
from gristmill.search.model import Hit, WordCorrection


def corrections_in_hits(
    corrections: Sequence[Mapping[str, Sequence[str]]], hits: Sequence[Hit]
) -> list[WordCorrection]:
    """The words that were replaced, each with the first word that was found instead. A replacement that no hit shows is
    left out: it may be a word of documents that the viewer can't see. So is one of a word that a hit has: it was replaced in
    another base, which does not have it."""
    lexemes_by_word: dict[str, set[str]] = {}
    for of_base in corrections:
        for word, lexemes in of_base.items():
            lexemes_by_word.setdefault(word, set()).update(lexemes)
    shown: list[WordCorrection] = []
    for word, lexemes in lexemes_by_word.items():
        replacement = next(filter(None, (_first_match(hit, lexemes) for hit in hits)), None)
        if replacement is not None and not any(_has_word(hit, word) for hit in hits):
            shown.append(WordCorrection(word, replacement))
    return shown


def _has_word(hit: Hit, word: str) -> bool:
    for text in (hit.text, hit.title, *hit.headings):
        language = detect_language(text, split_words(text))
        lexemes = {token.lexeme for token in lex(word, language)}
        if next(matching_ranges(text, lexemes.__contains__, language), None) is not None:
            return True
    return False


def _first_match(hit: Hit, lexemes: set[str]) -> str | None:
    for text in (hit.text, hit.title, *hit.headings):
        for start, end in matching_ranges(text, lexemes.__contains__):
            return fold(text[start:end])
    return None
