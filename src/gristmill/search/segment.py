"""A segment: what search keeps of chunks that were written together. Pure; it never changes once it is stored.

    arrays      one entry for each chunk: number, item, length in tokens, the vector's signs
    words       lexeme → the chunks that hold it (`lexicon.py`)

The words of a chunk are those of its text and headings, and three times those of its item's title: a document that is named
after what is asked for comes first.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.search import inverted_index
from gristmill.search.inverted_index import InvertedIndex
from gristmill.search.language_detection import detect_language
from gristmill.search.lexer import LEXER_VERSION, split_words
from gristmill.search.term_counts import TermCounter

MAX_CHUNKS = 1 << 14  # chunks of one segment: places fit two bytes, and merging it takes some 100 MB
TITLE_WEIGHT = 3
_MAX_LENGTH = 0xFFFF

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class ChunkText:
    """What is searched of a chunk by words."""

    no: int
    item_id: UUID
    title: str
    headings: Sequence[str]
    text: str


@dataclass(frozen=True, eq=False)
class SegmentArrays:
    """The part of a segment that searching keeps in memory."""

    nos: Numbers
    items: Numbers
    lengths: NDArray[np.uint16]
    signs: NDArray[np.uint64]  # one row for each 64 signs, one column a chunk

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.nos.nbytes + 3 * self.items.nbytes + self.lengths.nbytes + self.signs.nbytes

    @functools.cached_property
    def _by_item(self) -> tuple[Numbers, Numbers]:
        order = np.argsort(self.items, kind="stable")
        return order, self.items[order]

    def ordinals_of_items(self, keys: Numbers) -> tuple[Numbers, Numbers]:
        """The places of the chunks of items, each with the place of its item among the keys."""
        order, items = self._by_item
        low, high = np.searchsorted(items, keys, "left"), np.searchsorted(items, keys, "right")
        counts = high - low
        key_positions = np.repeat(np.arange(len(keys)), counts)
        before = np.cumsum(counts) - counts
        return key_positions, order[np.arange(len(key_positions)) + np.repeat(low - before, counts)]


@dataclass(frozen=True)
class Segment:
    """A segment before it is stored."""

    arrays: SegmentArrays
    languages: frozenset[str]
    index: InvertedIndex
    lexer_version: int = LEXER_VERSION

    def with_numbers(self, nos: Sequence[int]) -> Self:
        """The same, with the numbers that its chunks were given."""
        return replace(self, arrays=replace(self.arrays, nos=np.array(nos, np.int64)))

    @property
    def tokens(self) -> int:
        """The sum of its chunks' lengths."""
        return int(self.arrays.lengths.sum(dtype=np.int64))


def build(chunks: Sequence[ChunkText], signs: NDArray[np.uint64]) -> Segment:
    """The segment of these chunks, in their order; a column of `codes` each."""
    counter = TermCounter()
    languages: set[str] = set()
    for chunk in chunks:
        chunk_words = split_words(chunk.text)
        language = detect_language(chunk.text, chunk_words)
        languages.add(language)
        counter.add(chunk_words, language)
        for heading in chunk.headings:
            counter.add(split_words(heading), language)
        counter.add(split_words(chunk.title), language, TITLE_WEIGHT)
        counter.end_chunk()
    tokens, lengths = counter.tokens()
    arrays = SegmentArrays(
        np.array([chunk.no for chunk in chunks], np.int64),
        np.array([item_key(chunk.item_id) for chunk in chunks], np.int64),
        np.minimum(lengths, _MAX_LENGTH).astype(np.uint16),
        signs,
    )
    return Segment(arrays, frozenset(languages), inverted_index.build_index(counter.lexemes, tokens, lengths))


def item_key(item_id: UUID) -> int:
    """Eight bytes that stand for an item: those of its id that are chance. Two items that share them cost a look at the
    table, nothing more: what is shown is always checked there."""
    return int.from_bytes(item_id.bytes[8:], "big", signed=True)


def pack_signs(vectors: Iterable[NDArray[np.float32]]) -> NDArray[np.uint64]:
    """The signs of vectors, a bit each, in whole words of 64; a column each, so that a scan goes word by word."""
    stacked = list(vectors)
    if not stacked:
        return np.empty((0, 0), np.uint64)
    packed = np.packbits(np.stack(stacked) > 0, axis=1)
    packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    return np.ascontiguousarray(packed.view(np.uint64).T)


# ── as stored ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class StoredArrays:
    """The arrays as columns of `segment`."""

    nos: bytes
    items: bytes
    lengths: bytes
    signs: bytes


def encode_arrays(arrays: SegmentArrays) -> StoredArrays:
    """As the table takes them."""
    return StoredArrays(
        arrays.nos.astype(">i8").tobytes(),
        arrays.items.astype(">i8").tobytes(),
        arrays.lengths.astype(">u2").tobytes(),
        arrays.signs.tobytes(),
    )


def decode_arrays(nos: bytes, items: bytes, lengths: bytes, sign_bytes: bytes) -> SegmentArrays:
    """As searching wants them; lengths and codes may be missing, of what was not lexed yet."""
    numbers = np.frombuffer(nos, ">i8").astype(np.int64)
    sign_words = np.frombuffer(sign_bytes, np.uint64)
    return SegmentArrays(
        numbers,
        np.frombuffer(items, ">i8").astype(np.int64),
        np.frombuffer(lengths, ">u2").astype(np.uint16),
        sign_words.reshape(-1, len(numbers)) if len(sign_words) else np.empty((0, len(numbers)), np.uint64),
    )
