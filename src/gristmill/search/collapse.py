"""Which hits say the same. Pure.

Two texts do when of the pairs of neighbouring words in both, nine of ten are in each: copies of a document, its versions
under other names, the same notice at the end of every page.
"""

import itertools
from collections.abc import Sequence

from gristmill.search.language_detection import ENGLISH
from gristmill.search.lexer import lexemes

MIN_OVERLAP = 0.9


def duplicate_groups(texts: Sequence[str]) -> list[list[int]]:
    """The places of the texts, those alike together; each group and all of them in the order of their first."""
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
