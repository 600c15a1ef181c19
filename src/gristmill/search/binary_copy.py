"""Encodes chunks for PostgreSQL's binary COPY, without a detour over text for vectors and arrays."""

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


@dataclass(frozen=True)
class Chunk:
    """A piece of an item's canonical content, with its vector; offsets are in characters."""

    index: int
    text: str
    start: int
    end: int
    headings: tuple[str, ...]
    embedding: NDArray[np.float32]
    page: int | None = None


def text_hash(text: str) -> bytes:
    """A hash of the text: equal texts have the same vector."""
    return hashlib.sha256(text.encode()).digest()[:16]


def encode_chunk(set_id: UUID, item_id: UUID, version: int, no: int, chunk: Chunk) -> bytes:
    """One row of the table `chunk`."""
    return encode_row(
        set_id.bytes,
        item_id.bytes,
        struct.pack(">i", version),
        struct.pack(">i", chunk.index),
        struct.pack(">q", no),
        chunk.text.encode(),
        text_hash(chunk.text),
        struct.pack(">i", chunk.start),
        struct.pack(">i", chunk.end),
        None if chunk.page is None else struct.pack(">i", chunk.page),
        _text_array(chunk.headings),
        _halfvec(chunk.embedding),
    )


def encode_row(*fields: bytes | None) -> bytes:
    """One row with these encoded fields."""
    return struct.pack(">h", len(fields)) + b"".join(
        _NULL if field is None else struct.pack(">i", len(field)) + field for field in fields
    )


def decode_vector(data: bytes) -> NDArray[np.float32]:
    """Decode a vector in PostgreSQL's binary format."""
    return np.frombuffer(data, ">f2", offset=4).astype(np.float32)


def _halfvec(vector: NDArray[np.float32]) -> bytes:
    return struct.pack(">HH", len(vector), 0) + vector.astype(">f2").tobytes()


def _text_array(values: Sequence[str]) -> bytes:
    if not values:
        return struct.pack(">iii", 0, 0, _TEXT_OID)
    head = struct.pack(">iiiii", 1, 0, _TEXT_OID, len(values), 1)
    return head + b"".join(
        struct.pack(">i", len(encoded)) + encoded for encoded in (value.encode() for value in values)
    )
