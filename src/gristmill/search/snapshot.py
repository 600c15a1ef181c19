"""The segments of a base at one moment: the small arrays of each, which every search needs and which stay in memory.

A chunk's ordinal is its position among the chunks of all segments, in the order of the segments.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gristmill.search import store
from gristmill.search.runs import ItemRuns, NumberRuns
from gristmill.search.segment import Mask, Numbers
from gristmill.search.segment_store import ChunkArraysRow


@dataclass(frozen=True, eq=False)
class SegmentChunks:
    """The chunks of a segment: their numbers, items and lengths, and the number of 64-bit words of their sign bits."""

    nos: NumberRuns
    items: ItemRuns
    lengths: NDArray[np.uint16]
    sign_words: int

    @property
    def nbytes(self) -> int:
        """The memory use in bytes."""
        return self.nos.nbytes + self.items.nbytes + self.lengths.nbytes


def decode_chunks(row: ChunkArraysRow) -> SegmentChunks:
    """Decode the arrays from the table; lengths and sign bits are empty for a segment that has not been lexed yet."""
    numbers = np.frombuffer(row.nos, ">i8").astype(np.int64)
    return SegmentChunks(
        NumberRuns.from_numbers(numbers),
        ItemRuns.from_keys(np.frombuffer(row.items, ">i8").astype(np.int64)),
        np.frombuffer(row.lengths, ">u2").astype(np.uint16),
        row.sign_bytes // (8 * len(numbers)) if len(numbers) else 0,
    )


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The segments of a base at one moment."""

    rows: Sequence[store.SegmentRow]
    segments: Sequence[SegmentChunks]

    @functools.cached_property
    def starts(self) -> list[int]:
        """The first ordinal of each segment, and the number of all chunks, including deleted ones."""
        return [*itertools.accumulate((row.chunks for row in self.rows), initial=0)]

    @property
    def chunks(self) -> int:
        """The number of chunks, including deleted ones."""
        return self.starts[-1]

    @functools.cached_property
    def documents(self) -> int:
        """The number of items. The chunks of one can be in several segments."""
        keys = [chunks.items.keys for chunks in self.segments]
        return len(np.unique(np.concatenate(keys))) if keys else 0

    @functools.cached_property
    def tokens(self) -> int:
        """The sum of all lengths."""
        return sum(int(lengths.sum(dtype=np.int64)) for lengths in self.lengths)

    @property
    def lengths(self) -> list[NDArray[np.uint16]]:
        """The lengths of the chunks of each segment."""
        return [chunks.lengths for chunks in self.segments]

    @property
    def nbytes(self) -> int:
        """The memory use in bytes."""
        return sum(chunks.nbytes for chunks in self.segments)

    @property
    def languages(self) -> frozenset[str]:
        """The languages for which the segments' texts were stemmed."""
        return frozenset(language for row in self.rows for language in row.languages)

    def nos_at(self, ordinals: Numbers) -> Numbers:
        """The numbers of chunks."""
        return self._gather(ordinals, lambda chunks, places: chunks.nos.at(places))

    def items_at(self, ordinals: Numbers) -> Numbers:
        """The item keys of chunks."""
        return self._gather(ordinals, lambda chunks, places: chunks.items.at(places))

    def place_of(self, ordinal: int) -> tuple[int, int]:
        """The position of a chunk's segment, and the chunk's ordinal in it."""
        position = int(np.searchsorted(self.starts, ordinal, "right")) - 1
        return position, ordinal - self.starts[position]

    def mask_of_items(self, keys: Numbers) -> Mask:
        """Marks the chunks of these items."""
        if not len(keys) or not self.segments:
            return np.zeros(self.chunks, bool)
        sorted_keys = np.sort(keys)
        return np.concatenate([chunks.items.mask(sorted_keys) for chunks in self.segments])

    def ordinals_of(self, nos: Sequence[int]) -> dict[int, int]:
        """The ordinals of chunks by number, for those that are in the snapshot."""
        numbers = np.array(nos, np.int64)
        return {
            no: start + ordinal
            for start, chunks in zip(self.starts, self.segments, strict=False)
            if len(ordinals := chunks.nos.find(numbers))
            for no, ordinal in zip(chunks.nos.at(ordinals).tolist(), ordinals.tolist(), strict=True)
        }

    def _gather(self, ordinals: Numbers, look_up: Callable[[SegmentChunks, Numbers], Numbers]) -> Numbers:
        values = np.empty(len(ordinals), np.int64)
        positions = np.searchsorted(self.starts, ordinals, "right") - 1
        touched: list[int] = np.unique(positions).tolist()
        for position in touched:
            chosen = np.flatnonzero(positions == position)
            places: Numbers = ordinals[chosen] - self.starts[position]
            values[chosen] = look_up(self.segments[position], places)
        return values
