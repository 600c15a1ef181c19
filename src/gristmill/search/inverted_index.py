"""The words of a segment: each lexeme with the chunks that hold it, and how often. Pure, and the same in memory as stored.

    lexicon   how many lexemes; where the name of each ends, and where its postings end; the names, in the order of their
              bytes, without anything between. Whole in memory: a name is found by halving
    places    the chunks that hold each lexeme, lexeme by lexeme, as places in the segment, rising; two bytes each
    counts    how often, one byte each: BM25 has long stopped growing where a count above 255 is 255

The postings of one lexeme are one stretch of `places` and of `counts`, which is read from the table alone.
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
Keys = NDArray[Any]  # of unsigned integers, as wide as they must be

MAX_COUNT = 255


@dataclass(frozen=True, slots=True)
class Postings:
    """Places, rising, and the count at each."""

    ordinals: NDArray[Any]
    counts: Counts


@dataclass(frozen=True, eq=False)
class TermDictionary:
    """Which lexemes there are, and where the postings of each are."""

    data: bytes

    @classmethod
    def from_names(cls, names: Sequence[str], ends: NDArray[Any]) -> Self:
        """Of names in the order of their bytes, and where the postings of each end."""
        encoded_names = [name.encode() for name in names]
        name_ends = np.fromiter(itertools.accumulate(map(len, encoded_names)), "<u4", len(encoded_names))
        size = np.array([len(encoded_names)], "<u4")
        return cls(
            b"".join([size.tobytes(), name_ends.tobytes(), ends.astype("<u4").tobytes(), *encoded_names])
        )

    @functools.cached_property
    def size(self) -> int:
        """How many lexemes."""
        return int.from_bytes(self.data[:4], "little") if self.data else 0

    @functools.cached_property
    def _name_ends(self) -> Sequence[int]:
        """Read one by one, which of an array would take five times as long."""
        return memoryview(self.data)[4 : 4 + 4 * self.size].cast("I")

    @functools.cached_property
    def _posting_ends(self) -> Sequence[int]:
        return memoryview(self.data)[4 + 4 * self.size : 4 + 8 * self.size].cast("I")

    @property
    def ends(self) -> Ends:
        """Where the postings of each lexeme end."""
        return (
            np.frombuffer(self.data, "<u4", self.size, 4 + 4 * self.size)
            if self.size
            else np.empty(0, np.uint32)
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many postings each lexeme has."""
        return np.diff(self.ends.astype(np.int64), prepend=0)

    def names(self) -> list[str]:
        """All lexemes, in order."""
        ends, names_start = list(self._name_ends), 4 + 8 * self.size
        return [
            self.data[names_start + low : names_start + high].decode()
            for low, high in zip([0, *ends], ends, strict=False)
        ]

    def find(self, lexeme: str) -> tuple[int, int] | None:
        """Where the postings of a lexeme begin and end."""
        name = lexeme.encode()
        position = self._first(name)
        return self._postings(position) if position < self.size and self._name(position) == name else None

    def with_prefix(self, prefix: str) -> Iterator[tuple[str, int]]:
        """The lexemes that begin so, each with the number of chunks that hold it."""
        encoded_prefix = prefix.encode()
        position = self._first(encoded_prefix)
        while position < self.size and (name := self._name(position)).startswith(encoded_prefix):
            low, high = self._postings(position)
            yield name.decode(), high - low
            position += 1

    def _first(self, name: bytes) -> int:
        """The place of the first name that is not before this one."""
        return bisect.bisect_left(range(self.size), name, key=self._name)

    def _name(self, position: int) -> bytes:
        ends, names_start = self._name_ends, 4 + 8 * self.size
        return self.data[
            names_start + ends[position - 1] if position else names_start : names_start + ends[position]
        ]

    def _postings(self, position: int) -> tuple[int, int]:
        ends = self._posting_ends
        return (ends[position - 1] if position else 0), ends[position]


@dataclass(frozen=True, eq=False)
class InvertedIndex:
    """All words of a segment."""

    terms: TermDictionary
    ordinals: Ordinals
    counts: Counts

    @classmethod
    def load(cls, lexicon: bytes, ordinals: bytes, counts: bytes) -> Self:
        """As stored."""
        return cls(TermDictionary(lexicon), np.frombuffer(ordinals, "<u2"), np.frombuffer(counts, np.uint8))

    def postings_of(self, lexeme: str) -> Postings | None:
        """The postings of one lexeme."""
        bounds = self.terms.find(lexeme)
        return (
            None if bounds is None else Postings(self.ordinals[slice(*bounds)], self.counts[slice(*bounds)])
        )


def build_index(
    lexeme_numbers: Mapping[str, int], tokens: NDArray[Any], lengths: NDArray[np.int64]
) -> InvertedIndex:
    """The words of chunks: the number of each lexeme, and the tokens of all chunks one after the other, by number."""
    names = sorted(lexeme_numbers)  # by code points, which is the order of their bytes
    sorted_positions = np.empty(len(names), np.int64)
    sorted_positions[np.fromiter(map(lexeme_numbers.__getitem__, names), np.int64, len(names))] = np.arange(
        len(names)
    )
    ordinals = np.repeat(np.arange(len(lengths)), lengths)
    pairs, counts = np.unique(
        _keys(sorted_positions[tokens], ordinals, len(names), len(lengths)), return_counts=True
    )
    return _index_from_keys(names, pairs, np.minimum(counts, MAX_COUNT).astype(np.uint8), len(lengths))


def merge_indexes(parts: Sequence[tuple[InvertedIndex, NDArray[np.int64]]]) -> InvertedIndex:
    """The words of several segments as those of one, whose chunks are theirs one after the other. Each part brings the
    new place of its chunks, rising, -1 for those that are gone.

    One part at a time, straight to where its postings belong: what it takes beside the result is small."""
    remaining = [_remaining_postings(part, moved) for part, moved in parts]
    # The names of one part at a time: all of them at once would be the most that merging takes.
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
    next_free = ends - sizes  # where the next posting of each lexeme goes
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
    """What is left of a part, at its new places."""
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
    """Lexeme and place as one number: a sort brings equal lexemes together, and within them the chunks in order."""
    dtype = np.uint32 if names * max(1, chunks) < 1 << 32 else np.uint64
    keys = lexemes.astype(dtype)
    keys *= dtype(max(1, chunks))
    keys += ordinals.astype(dtype)
    return keys


def _index_from_keys(names: list[str], keys: Keys, counts: Counts, chunks: int) -> InvertedIndex:
    """Sorted keys, taken apart."""
    lexemes, ordinals = np.divmod(keys, keys.dtype.type(max(1, chunks)))
    sizes = np.bincount(lexemes.astype(np.int64), minlength=len(names))
    return InvertedIndex(TermDictionary.from_names(names, np.cumsum(sizes)), ordinals.astype("<u2"), counts)
