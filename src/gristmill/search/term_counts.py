"""Counts the lexemes of many chunks at once: each distinct word is lexed once, the rest is array arithmetic."""

import itertools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gristmill.search.lexer import cached_lexemes

Numbers = NDArray[np.int64]


class TermCounter:
    """Collects the words of chunks, one chunk after the other, and turns them into lexeme numbers."""

    def __init__(self) -> None:
        self.lexemes: defaultdict[str, int] = defaultdict(itertools.count().__next__)  # lexeme → number
        self._words: defaultdict[str, defaultdict[str, int]] = defaultdict(self._new_word_numbers)
        self._next_number = itertools.count().__next__
        self._word_numbers: list[int] = []
        self._chunk_ends: list[int] = []

    def _new_word_numbers(self) -> defaultdict[str, int]:
        return defaultdict(self._next_number)

    def add(self, words: Sequence[str], language: str, times: int = 1) -> None:
        """Add words of a text to the current chunk, `times` times."""
        self._word_numbers.extend([*map(self._words[language].__getitem__, words)] * times)

    def end_chunk(self) -> None:
        """Finish the current chunk."""
        self._chunk_ends.append(len(self._word_numbers))

    def tokens(self) -> tuple[Numbers, Numbers]:
        """The lexeme numbers of all chunks, concatenated, and how many each chunk has."""
        starts, sizes, lexemes = self._lexemes_by_word()
        word_numbers = np.array(self._word_numbers, np.int64)
        lexeme_counts = sizes[word_numbers]
        ends = np.cumsum(lexeme_counts)
        # For each word: the start of its lexemes, plus 0, 1, 2 …
        within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lexeme_counts, lexeme_counts)
        tokens = lexemes[np.repeat(starts[word_numbers], lexeme_counts) + within]
        chunk_ends = np.concatenate([[0], ends])[np.array(self._chunk_ends, np.int64)]
        return tokens, np.diff(chunk_ends, prepend=0)

    def _lexemes_by_word(self) -> tuple[Numbers, Numbers, Numbers]:
        """For each word number, the start and the count of its lexemes in the last array, which holds all of them."""
        lexemes: list[int] = []
        numbers: list[int] = []
        sizes: list[int] = []
        for language, words in self._words.items():
            lexemes_of_words = cached_lexemes(words, language)
            lexemes += map(self.lexemes.__getitem__, itertools.chain.from_iterable(lexemes_of_words))
            sizes += map(len, lexemes_of_words)
            numbers += words.values()
        order = np.empty(len(numbers), np.int64)
        order[np.array(numbers, np.int64)] = np.arange(len(numbers))
        counts = np.array(sizes, np.int64)
        starts = np.cumsum(counts) - counts
        return starts[order], counts[order], np.array(lexemes, np.int64)
