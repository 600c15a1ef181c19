"""Chunks as PostgreSQL's binary COPY takes them: no text in between, neither for vectors nor for words."""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.search.lexer import Token, lex

COLUMNS = 'base_id, item_id, version, index, text, text_hash, start, "end", headings, page, embedding, words'
HEADER = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
TRAILER = struct.pack(">h", -1)

_TEXT_OID = 25
_NULL = struct.pack(">i", -1)
_MOST_POSITIONS = 255  # of one lexeme in a tsvector
_LAST_POSITION = 16_383


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
    """What two equal texts share: their vectors are the same."""
    return hashlib.sha256(text.encode()).digest()[:16]


def encode(base_id: UUID, item_id: UUID, version: int, chunk: Chunk) -> bytes:
    """One row."""
    fields = (
        base_id.bytes,
        item_id.bytes,
        struct.pack(">i", version),
        struct.pack(">i", chunk.index),
        chunk.text.encode(),
        text_hash(chunk.text),
        struct.pack(">i", chunk.start),
        struct.pack(">i", chunk.end),
        _text_array(chunk.headings),
        None if chunk.page is None else struct.pack(">i", chunk.page),
        _halfvec(chunk.embedding),
        _tsvector(lex(" ".join((*chunk.headings, chunk.text)))),
    )
    return struct.pack(">h", len(fields)) + b"".join(
        _NULL if field is None else struct.pack(">i", len(field)) + field for field in fields
    )


def vector(sent: bytes) -> NDArray[np.float32]:
    """A vector as PostgreSQL sends it in binary."""
    return np.frombuffer(sent, ">f2", offset=4).astype(np.float32)


def _halfvec(vector: NDArray[np.float32]) -> bytes:
    return struct.pack(">HH", len(vector), 0) + vector.astype(">f2").tobytes()


def _text_array(values: Sequence[str]) -> bytes:
    if not values:
        return struct.pack(">iii", 0, 0, _TEXT_OID)
    head = struct.pack(">iiiii", 1, 0, _TEXT_OID, len(values), 1)
    return head + b"".join(struct.pack(">i", len(raw)) + raw for raw in (value.encode() for value in values))


def _tsvector(tokens: Iterable[Token]) -> bytes:
    places: dict[str, list[int]] = {}
    for token in tokens:
        positions = places.setdefault(token.lexeme, [])
        at = min(token.position, _LAST_POSITION)
        if len(positions) < _MOST_POSITIONS and (not positions or positions[-1] < at):
            positions.append(at)
    return struct.pack(">i", len(places)) + b"".join(
        lexeme.encode() + b"\0" + struct.pack(f">H{len(at)}H", len(at), *at)
        for lexeme, at in sorted(places.items())
    )
