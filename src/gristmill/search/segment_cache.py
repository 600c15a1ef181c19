"""Caches segments in memory: their arrays and term dictionaries, and the postings of frequent terms.

Segments never change, so a cached segment stays valid as long as it exists; every search asks the database which segments
exist. When the cache exceeds `limit` bytes, the least recently used entries are evicted. A new process starts with an
empty cache.
"""

import asyncio
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
from gristmill.search.inverted_index import InvertedIndex, Postings
from gristmill.search.segment import Mask, Numbers, SegmentArrays
from gristmill.search.store import PostingRange

# Shorter posting lists are read from the database as quickly as from here.
_MIN_CACHED_POSTINGS = 2048
_MAX_LOOKUPS_ON_LOOP = 128  # more, such as the words of a prefix in many segments, are looked up in a thread
_OBJECT_BYTES = (
    2048  # of a segment besides its data, which counts when there are many bases with little in them
)
_MAX_SNAPSHOTS = 16  # bases whose last snapshot is kept, with its concatenated arrays


@dataclass(frozen=True, eq=False)
class CachedSegment:
    """A segment in memory, with all its terms; its postings only if the segment is small."""

    arrays: SegmentArrays
    index: InvertedIndex


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The segments of a base at one moment."""

    rows: Sequence[store.SegmentRow]
    segments: Sequence[CachedSegment]

    @property
    def arrays(self) -> list[SegmentArrays]:
        """The arrays of each segment."""
        return [cached.arrays for cached in self.segments]

    @property
    def chunks(self) -> int:
        """The number of chunks, including deleted ones."""
        return sum(row.chunks for row in self.rows)

    @functools.cached_property
    def first_ordinals(self) -> dict[int, int]:
        """The ordinal of each segment's first chunk among all chunks, by segment id."""
        sizes = itertools.accumulate((row.chunks for row in self.rows), initial=0)
        return {row.id: start for row, start in zip(self.rows, sizes, strict=False)}

    @functools.cached_property
    def nos(self) -> Numbers:
        """The numbers of all chunks, by ordinal."""
        return _concatenate([arrays.nos for arrays in self.arrays], np.int64)

    @functools.cached_property
    def items(self) -> Numbers:
        """The item keys of all chunks, by ordinal."""
        return _concatenate([arrays.items for arrays in self.arrays], np.int64)

    @functools.cached_property
    def lengths(self) -> NDArray[np.uint16]:
        """The lengths of all chunks, by ordinal."""
        return _concatenate([arrays.lengths for arrays in self.arrays], np.uint16)

    def mask_of_items(self, keys: Numbers) -> Mask:
        """Marks the chunks of these items."""
        mask = np.zeros(len(self.nos), bool)
        for row, arrays in zip(self.rows, self.arrays, strict=True):
            mask[self.first_ordinals[row.id] + arrays.ordinals_of_items(keys)[1]] = True
        return mask

    def sums_by_item(self, keys: Numbers, values: NDArray[np.float32]) -> tuple[Numbers, NDArray[np.float64]]:
        """The number of chunks of each item, and the sum of their values."""
        counts = np.zeros(len(keys), np.int64)
        sums = np.zeros(len(keys), np.float64)
        for row, arrays in zip(self.rows, self.arrays, strict=True):
            key_positions, ordinals = arrays.ordinals_of_items(keys)
            counts += np.bincount(key_positions, minlength=len(keys))
            sums += np.bincount(
                key_positions, values[self.first_ordinals[row.id] + ordinals], minlength=len(keys)
            )
        return counts, sums

    def ordinals_of(self, nos: Sequence[int]) -> dict[int, int]:
        """The ordinals of chunks by number, for those that are in the snapshot."""
        numbers = np.array(nos, np.int64)
        ordinals = np.flatnonzero(np.isin(self.nos, numbers))
        return {int(self.nos[ordinal]): int(ordinal) for ordinal in ordinals}

    def find_posting_ranges(self, lexemes: Iterable[str]) -> Iterator[tuple[str, PostingRange]]:
        """The ranges of the lexemes' postings in each segment."""
        for lexeme in lexemes:
            for row, cached in zip(self.rows, self.segments, strict=True):
                if (bounds := cached.index.terms.find(lexeme)) is not None:
                    yield lexeme, PostingRange(row.id, *bounds)

    def postings_in_memory(self, posting_range: PostingRange) -> Postings | None:
        """The postings of a range, if the cache has all postings of its segment."""
        index = self._indexes[posting_range.segment_id]
        if not len(index.ordinals):
            return None
        return Postings(
            index.ordinals[posting_range.start : posting_range.end],
            index.counts[posting_range.start : posting_range.end],
        )

    @functools.cached_property
    def _indexes(self) -> dict[int, InvertedIndex]:
        return {row.id: cached.index for row, cached in zip(self.rows, self.segments, strict=True)}

    def with_prefix(self, prefix: str, limit: int) -> list[str]:
        """The most frequent lexemes with this prefix."""
        chunk_counts: Counter[str] = Counter()
        for cached in self.segments:
            for lexeme, chunks in cached.index.terms.with_prefix(prefix):
                chunk_counts[lexeme] += chunks
        return [
            lexeme
            for lexeme, _ in heapq.nsmallest(
                limit, chunk_counts.items(), key=lambda entry: (-entry[1], entry[0])
            )
        ]

    @property
    def languages(self) -> frozenset[str]:
        """The languages for which the segments' texts were stemmed."""
        return frozenset(language for row in self.rows for language in row.languages)


@dataclass(frozen=True)
class _Lookup:
    """The postings of lexemes that are in memory, which of them come from the cache, and the ranges to read."""

    postings: dict[str, list[tuple[int, Postings]]]
    cached: list[tuple[str, int]]
    missing: list[tuple[str, PostingRange]]

    def add(self, lexeme: str, first_ordinal: int, postings: Postings) -> None:
        """Add the postings of a lexeme in one segment."""
        if len(postings.ordinals):
            self.postings.setdefault(lexeme, []).append((first_ordinal, postings))


class SegmentCache:
    """The segments that one process has cached."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used_bytes = 0
        self._snapshots: OrderedDict[UUID, Snapshot] = OrderedDict()
        self._segments: OrderedDict[int, CachedSegment] = OrderedDict()
        self._postings: OrderedDict[tuple[str, int], Postings] = OrderedDict()

    async def open(self, tx: Tx, base_id: UUID) -> Snapshot:
        """The segments of a base that the transaction sees."""
        rows = await store.list_segments(tx, base_id)
        snapshot = self._snapshots.get(base_id)
        if snapshot is not None and [row.id for row in snapshot.rows] == [row.id for row in rows]:
            return snapshot
        # Held here: another search may evict them while the missing ones are read.
        loaded = {row.id: self._segments[row.id] for row in rows if row.id in self._segments}
        missing = [row.id for row in rows if row.id not in loaded]
        if missing:
            rows_read = await store.read_segment_arrays(tx, base_id, missing)
            loaded |= await asyncio.to_thread(lambda: {row.id: _decode(row) for row in rows_read})
        segments = [loaded[row.id] for row in rows]
        for row, cached in zip(rows, segments, strict=True):
            self._store_segment(row.id, cached)
        return self._store_snapshot(base_id, Snapshot(rows, segments))

    async def find_postings(
        self, tx: Tx, base_id: UUID, lexemes: Sequence[str], snapshot: Snapshot
    ) -> dict[str, list[tuple[int, Postings]]]:
        """The postings of each lexeme by segment, each with the segment's first ordinal."""
        if len(lexemes) * len(snapshot.rows) > _MAX_LOOKUPS_ON_LOOP:
            lookup = await asyncio.to_thread(self._look_up, lexemes, snapshot)
        else:
            lookup = self._look_up(lexemes, snapshot)
        for key in lookup.cached:
            if key in self._postings:  # not evicted meanwhile
                self._postings.move_to_end(key)
        if lookup.missing:
            ranges = [posting_range for _, posting_range in lookup.missing]
            read = await store.read_postings(tx, base_id, ranges)
            for (lexeme, posting_range), postings in zip(lookup.missing, read, strict=True):
                lookup.add(lexeme, snapshot.first_ordinals[posting_range.segment_id], postings)
                if len(postings.ordinals) >= _MIN_CACHED_POSTINGS:
                    self._store_postings((lexeme, posting_range.segment_id), postings)
        return lookup.postings

    def _look_up(self, lexemes: Sequence[str], snapshot: Snapshot) -> "_Lookup":
        """What is in memory, and what has to be read. Only reads the cache, so that it can run in a thread."""
        lookup = _Lookup({}, [], [])
        for lexeme, posting_range in snapshot.find_posting_ranges(lexemes):
            key = lexeme, posting_range.segment_id
            postings = snapshot.postings_in_memory(posting_range)
            if postings is None and (postings := self._postings.get(key)) is not None:
                lookup.cached.append(key)
            if postings is None:
                lookup.missing.append((lexeme, posting_range))
            else:
                lookup.add(lexeme, snapshot.first_ordinals[posting_range.segment_id], postings)
        return lookup

    def _store_snapshot(self, base_id: UUID, snapshot: Snapshot) -> Snapshot:
        self._snapshots[base_id] = snapshot
        self._snapshots.move_to_end(base_id)
        while len(self._snapshots) > _MAX_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return snapshot

    def _store_segment(self, key: int, cached: CachedSegment) -> None:
        if key not in self._segments:
            self._used_bytes += _segment_bytes(cached)
        self._segments[key] = cached
        self._segments.move_to_end(key)
        self._evict()

    def _store_postings(self, key: tuple[str, int], postings: Postings) -> None:
        if key not in self._postings:
            self._used_bytes += _postings_bytes(postings)
        self._postings[key] = postings
        self._postings.move_to_end(key)
        self._evict()

    def _evict(self) -> None:
        while self._used_bytes > self._limit and self._postings:
            self._used_bytes -= _postings_bytes(self._postings.popitem(last=False)[1])
        while self._used_bytes > self._limit and self._segments:
            self._used_bytes -= _segment_bytes(self._segments.popitem(last=False)[1])


def _decode(row: store.ArraysRow) -> CachedSegment:
    arrays = segment.decode_arrays(row.nos, row.items, row.lengths, row.signs)
    return CachedSegment(arrays, InvertedIndex.load(row.terms, row.ordinals, row.counts))


def _concatenate(arrays: Sequence[NDArray[Any]], dtype: type[Any]) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)


def _segment_bytes(cached: CachedSegment) -> int:
    index = cached.index
    data = cached.arrays.size + len(index.terms.data) + index.ordinals.nbytes + index.counts.nbytes
    return data + _OBJECT_BYTES


def _postings_bytes(postings: Postings) -> int:
    return postings.ordinals.nbytes + postings.counts.nbytes
