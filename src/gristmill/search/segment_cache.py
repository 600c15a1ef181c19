"""Caches segments in memory, within a limit.

    chunks      numbers, items and lengths: some 5 bytes per chunk, always in memory while the base is searched
    signs       sign bits, for vector search: 48 bytes per chunk at 384 dimensions
    indexes     term dictionaries, with the postings of small segments, for keyword search
    postings    of terms that were searched for; what is left of the limit

Segments never change, so what is cached stays valid as long as the segment exists; every search asks the database which
segments exist. A new process starts with an empty cache.

A base that is larger than the limit is searched all the same: what does not fit is read by each search, a few segments at a
time. What recent searches have used is not evicted for it: each search would else evict what the next one needs first.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from gristmill.db import Tx
from gristmill.search import segment_store, spelling, store
from gristmill.search.inverted_index import InvertedIndex, Postings
from gristmill.search.query_syntax import Names
from gristmill.search.segment_store import PostingRange
from gristmill.search.snapshot import SegmentChunks, Snapshot, decode_chunks

Signs = NDArray[np.uint64]

_MAX_CHUNKS_READ = 1 << 17  # of which parts are read at once
_MAX_LOOKUPS_ON_LOOP = 128  # more, such as the words of a prefix in many segments, are looked up in a thread
OBJECT_BYTES = (
    2048  # of a segment besides its data, which counts when there are many bases with little in them
)
_POSTINGS_OBJECT_BYTES = 512
_RECENT_SEARCHES = 64  # what so many searches have used is not evicted for a part of a segment

PartKind = Literal["signs", "index"]


@dataclass
class _Part:
    """The sign bits or the index of a segment, and the search that used it last."""

    value: Any
    size: int
    used_by: int


@dataclass(frozen=True)
class _Lookup:
    """The postings of lexemes that are in memory, which of them come from the cache, and the ranges to read."""

    postings: dict[str, list[tuple[int, Postings]]]
    cached: list[tuple[str, int]]
    missing: list[tuple[str, int, PostingRange]]

    def add(self, lexeme: str, position: int, postings: Postings) -> None:
        """Add the postings of a lexeme in the segment at a position."""
        if len(postings.ordinals):
            self.postings.setdefault(lexeme, []).append((position, postings))


class SegmentCache:
    """The segments that one process has cached."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._searches = 0
        self._used_bytes = 0
        self._snapshot_bytes = 0
        self._snapshots: OrderedDict[UUID, Snapshot] = OrderedDict()
        self._parts: OrderedDict[tuple[PartKind, int], _Part] = OrderedDict()
        self._postings: OrderedDict[tuple[str, int], Postings] = OrderedDict()
        self._locks: WeakValueDictionary[tuple[PartKind, UUID], asyncio.Lock] = WeakValueDictionary()

    @property
    def used_bytes(self) -> int:
        """The memory that the cache takes."""
        return self._used_bytes

    @contextlib.asynccontextmanager
    async def turn(self, kind: PartKind, set_id: UUID) -> AsyncGenerator[None]:
        """Of searches that have to read the same parts, let one read after the other: the next one finds them in the cache,
        and what does not fit is in memory once. The caller has no connection yet, which others may need meanwhile."""
        snapshot = self._snapshots.get(set_id)
        if snapshot is not None and self.has_all(kind, snapshot):
            yield
            return
        lock = self._locks.setdefault((kind, set_id), asyncio.Lock())
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(lock)
            snapshot = self._snapshots.get(set_id)
            if snapshot is not None and self.has_all(kind, snapshot):
                await stack.aclose()
            yield

    def has_all(self, kind: PartKind, snapshot: Snapshot) -> bool:
        """Whether these parts of all segments are cached; segments that have not been lexed yet have no index."""
        return all(
            (kind, row.id) in self._parts for row in snapshot.rows if kind != "index" or row.lexer_version > 0
        )

    async def open(self, tx: Tx, set_id: UUID) -> Snapshot:
        """The segments of a base that the transaction sees."""
        self._searches += 1
        rows = await store.list_segments(tx, set_id)
        if (snapshot := self._current(set_id, rows)) is not None:
            return snapshot
        earlier = self._snapshots.get(set_id)
        segments = (
            {row.id: chunks for row, chunks in zip(earlier.rows, earlier.segments, strict=True)}
            if earlier is not None
            else {}
        )
        missing = [row for row in rows if row.id not in segments]
        for group in _groups(missing):
            arrays = await segment_store.read_chunk_arrays(tx, set_id, [row.id for row in group])
            segments |= await asyncio.to_thread(_decode_all, arrays)
        snapshot = Snapshot(rows, [segments[row.id] for row in rows])
        self._store_snapshot(set_id, snapshot)
        return snapshot

    async def scan_signs(
        self, tx: Tx, set_id: UUID, snapshot: Snapshot, visit: Callable[[Mapping[int, Signs]], None]
    ) -> None:
        """Call `visit`, in a thread, with the sign bits of all segments: those of some, by position, at a time."""

        async def read(ids: Sequence[int]) -> dict[int, tuple[Signs, int]]:
            rows = await segment_store.read_segment_signs(tx, set_id, ids)
            return {row.id: (_decode_signs(row), len(row.signs) + OBJECT_BYTES) for row in rows}

        await self._visit_parts("signs", snapshot, read, visit)

    async def find_postings(
        self, tx: Tx, set_id: UUID, lexemes: Sequence[str], snapshot: Snapshot
    ) -> dict[str, list[tuple[int, Postings]]]:
        """The postings of each lexeme, each with the position of its segment."""
        lookup = _Lookup({}, [], [])
        await self._visit_indexes(
            tx,
            set_id,
            snapshot,
            lambda indexes: self._look_up(lexemes, indexes, snapshot, lookup),
            in_thread=len(lexemes) * len(snapshot.rows) > _MAX_LOOKUPS_ON_LOOP,
        )
        for key in lookup.cached:
            if key in self._postings:  # not evicted meanwhile
                self._postings.move_to_end(key)
        if lookup.missing:
            ranges = [posting_range for _, _, posting_range in lookup.missing]
            read = await segment_store.read_postings(tx, set_id, ranges)
            for (lexeme, position, posting_range), postings in zip(lookup.missing, read, strict=True):
                lookup.add(lexeme, position, postings)
                self._store_postings((lexeme, posting_range.segment_id), postings)
        return lookup.postings

    async def expand_prefix(
        self, tx: Tx, set_id: UUID, prefix: str, limit: int, snapshot: Snapshot
    ) -> list[str]:
        """The lexemes with this prefix that are in the most chunks."""
        chunk_counts: Counter[str] = Counter()

        def count(indexes: Mapping[int, InvertedIndex]) -> None:
            for index in indexes.values():
                for lexeme, chunks in index.terms.with_prefix(prefix):
                    chunk_counts[lexeme] += chunks

        await self._visit_indexes(tx, set_id, snapshot, count)
        ordered = heapq.nsmallest(limit, chunk_counts.items(), key=lambda entry: (-entry[1], entry[0]))
        return [lexeme for lexeme, _ in ordered]

    async def similar_lexemes(
        self, tx: Tx, set_id: UUID, mistyped: Sequence[Names], snapshot: Snapshot
    ) -> dict[Names, list[str]]:
        """The lexemes that words may be typing mistakes of, best first. Of each word's lexemes, the first that is near any
        counts; words that are near none are left out."""
        chunk_counts = {name: Counter[str]() for names in mistyped for name in names}

        def count(indexes: Mapping[int, InvertedIndex]) -> None:
            spelling.count_near([index.terms for index in indexes.values()], chunk_counts)

        await self._visit_indexes(tx, set_id, snapshot, count)
        similar: dict[Names, list[str]] = {}
        for names in mistyped:
            ranked = (spelling.nearest(name, chunk_counts[name]) for name in names)
            if nearest := next(filter(None, ranked), None):
                similar[names] = nearest
        return similar

    def _look_up(
        self,
        lexemes: Sequence[str],
        indexes: Mapping[int, InvertedIndex],
        snapshot: Snapshot,
        lookup: _Lookup,
    ) -> None:
        """Find what is in memory, and what has to be read. Only reads the cache, so that it can run in a thread."""
        for lexeme, (position, index) in itertools.product(lexemes, indexes.items()):
            bounds = index.terms.find(lexeme)
            if bounds is None:
                continue
            key = lexeme, snapshot.rows[position].id
            if len(index.ordinals):
                lookup.add(
                    lexeme, position, Postings(index.ordinals[slice(*bounds)], index.counts[slice(*bounds)])
                )
            elif (postings := self._postings.get(key)) is not None:
                lookup.cached.append(key)
                lookup.add(lexeme, position, postings)
            else:
                lookup.missing.append((lexeme, position, PostingRange(key[1], *bounds)))

    async def _visit_indexes(
        self,
        tx: Tx,
        set_id: UUID,
        snapshot: Snapshot,
        visit: Callable[[Mapping[int, InvertedIndex]], None],
        *,
        in_thread: bool = True,
    ) -> None:
        async def read(ids: Sequence[int]) -> dict[int, tuple[InvertedIndex, int]]:
            rows = await segment_store.read_segment_indexes(tx, set_id, ids)
            return {row.id: _decode_index(row) for row in rows}

        await self._visit_parts("index", snapshot, read, visit, in_thread=in_thread)

    async def _visit_parts(
        self,
        kind: PartKind,
        snapshot: Snapshot,
        read: Callable[[Sequence[int]], Awaitable[dict[int, tuple[Any, int]]]],
        visit: Callable[[Mapping[int, Any]], None],
        *,
        in_thread: bool = True,
    ) -> None:
        """Call `visit` with the parts that are cached, then with the others, as they are read."""
        cached, missing = self._cached_parts(kind, snapshot)
        if in_thread:
            await asyncio.to_thread(visit, cached)
        else:
            visit(cached)
        positions = {snapshot.rows[position].id: position for position in missing}
        for group in _groups([snapshot.rows[position] for position in missing]):
            parts = await read([row.id for row in group])
            for segment_id, (value, size) in parts.items():
                self._store_part((kind, segment_id), value, size)
            await asyncio.to_thread(
                visit, {positions[segment_id]: value for segment_id, (value, _) in parts.items()}
            )

    def _cached_parts(self, kind: PartKind, snapshot: Snapshot) -> tuple[dict[int, Any], list[int]]:
        """The parts that are cached, by position, and the positions of the others."""
        cached: dict[int, Any] = {}
        missing: list[int] = []
        for position, row in enumerate(snapshot.rows):
            key = kind, row.id
            if (part := self._parts.get(key)) is None:
                missing.append(position)
            else:
                cached[position] = part.value
                part.used_by = self._searches
                self._parts.move_to_end(key)
        return cached, missing

    def _current(self, set_id: UUID, rows: Sequence[store.SegmentRow]) -> Snapshot | None:
        """The last snapshot of a base, if it has these segments."""
        snapshot = self._snapshots.get(set_id)
        if snapshot is None or [row.id for row in snapshot.rows] != [row.id for row in rows]:
            return None
        self._snapshots.move_to_end(set_id)
        return snapshot

    def _store_snapshot(self, set_id: UUID, snapshot: Snapshot) -> None:
        if (earlier := self._snapshots.pop(set_id, None)) is not None:
            self._forget_snapshot(earlier)
            self._forget_segments({row.id for row in earlier.rows} - {row.id for row in snapshot.rows})
        self._snapshots[set_id] = snapshot
        size = snapshot.nbytes + OBJECT_BYTES * (1 + len(snapshot.rows))
        self._snapshot_bytes += size
        self._used_bytes += size
        while len(self._snapshots) > 1 and self._snapshot_bytes > self._limit // 4:
            self._forget_snapshot(self._snapshots.popitem(last=False)[1])
        self._make_room(0)

    def _forget_snapshot(self, snapshot: Snapshot) -> None:
        size = snapshot.nbytes + OBJECT_BYTES * (1 + len(snapshot.rows))
        self._snapshot_bytes -= size
        self._used_bytes -= size

    def _forget_segments(self, segment_ids: set[int]) -> None:
        """Drop what compaction has replaced."""
        if segment_ids:
            for key in [key for key in self._parts if key[1] in segment_ids]:
                self._used_bytes -= self._parts.pop(key).size
            for posting_key in [key for key in self._postings if key[1] in segment_ids]:
                self._used_bytes -= _postings_bytes(self._postings.pop(posting_key))

    def _store_part(self, key: tuple[PartKind, int], value: Any, size: int) -> None:
        if key not in self._parts and self._make_room(size):
            self._parts[key] = _Part(value, size, self._searches)
            self._used_bytes += size

    def _store_postings(self, key: tuple[str, int], postings: Postings) -> None:
        size = _postings_bytes(postings)
        while self._used_bytes + size > self._limit and self._postings:
            self._used_bytes -= _postings_bytes(self._postings.popitem(last=False)[1])
        if key not in self._postings and self._used_bytes + size <= self._limit:
            self._postings[key] = postings
            self._used_bytes += size

    def _make_room(self, size: int) -> bool:
        """Evict postings, then what no recent search has used; whether there is room for so many bytes."""
        while self._used_bytes + size > self._limit and self._postings:
            self._used_bytes -= _postings_bytes(self._postings.popitem(last=False)[1])
        while self._used_bytes + size > self._limit and self._parts:
            oldest = next(iter(self._parts))
            if self._parts[oldest].used_by > self._searches - _RECENT_SEARCHES:
                return False
            self._used_bytes -= self._parts.pop(oldest).size
        return self._used_bytes + size <= self._limit


def _groups(rows: Sequence[store.SegmentRow]) -> Iterator[list[store.SegmentRow]]:
    """Segments in groups that are read at once."""
    group: list[store.SegmentRow] = []
    for row in rows:
        if group and sum(each.chunks for each in group) + row.chunks > _MAX_CHUNKS_READ:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _decode_all(rows: Sequence[segment_store.ChunkArraysRow]) -> dict[int, SegmentChunks]:
    return {row.id: decode_chunks(row) for row in rows}


def _decode_signs(row: segment_store.SignsRow) -> Signs:
    words = np.frombuffer(row.signs, np.uint64)
    return words.reshape(-1, row.chunks) if len(words) else np.empty((0, row.chunks), np.uint64)


def _decode_index(row: segment_store.IndexRow) -> tuple[InvertedIndex, int]:
    size = len(row.terms) + len(row.ordinals) + len(row.counts)
    size += len(row.terms) // 16 + OBJECT_BYTES  # the names that a dictionary keeps as objects
    return InvertedIndex.load(row.terms, row.ordinals, row.counts), size


def _postings_bytes(postings: Postings) -> int:
    return postings.ordinals.nbytes + postings.counts.nbytes + _POSTINGS_OBJECT_BYTES
