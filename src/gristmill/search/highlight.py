"""Which parts of a text are what was asked for. Pure; by the same lexer as index and question."""

from gristmill.search.lexer import matching_ranges
from gristmill.search.query_syntax import ParsedQuery


def highlight_ranges(text: str, parsed_query: ParsedQuery) -> list[tuple[int, int]]:
    """Ranges of characters, in order, apart from each other."""
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
