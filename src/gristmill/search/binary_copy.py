"""Encodes chunks for PostgreSQL's binary COPY, without a detour over text for vectors and arrays."""

import functools
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

COLUMNS = 'set_id, item_id, version, index, no, text, text_hash, start, "end", page, headings, embedding'
HEADER = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
TRAILER = struct.pack(">h", -1)

_TEXT_OID = 25
_NULL = struct.pack(">i", -1)
# Each field is its length and its bytes. A row of `chunk` up to the length of its text, and from there to its page.
_CHUNK_HEAD = struct.Struct(">h i16s i16s ii ii iq i")
_CHUNK_MIDDLE = struct.Struct(">i16s ii ii")
_HEAD_FIELDS = 12


@dataclass(frozen=True)
class Chunk:
    """A piece of an item's canonical content, with its vector; offsets are in characters. `digest` is the hash of its text, if
    that is known."""

    index: int
    text: str
    start: int
    end: int
    headings: tuple[str, ...]
    embedding: NDArray[np.float32]
    page: int | None = None
    digest: bytes | None = None


def text_hash(text: str) -> bytes:
    """A hash of the text: equal texts have the same vector."""
    return hashlib.sha256(text.encode()).digest()[:16]


def encode_chunk(set_id: UUID, item_id: UUID, version: int, no: int, chunk: Chunk) -> bytes:
    """One row of the table `chunk`."""
    text = chunk.text.encode()
    vector = chunk.embedding.astype(">f2").tobytes()
    return b"".join(
        (
            _CHUNK_HEAD.pack(
                *(_HEAD_FIELDS, 16, set_id.bytes, 16, item_id.bytes, 4, version, 4, chunk.index, 8, no),
                len(text),
            ),
            text,
            _CHUNK_MIDDLE.pack(16, chunk.digest or text_hash(chunk.text), 4, chunk.start, 4, chunk.end),
            _NULL if chunk.page is None else struct.pack(">ii", 4, chunk.page),
            _headings_field(chunk.headings),
            struct.pack(">iHH", 4 + len(vector), len(chunk.embedding), 0),
            vector,
        )
    )


def decode_vector(data: bytes) -> NDArray[np.float32]:
    """Decode a vector in PostgreSQL's binary format."""
    return np.frombuffer(data, ">f2", offset=4).astype(np.float32)


@functools.lru_cache(maxsize=1024)
def _headings_field(headings: tuple[str, ...]) -> bytes:
    """The field of an array of texts. Chunks below the same headings have it in common."""
    array = _text_array(headings)
    return struct.pack(">i", len(array)) + array


def _text_array(values: Sequence[str]) -> bytes:
    if not values:
        return struct.pack(">iii", 0, 0, _TEXT_OID)
    head = struct.pack(">iiiii", 1, 0, _TEXT_OID, len(values), 1)
    return head + b"".join(
        struct.pack(">i", len(encoded)) + encoded for encoded in (value.encode() for value in values)
    )
