"""Words of a query that no visible chunk has are searched for as the lexemes they may be typing mistakes of. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gristmill.search.query_syntax import Names, ParsedQuery, Term

CORRECTION_WEIGHT = 0.5  # of a lexeme that a word may be a typing mistake of
MAX_CORRECTED_WORDS = 4
MAX_CHECKED_CHUNKS = 200  # a word in more chunks counts as one that the viewer knows

Corrections = Mapping[Names, Sequence[str]]  # the lexemes that take the place of a word


def correct_terms(parsed_query: ParsedQuery, corrections: Corrections) -> ParsedQuery:
    """The query with similar lexemes, of less weight, in place of words that no chunk has."""
    terms = [
        Term(tuple(corrections[term.names]), CORRECTION_WEIGHT * term.weight)
        if not term.prefix and term.names in corrections
        else term
        for term in parsed_query.terms
    ]
    return replace(parsed_query, terms=tuple(dict.fromkeys(terms)))


def corrections_by_word(parsed_query: ParsedQuery, corrections: Corrections) -> dict[str, Sequence[str]]:
    """The corrections by the words as they are written."""
    written = dict(parsed_query.plain_words)
    return {written[names]: lexemes for names, lexemes in corrections.items()}
