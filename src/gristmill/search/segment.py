"""A segment: the search data of chunks that were written together. Pure functions; a stored segment never changes.

    arrays      one entry per chunk: number, item key, length in lexemes, sign bits of the vector
    index       lexeme → the chunks that contain it (`inverted_index.py`)

A chunk is indexed by its text, its headings, and with triple weight its item's title and what the document says of itself
(title, authors, keywords), so that a document titled after the query comes first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.search import inverted_index
from gristmill.search.inverted_index import InvertedIndex
from gristmill.search.language_detection import detect_language
from gristmill.search.languages import name_language
from gristmill.search.lexer import LEXER_VERSION, split_words
from gristmill.search.term_counts import TermCounter

MAX_CHUNKS = 1 << 16  # so that ordinals fit into two bytes, and merging takes some 100 MB
TITLE_WEIGHT = 3
_MAX_LENGTH = 0xFFFF

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class ChunkText:
    """The texts of a chunk that keyword search indexes."""

    no: int
    item_id: UUID
    title: str
    headings: Sequence[str]
    text: str


@dataclass(frozen=True, eq=False)
class SegmentArrays:
    """The per-chunk data of a segment."""

    nos: Numbers
    items: Numbers
    lengths: NDArray[np.uint16]
    signs: NDArray[np.uint64]  # one row per 64 dimensions, one column per chunk


@dataclass(frozen=True)
class Segment:
    """A segment before it is stored."""

    arrays: SegmentArrays
    languages: frozenset[str]
    index: InvertedIndex
    chunks_by_language: Mapping[str, int] = field(default_factory=dict[str, int])
    lexer_version: int = LEXER_VERSION

    def with_numbers(self, nos: Sequence[int]) -> Self:
        """The same segment with these chunk numbers."""
        return replace(self, arrays=replace(self.arrays, nos=np.array(nos, np.int64)))

    @property
    def tokens(self) -> int:
        """The sum of the chunks' lengths."""
        return int(self.arrays.lengths.sum(dtype=np.int64))


def build(chunks: Sequence[ChunkText], signs: NDArray[np.uint64]) -> Segment:
    """Build the segment of these chunks, in this order. `signs` has one column per chunk."""
    counter = TermCounter()
    languages: set[str] = set()
    chunks_by_language: Counter[str] = Counter()
    for chunk in chunks:
        chunk_words = split_words(chunk.text)
        language = detect_language(chunk.text, chunk_words)
        languages.add(language)
        chunks_by_language[name_language(chunk.text, language)] += 1
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
    index = inverted_index.build_index(counter.lexemes, tokens, lengths)
    return Segment(arrays, frozenset(languages), index, chunks_by_language)


def item_key(item_id: UUID) -> int:
    """An eight-byte key of an item: the random half of its UUIDv7. A collision of two items does no harm: hits are always
    checked against the table."""
    return int.from_bytes(item_id.bytes[8:], "big", signed=True)


def item_keys(ids: bytes) -> Numbers:
    """The keys of items by their ids, of 16 bytes each."""
    return np.frombuffer(ids, ">i8")[1::2].astype(np.int64)


def pack_signs(vectors: Iterable[NDArray[np.float32]]) -> NDArray[np.uint64]:
    """The sign bits of vectors, packed into 64-bit words; one column per vector, so that a scan goes word by word."""
    stacked = list(vectors)
    if not stacked:
        return np.empty((0, 0), np.uint64)
    packed = np.packbits(np.stack(stacked) > 0, axis=1)
    packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    return np.ascontiguousarray(packed.view(np.uint64).T)


# ── stored format ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class StoredArrays:
    """The arrays as columns of the table `segment`."""

    nos: bytes
    items: bytes
    lengths: bytes
    signs: bytes


def encode_arrays(arrays: SegmentArrays) -> StoredArrays:
    """Encode the arrays for the table."""
    return StoredArrays(
        arrays.nos.astype(">i8").tobytes(),
        arrays.items.astype(">i8").tobytes(),
        arrays.lengths.astype(">u2").tobytes(),
        arrays.signs.tobytes(),
    )


def decode_arrays(nos: bytes, items: bytes, lengths: bytes, sign_bytes: bytes) -> SegmentArrays:
    """Decode the arrays from the table; lengths and sign bits are empty for a segment that has not been lexed yet."""
    numbers = np.frombuffer(nos, ">i8").astype(np.int64)
    sign_words = np.frombuffer(sign_bytes, np.uint64)
    return SegmentArrays(
        numbers,
        np.frombuffer(items, ">i8").astype(np.int64),
        np.frombuffer(lengths, ">u2").astype(np.uint16),
        sign_words.reshape(-1, len(numbers)) if len(sign_words) else np.empty((0, len(numbers)), np.uint64),
    )
