"""Finds the parts of a text that match the query, with the lexer that index and query share. Pure functions."""

from gristmill.search.lexer import matching_ranges
from gristmill.search.query_syntax import ParsedQuery


def highlight_ranges(text: str, parsed_query: ParsedQuery) -> list[tuple[int, int]]:
    """The character ranges to highlight, in order and without overlaps."""
    words, prefixes = parsed_query.names, parsed_query.prefixes
    merged: list[tuple[int, int]] = []

    def matches(lexeme: str) -> bool:
        return lexeme in words or bool(prefixes and lexeme.startswith(prefixes))

    for start, end in matching_ranges(text, matches if prefixes else words.__contains__):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
