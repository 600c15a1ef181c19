"""Finds the lexemes of a base that a word may be a typing mistake of. Pure functions.

mistakes     a letter too many, too few or wrong, or two neighbours exchanged: one in a word of at least four letters, two
             in one of at least eight. The first letter must be right: the lexemes that begin with it are one range
distance     of all lexemes of that range at once, a bit for each letter of the word: Hyyrö's form of Myers' algorithm
choice       the nearest lexemes; of several, those in the most chunks
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gristmill.search.inverted_index import NameRange, TermDictionary

MIN_LETTERS = 4
_MIN_LETTERS_FOR_TWO = 8
_MAX_LETTERS = 24  # longer ones are not typed but pasted
_MAX_BYTES = 63  # a bit for each
_MAX_SIMILAR = 3

Words = NDArray[np.uint64]


def count_near(dictionaries: Sequence[TermDictionary], chunk_counts: Mapping[str, Counter[str]]) -> None:
    """Count, for each of some words, the chunks of the lexemes that are about as near to it as allowed."""
    by_letter: dict[str, list[str]] = {}
    for word in chunk_counts:
        if can_be_mistyped(word):
            by_letter.setdefault(word[0], []).append(word)
    for letter, words in by_letter.items():
        ranges = [
            (dictionary, names)
            for dictionary in dictionaries
            if (names := dictionary.names_from(letter)) is not None
        ]
        for word in words if ranges else ():
            for dictionary, position in _near_lexemes(ranges, word):
                name, chunks = dictionary.entry_at(position)
                chunk_counts[word][name] += chunks


def _near_lexemes(
    ranges: Sequence[tuple[TermDictionary, NameRange]], word: str
) -> Iterator[tuple[TermDictionary, int]]:
    """Compare the lexemes of all dictionaries at once; each with its position."""
    # Bytes are compared first. A letter of another script has two or three of them.
    tolerance = max_mistakes(word) * (1 if word.isascii() else len(word[1].encode()))
    alike = [names.like(word, tolerance) for _, names in ranges]
    rows = np.concatenate([each[1] for each in alike])
    lengths = np.concatenate([each[2] for each in alike])
    entries = (
        (dictionary, position)
        for (dictionary, _), (positions, _, _) in zip(ranges, alike, strict=True)
        for position in positions
    )
    return itertools.compress(entries, _byte_distances(word.encode(), rows, lengths) <= tolerance)


def nearest(word: str, chunk_counts: Mapping[str, int]) -> list[str]:
    """The lexemes nearest to a word, best first; none if all are too far away."""
    ranked = sorted(
        (edit_distance(word, name), -chunks, name)
        for name, chunks in chunk_counts.items()
        if name.isalpha() and name != word
    )
    best = [entry for entry in ranked if entry[0] == ranked[0][0] <= max_mistakes(word)]
    return [name for _, _, name in best[:_MAX_SIMILAR]]


def can_be_mistyped(word: str) -> bool:
    """Whether a word is neither too short nor too long."""
    return MIN_LETTERS <= len(word) <= _MAX_LETTERS and len(word.encode()) <= _MAX_BYTES


def max_mistakes(word: str) -> int:
    """How many mistakes a word may have."""
    return 2 if len(word) >= _MIN_LETTERS_FOR_TWO else 1


def edit_distance(word: str, other: str) -> int:
    """The least number of letters to insert, remove, replace, or exchange with their neighbour."""
    before: list[int] = []
    last = [*range(len(other) + 1)]
    for row, letter in enumerate(word, 1):
        current = [row]
        for column, other_letter in enumerate(other, 1):
            cost = min(last[column] + 1, current[-1] + 1, last[column - 1] + (letter != other_letter))
            if row > 1 and column > 1 and letter == other[column - 2] and word[row - 2] == other_letter:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, last = last, current
    return last[-1]


def _byte_distances(
    pattern: bytes, names: NDArray[np.uint8], lengths: NDArray[np.int32]
) -> NDArray[np.int64]:
    """The edit distance between the pattern and each name; one name a row, filled up with zeros."""
    shift, last_bit = np.uint64(1), np.uint64(1 << (len(pattern) - 1))
    masks = np.zeros(256, np.uint64)
    for position, byte in enumerate(pattern):
        masks[byte] |= np.uint64(1 << position)
    size = len(names)
    vertical_plus = np.full(size, (1 << len(pattern)) - 1, np.uint64)
    vertical_minus, diagonal, last_mask = (np.zeros(size, np.uint64) for _ in range(3))
    score = np.full(size, len(pattern), np.int64)
    distances = np.full(size, len(pattern), np.int64)
    for column in range(names.shape[1]):
        mask = masks[names[:, column]]
        exchanged = ((~diagonal & mask) << shift) & last_mask
        diagonal = (
            (((mask & vertical_plus) + vertical_plus) ^ vertical_plus) | mask | vertical_minus | exchanged
        )
        horizontal_plus = vertical_minus | ~(diagonal | vertical_plus)
        horizontal_minus = diagonal & vertical_plus
        score += (horizontal_plus & last_bit) != 0
        score -= (horizontal_minus & last_bit) != 0
        horizontal_plus = (horizontal_plus << shift) | shift
        vertical_plus = (horizontal_minus << shift) | ~(diagonal | horizontal_plus)
        vertical_minus = horizontal_plus & diagonal
        last_mask = mask
        distances = np.where(lengths == column + 1, score, distances)
    return distances
