"""Synonyms of a base: groups of words that mean the same. Pure functions.

A query that has all words of one entry of a group is also searched for the words of the others, with less weight. Quoted
words have no synonyms.
"""

import functools
from collections.abc import Collection, Iterator

from gristmill.search.lexer import query_tokens

SYNONYM_WEIGHT = 0.5  # of an entry; its words share it

Names = tuple[str, ...]
Groups = tuple[tuple[str, ...], ...]


def synonyms_of(
    words: Collection[Names], groups: Groups, languages: Collection[str]
) -> tuple[dict[Names, float], set[Names]]:
    """The words to search for besides these, with their weights; and which of these have synonyms."""
    additional: dict[Names, float] = {}
    explained: set[Names] = set()
    if not groups:
        return additional, explained
    present = frozenset(words)
    for entries in _lexemes_of_groups(groups, frozenset(languages)):
        matching = [entry for entry in entries if entry and present.issuperset(entry)]
        for entry in matching:
            explained.update(entry)
        for entry in entries if matching else ():
            for names in entry:
                if names not in present:
                    additional[names] = max(additional.get(names, 0.0), SYNONYM_WEIGHT / len(entry))
    return additional, explained


@functools.lru_cache(maxsize=64)
def _lexemes_of_groups(groups: Groups, languages: frozenset[str]) -> list[list[tuple[Names, ...]]]:
    """The entries of each group as lexemes, kept for the next query of the base."""
    return [[tuple(_names(entry, languages)) for entry in entries] for entries in groups]


def _names(entry: str, languages: frozenset[str]) -> Iterator[Names]:
    for _, names in query_tokens(entry, languages):
        yield names
