"""Counts the words of many chunks at once: each different word is lexed once, the rest is arithmetic. Pure."""

import itertools
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from gristmill.search.lexer import of_run, runs

Numbers = NDArray[np.int64]


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

    def add(self, text: str, language: str, times: int = 1) -> None:
        """Count the words of a text, so many times."""
        self._seen.extend([*map(self._words[language].__getitem__, runs(text))] * times)

    def end(self) -> None:
        """What was added since the last end is one chunk."""
        self._ends.append(len(self._seen))

    def tokens(self) -> tuple[Numbers, Numbers]:
        """The numbers of all lexemes, one after the other, and how many each chunk has."""
        spread = [(0, 0)] * sum(map(len, self._words.values()))
        flat: list[int] = []
        for language, words in self._words.items():
            for word, number in words.items():
                start = len(flat)
                flat += map(self.lexemes.__getitem__, of_run(word, language))
                spread[number] = (start, len(flat) - start)
        starts, sizes = np.array(spread, np.int64).reshape(-1, 2).T
        seen = np.array(self._seen, np.int64)
        each = sizes[seen]
        ends = np.cumsum(each)
        # Word by word: where its lexemes begin, then one after the other.
        within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - each, each)
        tokens = np.array(flat, np.int64)[np.repeat(starts[seen], each) + within]
        closed = np.concatenate([[0], ends])[np.array(self._ends, np.int64)]
        return tokens, np.diff(closed, prepend=0)
