"""Chunks on their way to a search engine: written to the table, lexed, and not yet put."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gristmill.catalog import BaseId
from gristmill.search.index.engine import Labels, Point
from gristmill.search.index.tasks import PutTask
from gristmill.search.segment import Segment


@dataclass(frozen=True, eq=False)
class LexedChunks:
    """The lexemes of chunks, from the segment that the embedded index would store."""

    segment: Segment

    @functools.cached_property
    def lexemes(self) -> list[dict[str, int]]:
        """The lexemes of each chunk, and how often it has them."""
        by_chunk: list[dict[str, int]] = [{} for _ in self.segment.arrays.lengths]
        index = self.segment.index
        ordinals, counts = index.ordinals.tolist(), index.counts.tolist()
        start = 0
        for name, end in zip(index.terms.names(), index.terms.ends.tolist(), strict=True):
            for position in range(start, end):
                by_chunk[ordinals[position]][name] = counts[position]
            start = end
        return by_chunk

    def length(self, ordinal: int) -> int:
        """The number of lexemes of a chunk, repetitions included."""
        return int(self.segment.arrays.lengths[ordinal])


@dataclass(frozen=True, eq=False)
class PendingPut:
    """The chunks of one put task. They are those of `lexed` from `first_ordinal` on."""

    base_id: BaseId
    task: PutTask
    nos: Sequence[int]
    vectors: Sequence[NDArray[np.float32]]
    lexed: LexedChunks
    first_ordinal: int = 0

    def points(self, labels: Labels) -> list[Point]:
        """The points of the chunks. Blocks for a moment: run it in a thread."""
        return [
            Point(
                no,
                self.base_id,
                self.task.item_id,
                self.task.version,
                vector,
                self.lexed.lexemes[ordinal],
                self.lexed.length(ordinal),
                labels,
            )
            for ordinal, (no, vector) in enumerate(
                zip(self.nos, self.vectors, strict=True), start=self.first_ordinal
            )
        ]
