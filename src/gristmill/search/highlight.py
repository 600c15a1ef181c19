"""Which parts of a text are what was asked for. Pure; by the same lexer as index and question."""

from gristmill.search.lexer import lex
from gristmill.search.question import Question


def highlights(text: str, question: Question) -> list[tuple[int, int]]:
    """Ranges of characters, in order, apart from each other."""
    names, prefixes = question.names, question.prefixes
    merged: list[tuple[int, int]] = []
    for token in lex(text):
        if token.lexeme not in names and not (prefixes and token.lexeme.startswith(prefixes)):
            continue
        if merged and token.start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], token.end))
        else:
            merged.append((token.start, token.end))
    return merged
