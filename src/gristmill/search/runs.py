"""Compact forms of a segment's arrays of chunk numbers and items, as a process caches them.

Chunks that were written together have consecutive numbers, and the chunks of a document stand side by side: runs of them take
a tenth of the memory of one entry per chunk. Where that is not so, a run is one chunk, and everything works the same.
"""

import functools
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gristmill.search.segment import Mask, Numbers


@dataclass(frozen=True, eq=False)
class NumberRuns:
    """The numbers of chunks by ordinal: each run counts up from its first number."""

    starts: NDArray[np.int32]
    first_numbers: Numbers
    size: int

    @classmethod
    def from_numbers(cls, numbers: Numbers) -> Self:
        """Find the runs of consecutive numbers."""
        starts = _run_starts(np.diff(numbers) != 1, len(numbers))
        return cls(starts, numbers[starts], len(numbers))

    @property
    def nbytes(self) -> int:
        """The memory use in bytes."""
        return 2 * self.starts.nbytes + 2 * self.first_numbers.nbytes

    def at(self, ordinals: NDArray[Any]) -> Numbers:
        """The numbers of chunks."""
        runs = np.searchsorted(self.starts, ordinals, "right") - 1
        return self.first_numbers[runs] + (ordinals - self.starts[runs])

    def find(self, numbers: Numbers) -> Numbers:
        """The ordinals of those of the chunks that are here."""
        if not self.size:
            return np.empty(0, np.int64)
        order, sorted_numbers, sizes = self._by_number
        runs = np.searchsorted(sorted_numbers, numbers, "right") - 1
        offsets = numbers - sorted_numbers[runs]
        is_here = (runs >= 0) & (offsets < sizes[runs])
        return self.starts[order[runs[is_here]]] + offsets[is_here]

    @functools.cached_property
    def _by_number(self) -> tuple[Numbers, Numbers, Numbers]:
        order = np.argsort(self.first_numbers)
        return order, self.first_numbers[order], np.diff(self.starts, append=self.size)[order]


@dataclass(frozen=True, eq=False)
class ItemRuns:
    """The item keys of chunks by ordinal: each run has one item. An item can have several runs."""

    starts: NDArray[np.int32]
    keys: Numbers
    by_key: NDArray[np.int32]  # the runs, sorted by key
    size: int

    @classmethod
    def from_keys(cls, keys: Numbers) -> Self:
        """Find the runs of equal keys."""
        starts = _run_starts(np.diff(keys) != 0, len(keys))
        run_keys = keys[starts]
        return cls(starts, run_keys, np.argsort(run_keys, kind="stable").astype(np.int32), len(keys))

    @property
    def nbytes(self) -> int:
        """The memory use in bytes."""
        return self.starts.nbytes + self.keys.nbytes + self.by_key.nbytes

    def at(self, ordinals: NDArray[Any]) -> Numbers:
        """The item keys of chunks."""
        return self.keys[np.searchsorted(self.starts, ordinals, "right") - 1]

    def find(self, keys: Numbers) -> tuple[Numbers, Numbers]:
        """The ordinals of the items' chunks, and for each one the position of its item in `keys` (returned first)."""
        if not self.size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        sorted_keys = self.keys[self.by_key]
        low = np.searchsorted(sorted_keys, keys)
        here = np.flatnonzero(sorted_keys[np.minimum(low, len(sorted_keys) - 1)] == keys)
        low, high = low[here], np.searchsorted(sorted_keys, keys[here], "right")
        key_positions, places = _expand(here, low, high - low)
        runs = self.by_key[places]
        ends = np.append(self.starts[1:], self.size)
        return _expand(key_positions, self.starts[runs], ends[runs] - self.starts[runs])

    def mask(self, sorted_keys: Numbers) -> Mask:
        """Marks the chunks of these items, which are not empty and sorted by key."""
        run_keys = self.keys[self.by_key]
        places = np.minimum(np.searchsorted(sorted_keys, run_keys), len(sorted_keys) - 1)
        is_marked = np.empty(len(run_keys), bool)
        is_marked[self.by_key] = sorted_keys[places] == run_keys
        return np.repeat(is_marked, np.diff(self.starts, append=self.size))


def _run_starts(is_new: Mask, size: int) -> NDArray[np.int32]:
    return np.concatenate([[0] if size else [], np.flatnonzero(is_new) + 1]).astype(np.int32)


def _expand(values: Numbers, starts: NDArray[Any], sizes: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Each value as often as its size says, beside start, start + 1, start + 2 …"""
    before = np.cumsum(sizes) - sizes
    repeated = np.repeat(values, sizes)
    return repeated, np.arange(len(repeated)) + np.repeat(starts - before, sizes)
