"""The words of a segment: each lexeme with the chunks that hold it, and how often. Pure, and the same in memory as stored.

    lexicon   how many lexemes; where the name of each ends, and where its postings end; the names, in the order of their
              bytes, without anything between. Whole in memory: a name is found by halving
    places    the chunks that hold each lexeme, lexeme by lexeme, as places in the segment, rising; two bytes each
    counts    how often, one byte each: BM25 has long stopped growing where a count above 255 is 255

The postings of one lexeme are one stretch of `places` and of `counts`, which is read from the table alone.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Ends = NDArray[np.uint32]
Places = NDArray[np.uint16]
Counts = NDArray[np.uint8]
Keys = NDArray[Any]  # of unsigned integers, as wide as they must be

MOST_COUNT = 255


@dataclass(frozen=True, slots=True)
class Postings:
    """Places, rising, and the count at each."""

    places: NDArray[Any]
    counts: Counts


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Which lexemes there are, and where the postings of each are."""

    data: bytes

    @classmethod
    def of(cls, names: Sequence[str], ends: NDArray[Any]) -> Self:
        """Of names in the order of their bytes, and where the postings of each end."""
        raw = [name.encode() for name in names]
        name_ends = np.fromiter(itertools.accumulate(map(len, raw)), "<u4", len(raw))
        size = np.array([len(raw)], "<u4")
        return cls(b"".join([size.tobytes(), name_ends.tobytes(), ends.astype("<u4").tobytes(), *raw]))

    @property
    def _tables(self) -> tuple[Ends, Ends, int]:
        size = self.size
        name_ends = np.frombuffer(self.data, "<u4", size, 4)
        return name_ends, np.frombuffer(self.data, "<u4", size, 4 + 4 * size), 4 + 8 * size

    @property
    def size(self) -> int:
        """How many lexemes."""
        return int.from_bytes(self.data[:4], "little") if self.data else 0

    @property
    def ends(self) -> Ends:
        """Where the postings of each lexeme end."""
        return self._tables[1] if self.data else np.empty(0, np.uint32)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many postings each lexeme has."""
        return np.diff(self.ends.astype(np.int64), prepend=0)

    def names(self) -> list[str]:
        """All lexemes, in order."""
        if not self.data:
            return []
        name_ends, _, at = self._tables
        ends = name_ends.tolist()
        return [self.data[at + low : at + high].decode() for low, high in zip([0, *ends], ends, strict=False)]

    def find(self, lexeme: str) -> tuple[int, int] | None:
        """Where the postings of a lexeme begin and end."""
        if not self.data:
            return None
        wanted = lexeme.encode()
        place = self._first(wanted)
        return self._postings(place) if place < self.size and self._name(place) == wanted else None

    def beginning_with(self, prefix: str) -> Iterator[tuple[str, int]]:
        """The lexemes that begin so, each with the number of chunks that hold it."""
        raw = prefix.encode()
        place = self._first(raw) if self.data else 0
        while place < self.size and (name := self._name(place)).startswith(raw):
            low, high = self._postings(place)
            yield name.decode(), high - low
            place += 1

    def _first(self, wanted: bytes) -> int:
        """The place of the first name that is not before this one."""
        low, high = 0, self.size
        while low < high:
            middle = (low + high) // 2
            if self._name(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low

    def _name(self, place: int) -> bytes:
        name_ends, _, at = self._tables
        low = int(name_ends[place - 1]) if place else 0
        return self.data[at + low : at + int(name_ends[place])]

    def _postings(self, place: int) -> tuple[int, int]:
        ends = self._tables[1]
        return (int(ends[place - 1]) if place else 0), int(ends[place])


@dataclass(frozen=True, eq=False)
class Indexed:
    """All words of a segment."""

    lexicon: Lexicon
    places: Places
    counts: Counts

    @classmethod
    def load(cls, lexicon: bytes, places: bytes, counts: bytes) -> Self:
        """As stored."""
        return cls(Lexicon(lexicon), np.frombuffer(places, "<u2"), np.frombuffer(counts, np.uint8))

    def of(self, lexeme: str) -> Postings | None:
        """The postings of one lexeme."""
        found = self.lexicon.find(lexeme)
        return None if found is None else Postings(self.places[slice(*found)], self.counts[slice(*found)])


def index(numbered: Mapping[str, int], tokens: NDArray[Any], lengths: NDArray[np.int64]) -> Indexed:
    """The words of chunks: the number of each lexeme, and the tokens of all chunks one after the other, by number."""
    names = sorted(numbered)  # by code points, which is the order of their bytes
    moved = np.empty(len(names), np.int64)
    moved[np.fromiter(map(numbered.__getitem__, names), np.int64, len(names))] = np.arange(len(names))
    places = np.repeat(np.arange(len(lengths)), lengths)
    pairs, counts = np.unique(_keys(moved[tokens], places, len(names), len(lengths)), return_counts=True)
    return _grouped(names, pairs, np.minimum(counts, MOST_COUNT).astype(np.uint8), len(lengths))


def merge(parts: Sequence[tuple[Indexed, NDArray[np.int64]]]) -> Indexed:
    """The words of several segments as those of one, whose chunks are theirs one after the other. Each part brings the
    new place of its chunks, rising, -1 for those that are gone.

    One part at a time, straight to where its postings belong: what it takes beside the result is small."""
    kept = [_left(part, moved) for part, moved in parts]
    # The names of one part at a time: all of them at once would be the most that merging takes.
    known: set[str] = set()
    for part in kept:
        known.update(part.lexicon.names())
    names = sorted(known)
    numbered = {name: number for number, name in enumerate(names)}
    which = [
        np.fromiter(map(numbered.__getitem__, part.lexicon.names()), np.int32, part.lexicon.size)
        for part in kept
    ]
    sizes = np.zeros(len(names), np.int64)
    for own, part in zip(which, kept, strict=True):
        sizes[own] += part.lexicon.sizes
    ends = np.cumsum(sizes)
    free = ends - sizes  # where the next posting of each lexeme goes
    places = np.empty(int(ends[-1]) if len(ends) else 0, "<u2")
    counts = np.empty(len(places), np.uint8)
    for own, part in zip(which, kept, strict=True):
        own_ends = part.lexicon.ends.astype(np.int64)
        into = np.repeat(free[own] - own_ends + part.lexicon.sizes, part.lexicon.sizes)
        into += np.arange(len(into))
        places[into], counts[into] = part.places, part.counts
        free[own] += part.lexicon.sizes
    return Indexed(Lexicon.of(names, ends), places, counts)


def _left(part: Indexed, moved: NDArray[np.int64]) -> Indexed:
    """What is left of a part, at its new places."""
    places = moved[part.places]
    left = places >= 0
    if left.all():
        return Indexed(part.lexicon, places.astype("<u2"), part.counts)
    held = np.concatenate([[0], np.cumsum(left)])[part.lexicon.ends]
    sizes = np.diff(held, prepend=0)
    names = [name for name, size in zip(part.lexicon.names(), sizes.tolist(), strict=True) if size]
    return Indexed(
        Lexicon.of(names, np.cumsum(sizes[sizes > 0])), places[left].astype("<u2"), part.counts[left]
    )


def _keys(which: NDArray[np.int64], places: NDArray[Any], names: int, chunks: int) -> Keys:
    """Lexeme and place as one number: a sort brings equal lexemes together, and within them the chunks in order."""
    kind = np.uint32 if names * max(1, chunks) < 1 << 32 else np.uint64
    keys = which.astype(kind)
    keys *= kind(max(1, chunks))
    keys += places.astype(kind)
    return keys


def _grouped(names: list[str], keys: Keys, counts: Counts, chunks: int) -> Indexed:
    """Sorted keys, taken apart."""
    which, places = np.divmod(keys, keys.dtype.type(max(1, chunks)))
    held = np.bincount(which.astype(np.int64), minlength=len(names))
    return Indexed(Lexicon.of(names, np.cumsum(held)), places.astype("<u2"), counts)
