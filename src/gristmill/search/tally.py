"""Counts the words of many chunks at once: each different word is lexed once, the rest is arithmetic. Pure."""

import itertools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gristmill.search.lexer import of_run

Numbers = NDArray[np.int64]

_KEPT = 40_000  # words, of all languages, whose lexemes are remembered: some 12 MB
_LONGEST_KEPT = 32
_known: defaultdict[str, dict[str, Sequence[str]]] = defaultdict(dict)


class Tally:
    """The tokens of chunks, one chunk after the other."""

    def __init__(self) -> None:
        self.lexemes: defaultdict[str, int] = defaultdict(itertools.count().__next__)  # each has a number
        self._words: defaultdict[str, defaultdict[str, int]] = defaultdict(self._of_language)
        self._next = itertools.count().__next__
        self._seen: list[int] = []
        self._ends: list[int] = []

    def _of_language(self) -> defaultdict[str, int]:
        return defaultdict(self._next)

    def add(self, runs: Sequence[str], language: str, times: int = 1) -> None:
        """Count the runs of a text, so many times."""
        self._seen.extend([*map(self._words[language].__getitem__, runs)] * times)

    def end(self) -> None:
        """What was added since the last end is one chunk."""
        self._ends.append(len(self._seen))

    def tokens(self) -> tuple[Numbers, Numbers]:
        """The numbers of all lexemes, one after the other, and how many each chunk has."""
        starts, sizes, flat = self._spread()
        seen = np.array(self._seen, np.int64)
        each = sizes[seen]
        ends = np.cumsum(each)
        # Word by word: where its lexemes begin, then one after the other.
        within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - each, each)
        tokens = flat[np.repeat(starts[seen], each) + within]
        closed = np.concatenate([[0], ends])[np.array(self._ends, np.int64)]
        return tokens, np.diff(closed, prepend=0)

    def _spread(self) -> tuple[Numbers, Numbers, Numbers]:
        """For each word, by its number, where its lexemes begin among all, and how many it has; and all of them."""
        flat: list[int] = []
        numbers: list[int] = []
        ends: list[int] = []
        for language, words in self._words.items():
            for word in words:
                flat += map(self.lexemes.__getitem__, _lexed(word, language))
                ends.append(len(flat))
            numbers += words.values()
        order = np.empty(len(numbers), np.int64)
        order[np.array(numbers, np.int64)] = np.arange(len(numbers))
        sizes = np.diff(np.array(ends, np.int64), prepend=0)
        starts = np.array(ends, np.int64) - sizes
        return starts[order], sizes[order], np.array(flat, np.int64)


def _lexed(word: str, language: str) -> Sequence[str]:
    known = _known[language]
    found = known.get(word)
    if found is None:
        found = of_run(word, language)
        if len(word) <= _LONGEST_KEPT:
            if sum(map(len, _known.values())) >= _KEPT:
                _known.clear()
            _known[language][word] = found
    return found
