"""Finds near-duplicate hits. Pure functions.

Two texts are near-duplicates when they share nine tenths of their pairs of neighbouring words (Jaccard similarity):
copies of a document, the same document under another name, the same footer on every page.
"""

import itertools
from collections.abc import Sequence

from gristmill.search.language_detection import ENGLISH
from gristmill.search.lexer import lexemes

MIN_OVERLAP = 0.9


def duplicate_groups(texts: Sequence[str]) -> list[list[int]]:
    """Groups of positions of near-duplicate texts. A group is ordered by position, and groups by their first text."""
    word_pairs = [_word_pairs(text) for text in texts]
    groups: list[list[int]] = []
    for position, pairs in enumerate(word_pairs):
        group = next((group for group in groups if _is_near_duplicate(word_pairs[group[0]], pairs)), None)
        if group is None:
            groups.append([position])
        else:
            group.append(position)
    return groups


def _word_pairs(text: str) -> frozenset[tuple[str, str]]:
    words = ["", *lexemes(text, ENGLISH)]
    return frozenset(itertools.pairwise(words))


def _is_near_duplicate(first: frozenset[tuple[str, str]], second: frozenset[tuple[str, str]]) -> bool:
    if not first or not second:
        return first == second
    return len(first & second) >= MIN_OVERLAP * len(first | second)
