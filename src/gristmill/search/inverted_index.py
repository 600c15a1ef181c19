"""The inverted index of a segment: for each lexeme, the chunks that contain it and how often. Pure functions; the format
is the same in memory and in the table.

    terms      the number of lexemes; the end offset of each name; the end offset of each lexeme's postings; then the
               names, sorted by their bytes, without separators. Always entirely in memory; searched by bisection
    ordinals   the chunks of each lexeme, lexeme by lexeme, as ascending ordinals in the segment; two bytes each
    counts     the occurrences, one byte each, capped at 255: BM25 is saturated long before

The postings of one lexeme are one range of `ordinals` and `counts`, which can be read from the table by itself.
"""

import bisect
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Ends = NDArray[np.uint32]
Ordinals = NDArray[np.uint16]
Counts = NDArray[np.uint8]
Keys = NDArray[Any]  # uint32 where it is wide enough, else uint64

MAX_COUNT = 255
_BYTE_BITS = (1 << (np.arange(256) % 32)).astype(np.uint32)  # each letter of the Latin alphabet has its own
_MILESTONE_INTERVAL = (
    64  # every so many names, one is kept as an object: most steps of a bisection need no slicing
)


@dataclass(frozen=True, slots=True)
class Postings:
    """The ascending ordinals of the chunks that contain a lexeme, and the count in each."""

    ordinals: NDArray[Any]
    counts: Counts


@dataclass(frozen=True, eq=False)
class TermDictionary:
    """The lexemes of a segment, and the range of each one's postings."""

    data: bytes

    @classmethod
    def from_names(cls, names: Sequence[str], ends: NDArray[Any]) -> Self:
        """Build from names sorted by their bytes, and the end offset of each one's postings."""
        encoded_names = [name.encode() for name in names]
        name_ends = np.fromiter(itertools.accumulate(map(len, encoded_names)), "<u4", len(encoded_names))
        size = np.array([len(encoded_names)], "<u4")
        return cls(
            b"".join([size.tobytes(), name_ends.tobytes(), ends.astype("<u4").tobytes(), *encoded_names])
        )

    @functools.cached_property
    def size(self) -> int:
        """The number of lexemes."""
        return int.from_bytes(self.data[:4], "little") if self.data else 0

    @functools.cached_property
    def _name_ends(self) -> Sequence[int]:
        """A memoryview: single elements are read five times as fast as from an array."""
        return memoryview(self.data)[4 : 4 + 4 * self.size].cast("I")

    @functools.cached_property
    def _posting_ends(self) -> Sequence[int]:
        return memoryview(self.data)[4 + 4 * self.size : 4 + 8 * self.size].cast("I")

    @property
    def ends(self) -> Ends:
        """The end offset of each lexeme's postings."""
        return (
            np.frombuffer(self.data, "<u4", self.size, 4 + 4 * self.size)
            if self.size
            else np.empty(0, np.uint32)
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of postings of each lexeme."""
        return np.diff(self.ends.astype(np.int64), prepend=0)

    def names(self) -> list[str]:
        """All lexemes, in order."""
        ends, names_start = list(self._name_ends), 4 + 8 * self.size
        return [
            self.data[names_start + low : names_start + high].decode()
            for low, high in zip([0, *ends], ends, strict=False)
        ]

    def find(self, lexeme: str) -> tuple[int, int] | None:
        """The start and end of a lexeme's postings."""
        name = lexeme.encode()
        position = self._first(name)
        return self._postings(position) if position < self.size and self._name(position) == name else None

    def with_prefix(self, prefix: str) -> Iterator[tuple[str, int]]:
        """The lexemes that begin with `prefix`, each with the number of chunks that contain it."""
        encoded_prefix = prefix.encode()
        position = self._first(encoded_prefix)
        while position < self.size and (name := self._name(position)).startswith(encoded_prefix):
            low, high = self._postings(position)
            yield name.decode(), high - low
            position += 1

    def names_from(self, first_letter: str) -> "NameRange | None":
        """The lexemes that begin with a letter."""
        prefix, names_start = first_letter.encode(), 4 + 8 * self.size
        low, high = self._first(prefix), self._first(prefix[:-1] + bytes([prefix[-1] + 1]))
        if low == high:
            return None
        ends = np.frombuffer(self.data, "<u4", high - low, 4 + 4 * low)
        start = self._name_ends[low - 1] if low else 0
        data = np.frombuffer(self.data, np.uint8, offset=names_start + start)
        return NameRange(low, data, ends - np.uint32(start))

    def entry_at(self, position: int) -> tuple[str, int]:
        """The lexeme at a position, and the number of chunks that contain it."""
        low, high = self._postings(position)
        return self._name(position).decode(), high - low

    def _first(self, name: bytes) -> int:
        """The position of the first name that is not less than this one."""
        block = bisect.bisect_left(self._milestones, name)
        low, high = max(0, block - 1) * _MILESTONE_INTERVAL, min(self.size, block * _MILESTONE_INTERVAL)
        return bisect.bisect_left(range(self.size), name, low, high, key=self._name)

    @functools.cached_property
    def _milestones(self) -> list[bytes]:
        return [self._name(position) for position in range(0, self.size, _MILESTONE_INTERVAL)]

    def _name(self, position: int) -> bytes:
        ends, names_start = self._name_ends, 4 + 8 * self.size
        return self.data[
            names_start + ends[position - 1] if position else names_start : names_start + ends[position]
        ]

    def _postings(self, position: int) -> tuple[int, int]:
        ends = self._posting_ends
        return (ends[position - 1] if position else 0), ends[position]


@dataclass(frozen=True, eq=False)
class NameRange:
    """Some lexemes of a dictionary that stand side by side: the position of the first, their bytes, and the end of each."""

    first: int
    data: NDArray[np.uint8]
    ends: Ends

    @functools.cached_property
    def _starts(self) -> Ends:
        return np.concatenate([np.zeros(1, np.uint32), self.ends[:-1]])

    @functools.cached_property
    def _byte_sets(self) -> NDArray[np.uint32]:
        return np.bitwise_or.reduceat(_BYTE_BITS[self.data[: self.ends[-1]]], self._starts)

    def like(self, word: str, tolerance: int) -> tuple[list[int], NDArray[np.uint8], NDArray[np.int32]]:
        """The positions of the lexemes that a word becomes when so many bytes are changed; some others are among them. Also
        their bytes, one lexeme a row, filled up with zeros, and their lengths."""
        pattern = np.frombuffer(word.encode(), np.uint8)
        # A byte that is inserted or removed changes the set of a name's bytes by one, and one that is replaced by two.
        differing = np.bitwise_count(self._byte_sets ^ np.bitwise_or.reduce(_BYTE_BITS[pattern]))
        chosen = np.flatnonzero(differing <= 2 * tolerance)
        starts = self._starts[chosen].astype(np.int64)
        lengths = (self.ends[chosen] - starts).astype(np.int32)
        is_like = np.abs(lengths - len(pattern)) <= tolerance
        chosen, starts, lengths = chosen[is_like], starts[is_like], lengths[is_like]
        columns = np.arange(len(pattern) + tolerance)
        places = np.minimum(starts[:, None] + columns, len(self.data) - 1)
        return (self.first + chosen).tolist(), self.data[places] * (columns < lengths[:, None]), lengths


@dataclass(frozen=True, eq=False)
class InvertedIndex:
    """The lexemes of a segment and all their postings."""

    terms: TermDictionary
    ordinals: Ordinals
    counts: Counts

    @classmethod
    def load(cls, terms: bytes, ordinals: bytes, counts: bytes) -> Self:
        """Load from the columns of the table."""
        return cls(TermDictionary(terms), np.frombuffer(ordinals, "<u2"), np.frombuffer(counts, np.uint8))

    def postings_of(self, lexeme: str) -> Postings | None:
        """The postings of one lexeme."""
        bounds = self.terms.find(lexeme)
        return (
            None if bounds is None else Postings(self.ordinals[slice(*bounds)], self.counts[slice(*bounds)])
        )


def build_index(
    lexeme_numbers: Mapping[str, int], tokens: NDArray[Any], lengths: NDArray[np.int64]
) -> InvertedIndex:
    """Build the index of chunks from the number of each lexeme and the lexeme numbers of all chunks, concatenated in
    the order of the chunks; `lengths` says how many each chunk has."""
    names = sorted(lexeme_numbers)  # by code points, which is also the order of their UTF-8 bytes
    sorted_positions = np.empty(len(names), np.int64)
    sorted_positions[np.fromiter(map(lexeme_numbers.__getitem__, names), np.int64, len(names))] = np.arange(
        len(names)
    )
    ordinals = np.repeat(np.arange(len(lengths)), lengths)
    pairs, counts = _count_equal(_keys(sorted_positions[tokens], ordinals, len(names), len(lengths)))
    return _index_from_keys(names, pairs, np.minimum(counts, MAX_COUNT).astype(np.uint8), len(lengths))


def merge_indexes(parts: Sequence[tuple[InvertedIndex, NDArray[np.int64]]]) -> InvertedIndex:
    """Merge the indexes of several segments into one. Each part comes with the new ordinals of its chunks, ascending,
    and -1 for deleted chunks.

    Each part's postings are written directly to their final position, so that merging needs little memory besides
    the result."""
    remaining = [_remaining_postings(part, new_ordinals) for part, new_ordinals in parts]
    # One part at a time: the names of all parts together would be the peak of the memory use.
    all_names: set[str] = set()
    for part in remaining:
        all_names.update(part.terms.names())
    names = sorted(all_names)
    name_positions = {name: number for number, name in enumerate(names)}
    term_positions = [
        np.fromiter(map(name_positions.__getitem__, part.terms.names()), np.int32, part.terms.size)
        for part in remaining
    ]
    sizes = np.zeros(len(names), np.int64)
    for positions, part in zip(term_positions, remaining, strict=True):
        sizes[positions] += part.terms.sizes
    ends = np.cumsum(sizes)
    next_free = ends - sizes  # the position of each lexeme's next posting
    ordinals = np.empty(int(ends[-1]) if len(ends) else 0, "<u2")
    counts = np.empty(len(ordinals), np.uint8)
    for positions, part in zip(term_positions, remaining, strict=True):
        part_ends = part.terms.ends.astype(np.int64)
        targets = np.repeat(next_free[positions] - part_ends + part.terms.sizes, part.terms.sizes)
        targets += np.arange(len(targets))
        ordinals[targets], counts[targets] = part.ordinals, part.counts
        next_free[positions] += part.terms.sizes
    return InvertedIndex(TermDictionary.from_names(names, ends), ordinals, counts)


def _remaining_postings(part: InvertedIndex, new_ordinals: NDArray[np.int64]) -> InvertedIndex:
    """The index of a part without deleted chunks, with the new ordinals."""
    ordinals = new_ordinals[part.ordinals]
    is_remaining = ordinals >= 0
    if is_remaining.all():
        return InvertedIndex(part.terms, ordinals.astype("<u2"), part.counts)
    ends = np.concatenate([[0], np.cumsum(is_remaining)])[part.terms.ends]
    sizes = np.diff(ends, prepend=0)
    names = [name for name, size in zip(part.terms.names(), sizes.tolist(), strict=True) if size]
    return InvertedIndex(
        TermDictionary.from_names(names, np.cumsum(sizes[sizes > 0])),
        ordinals[is_remaining].astype("<u2"),
        part.counts[is_remaining],
    )


def _keys(lexemes: NDArray[np.int64], ordinals: NDArray[Any], names: int, chunks: int) -> Keys:
    """Lexeme and ordinal combined into one number: sorting orders by lexeme, then by chunk."""
    dtype = np.uint32 if names * max(1, chunks) < 1 << 32 else np.uint64
    keys = lexemes.astype(dtype)
    keys *= dtype(max(1, chunks))
    keys += ordinals.astype(dtype)
    return keys


def _count_equal(keys: Keys) -> tuple[Keys, NDArray[np.int64]]:
    """The distinct keys, sorted, and how often each occurs. `np.unique` does the same, but imports a package of numpy that takes
    longer to load than a segment to build."""
    keys = np.sort(keys)
    is_first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    return keys[starts], np.diff(starts, append=len(keys))


def _index_from_keys(names: list[str], keys: Keys, counts: Counts, chunks: int) -> InvertedIndex:
    """Split sorted keys into lexemes and ordinals."""
    lexemes, ordinals = np.divmod(keys, keys.dtype.type(max(1, chunks)))
    sizes = np.bincount(lexemes.astype(np.int64), minlength=len(names))
    return InvertedIndex(TermDictionary.from_names(names, np.cumsum(sizes)), ordinals.astype("<u2"), counts)
