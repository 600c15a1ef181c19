"""Which parts of a text are what was asked for. Pure; by the same lexer as index and question."""

from gristmill.search.lexer import places
from gristmill.search.question import Question


def highlights(text: str, question: Question) -> list[tuple[int, int]]:
    """Ranges of characters, in order, apart from each other."""
    names, prefixes = question.names, question.prefixes
    merged: list[tuple[int, int]] = []

    def asked_for(lexeme: str) -> bool:
        return lexeme in names or bool(prefixes and lexeme.startswith(prefixes))

    for start, end in places(text, asked_for if prefixes else names.__contains__):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
