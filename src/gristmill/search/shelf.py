"""What searching keeps in memory: arrays and lexicons of segments, and postings of common words.

Segments never change, so that what is kept is right for as long as its segment exists; which ones exist is asked of the
database for every search. What was used longest ago goes when there is more than `limit` bytes. Lost with the process,
and read again when it is needed.
"""

import functools
import heapq
import itertools
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.db import Tx
from gristmill.search import segment, store
from gristmill.search.lexicon import Indexed, Postings
from gristmill.search.segment import Arrays, Mask, Numbers
from gristmill.search.store import Stretch

# Shorter lists are read again as quickly as they are found here.
_WORTH_KEEPING = 2048
_OPENED = 16  # bases whose segments are kept as they were joined for the last search


@dataclass(frozen=True, eq=False)
class Part:
    """A segment in memory: its lexicon whole, its postings only where they are few."""

    arrays: Arrays
    words: Indexed


@dataclass(frozen=True, eq=False)
class Open:
    """The segments of a base at one moment."""

    rows: Sequence[store.SegmentRow]
    parts: Sequence[Part]

    @property
    def arrays(self) -> list[Arrays]:
        """The arrays of each segment."""
        return [part.arrays for part in self.parts]

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

    def find(self, lexemes: Iterable[str]) -> Iterator[tuple[str, Stretch]]:
        """Where the postings of lexemes are."""
        for lexeme in lexemes:
            for row, part in zip(self.rows, self.parts, strict=True):
                if (found := part.words.lexicon.find(lexeme)) is not None:
                    yield lexeme, Stretch(row.id, *found)

    def held(self, where: Stretch) -> Postings | None:
        """The postings of a stretch, of a segment that is held whole."""
        words = self._words[where.segment]
        if not len(words.places):
            return None
        return Postings(words.places[where.start : where.end], words.counts[where.start : where.end])

    @functools.cached_property
    def _words(self) -> dict[int, Indexed]:
        return {row.id: part.words for row, part in zip(self.rows, self.parts, strict=True)}

    def beginning_with(self, prefix: str, limit: int) -> list[str]:
        """The commonest lexemes that begin so."""
        held: Counter[str] = Counter()
        for part in self.parts:
            for lexeme, chunks in part.words.lexicon.beginning_with(prefix):
                held[lexeme] += chunks
        return [
            lexeme for lexeme, _ in heapq.nsmallest(limit, held.items(), key=lambda one: (-one[1], one[0]))
        ]

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
        self._parts: OrderedDict[int, Part] = OrderedDict()
        self._postings: OrderedDict[tuple[str, int], Postings] = OrderedDict()

    async def open(self, tx: Tx, base_id: UUID) -> Open:
        """The segments of a base, as the transaction sees them."""
        rows = await store.segments(tx, base_id)
        opened = self._opened.get(base_id)
        if opened is not None and [row.id for row in opened.rows] == [row.id for row in rows]:
            return opened
        missing = [row.id for row in rows if row.id not in self._parts]
        fresh: dict[int, Part] = {}
        if missing:
            for row in await store.segment_arrays(tx, base_id, missing):
                arrays = segment.load_form(row.nos, row.items, row.lengths, row.codes)
                fresh[row.id] = Part(arrays, Indexed.load(row.lexicon, row.places, row.counts))
        parts = [fresh.get(row.id) or self._parts[row.id] for row in rows]
        for row, part in zip(rows, parts, strict=True):
            self._keep_part(row.id, part)
        return self._keep_opened(base_id, Open(rows, parts))

    async def find(
        self, tx: Tx, base_id: UUID, lexemes: Sequence[str], opened: Open
    ) -> dict[str, list[tuple[int, Postings]]]:
        """Where lexemes stand: the postings of each, with the place where their segment begins."""
        wanted = list(opened.find(lexemes))
        held = {key: opened.held(key[1]) or self._postings.get((key[0], key[1].segment)) for key in wanted}
        missing = [key for key, kept in held.items() if kept is None]
        if missing:
            held |= zip(
                missing, await store.postings(tx, base_id, [where for _, where in missing]), strict=True
            )
        found: dict[str, list[tuple[int, Postings]]] = {}
        for (lexeme, where), kept in held.items():
            if kept is not None and len(kept.places):
                found.setdefault(lexeme, []).append((opened.starts[where.segment], kept))
                if len(kept.places) >= _WORTH_KEEPING and opened.held(where) is None:
                    self._keep_postings((lexeme, where.segment), kept)
        return found

    def _keep_opened(self, base_id: UUID, opened: Open) -> Open:
        self._opened[base_id] = opened
        self._opened.move_to_end(base_id)
        while len(self._opened) > _OPENED:
            self._opened.popitem(last=False)
        return opened

    def _keep_part(self, key: int, part: Part) -> None:
        if key not in self._parts:
            self._size += _size(part)
        self._parts[key] = part
        self._parts.move_to_end(key)
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
        while self._size > self._limit and self._parts:
            self._size -= _size(self._parts.popitem(last=False)[1])


def _joined(parts: Sequence[NDArray[Any]], kind: type[Any]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, kind)


def _size(part: Part) -> int:
    words = part.words
    return part.arrays.size + len(words.lexicon.data) + words.places.nbytes + words.counts.nbytes


def _bytes(found: Postings) -> int:
    return found.places.nbytes + found.counts.nbytes
