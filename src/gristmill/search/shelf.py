"""What searching keeps in memory: arrays of segments, and postings of common words.

Segments never change, so that what is kept is right for as long as its segment exists; which ones exist is asked of the
database for every search. What was used longest ago goes when there is more than `limit` bytes. Lost with the process,
and read again when it is needed.
"""

import functools
import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.db import Tx
from gristmill.search import postings, segment, store
from gristmill.search.postings import Postings
from gristmill.search.segment import Arrays, Mask, Numbers

# Shorter lists are read again as quickly as they are found here.
_WORTH_KEEPING = 2048
_OPENED = 16  # bases whose segments are kept as they were joined for the last search


@dataclass(frozen=True, eq=False)
class Open:
    """The segments of a base at one moment."""

    rows: Sequence[store.SegmentRow]
    arrays: Sequence[Arrays]

    @property
    def chunks(self) -> int:
        """How many chunks they hold, dead ones included."""
        return sum(row.chunks for row in self.rows)

    @functools.cached_property
    def starts(self) -> dict[int, int]:
        """The place among all chunks where each segment begins, by its id."""
        sizes = itertools.accumulate((row.chunks for row in self.rows), initial=0)
        return {row.id: start for row, start in zip(self.rows, sizes, strict=False)}

    @functools.cached_property
    def nos(self) -> Numbers:
        """The numbers of all chunks, by place."""
        return _joined([arrays.nos for arrays in self.arrays], np.int64)

    @functools.cached_property
    def items(self) -> Numbers:
        """What stands for their items, by place."""
        return _joined([arrays.items for arrays in self.arrays], np.int64)

    @functools.cached_property
    def lengths(self) -> NDArray[np.uint16]:
        """Their lengths, by place."""
        return _joined([arrays.lengths for arrays in self.arrays], np.uint16)

    def of_items(self, keys: Numbers) -> Mask:
        """Which chunks are of these items."""
        mask = np.zeros(len(self.nos), bool)
        for row, arrays in zip(self.rows, self.arrays, strict=True):
            mask[self.starts[row.id] + arrays.of_items(keys)[1]] = True
        return mask

    def of_each_item(self, keys: Numbers, values: NDArray[np.float32]) -> tuple[Numbers, NDArray[np.float64]]:
        """How many chunks each of these items has, and the sum of their values."""
        counts = np.zeros(len(keys), np.int64)
        sums = np.zeros(len(keys), np.float64)
        for row, arrays in zip(self.rows, self.arrays, strict=True):
            which, places = arrays.of_items(keys)
            counts += np.bincount(which, minlength=len(keys))
            sums += np.bincount(which, values[self.starts[row.id] + places], minlength=len(keys))
        return counts, sums

    def places(self, nos: Sequence[int]) -> dict[int, int]:
        """Where chunks stand among all, those that are there."""
        wanted = np.array(nos, np.int64)
        found = np.flatnonzero(np.isin(self.nos, wanted))
        return {int(self.nos[place]): int(place) for place in found}

    @property
    def languages(self) -> frozenset[str]:
        """The languages that their words were stemmed for."""
        return frozenset(language for row in self.rows for language in row.languages)


class Shelf:
    """The memory of one process."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._opened: OrderedDict[UUID, Open] = OrderedDict()
        self._arrays: OrderedDict[int, Arrays] = OrderedDict()
        self._postings: OrderedDict[tuple[str, int], Postings] = OrderedDict()

    async def open(self, tx: Tx, base_id: UUID) -> Open:
        """The segments of a base, as the transaction sees them."""
        rows = await store.segments(tx, base_id)
        opened = self._opened.get(base_id)
        if opened is not None and [row.id for row in opened.rows] == [row.id for row in rows]:
            return opened
        missing = [row.id for row in rows if row.id not in self._arrays]
        fresh: dict[int, Arrays] = {}
        if missing:
            for row in await store.segment_arrays(tx, base_id, missing):
                fresh[row.id] = segment.load_form(row.nos, row.items, row.lengths, row.codes)
        arrays = [fresh.get(row.id) or self._arrays[row.id] for row in rows]
        for row, kept in zip(rows, arrays, strict=True):
            self._keep_arrays(row.id, kept)
        return self._keep_opened(base_id, Open(rows, arrays))

    async def find(
        self, tx: Tx, base_id: UUID, lexemes: Sequence[str], opened: Open
    ) -> dict[str, list[tuple[int, Postings]]]:
        """Where lexemes stand: the postings of each, with the place where their segment begins."""
        wanted = set(lexemes)
        held = {key: kept for key, kept in self._postings.items() if key[0] in wanted}
        starts = opened.starts
        chunks = {row.id: row.chunks for row in opened.rows}
        found: dict[str, list[tuple[int, Postings]]] = {}
        for row in await store.find_postings(tx, base_id, lexemes, list(held)):
            if row.segment not in starts:
                continue
            key = (row.lexeme, row.segment)
            kept = held[key] if row.entries is None else postings.unpack(row.entries, chunks[row.segment])
            found.setdefault(row.lexeme, []).append((starts[row.segment], kept))
            if len(kept.places) >= _WORTH_KEEPING:
                self._keep_postings(key, kept)
        return found

    def _keep_opened(self, base_id: UUID, opened: Open) -> Open:
        self._opened[base_id] = opened
        self._opened.move_to_end(base_id)
        while len(self._opened) > _OPENED:
            self._opened.popitem(last=False)
        return opened

    def _keep_arrays(self, key: int, arrays: Arrays) -> None:
        if key not in self._arrays:
            self._size += arrays.size
        self._arrays[key] = arrays
        self._arrays.move_to_end(key)
        self._make_room()

    def _keep_postings(self, key: tuple[str, int], found: Postings) -> None:
        if key not in self._postings:
            self._size += _bytes(found)
        self._postings[key] = found
        self._postings.move_to_end(key)
        self._make_room()

    def _make_room(self) -> None:
        while self._size > self._limit and self._postings:
            self._size -= _bytes(self._postings.popitem(last=False)[1])
        while self._size > self._limit and self._arrays:
            self._size -= self._arrays.popitem(last=False)[1].size


def _joined(parts: Sequence[NDArray[Any]], kind: type[Any]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, kind)


def _bytes(found: Postings) -> int:
    return found.places.nbytes + found.counts.nbytes
