"""Which hits say the same. Pure.

Two texts do when of the pairs of neighbouring words in both, nine of ten are in each: copies of a document, its versions
under other names, the same notice at the end of every page.
"""

import itertools
from collections.abc import Sequence

from gristmill.search.languages import ENGLISH
from gristmill.search.lexer import lexemes

ALIKE = 0.9


def groups(texts: Sequence[str]) -> list[list[int]]:
    """The places of the texts, those alike together; each group and all of them in the order of their first."""
    signs = [_signs(text) for text in texts]
    found: list[list[int]] = []
    for place, mine in enumerate(signs):
        group = next((group for group in found if _alike(signs[group[0]], mine)), None)
        if group is None:
            found.append([place])
        else:
            group.append(place)
    return found


def _signs(text: str) -> frozenset[tuple[str, str]]:
    words = ["", *lexemes(text, ENGLISH)]
    return frozenset(itertools.pairwise(words))


def _alike(one: frozenset[tuple[str, str]], other: frozenset[tuple[str, str]]) -> bool:
    if not one or not other:
        return one == other
    return len(one & other) >= ALIKE * len(one | other)
