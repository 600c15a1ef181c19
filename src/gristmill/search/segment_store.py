"""What searches read of segments: each column by itself, because the legs of a search need different ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np

from gristmill.db import Tx
from gristmill.search.inverted_index import Postings
from gristmill.search.store import queries

MAX_INLINE_POSTINGS_CHUNKS = 4096  # segments up to this size are read with all their postings: some 2 MB


@dataclass(frozen=True)
class ChunkArraysRow:
    """The numbers, items and lengths of a segment's chunks, as stored, and the size of their sign bits."""

    id: int
    nos: bytes
    items: bytes
    lengths: bytes
    sign_bytes: int


@dataclass(frozen=True)
class SignsRow:
    """The sign bits of a segment, as stored."""

    id: int
    chunks: int
    signs: bytes


@dataclass(frozen=True)
class IndexRow:
    """The terms of a segment, as stored; the postings only of a small segment, otherwise empty."""

    id: int
    terms: bytes
    ordinals: bytes
    counts: bytes


@dataclass(frozen=True)
class PostingRange:
    """A range of a segment's postings."""

    segment_id: int
    start: int
    end: int


async def read_chunk_arrays(tx: Tx, set_id: UUID, ids: Sequence[int]) -> list[ChunkArraysRow]:
    """The numbers, items and lengths of the chunks of segments."""
    rows = await _read_binary(tx, "read_chunk_arrays", set=set_id, ids=list(ids))
    return [ChunkArraysRow(*row) for row in rows]


async def read_segment_signs(tx: Tx, set_id: UUID, ids: Sequence[int]) -> list[SignsRow]:
    """The sign bits of segments."""
    rows = await _read_binary(tx, "read_segment_signs", set=set_id, ids=list(ids))
    return [SignsRow(*row) for row in rows]


async def read_segment_indexes(tx: Tx, set_id: UUID, ids: Sequence[int]) -> list[IndexRow]:
    """The terms of segments, and the postings of small ones."""
    rows = await _read_binary(
        tx, "read_segment_indexes", set=set_id, ids=list(ids), small=MAX_INLINE_POSTINGS_CHUNKS
    )
    return [IndexRow(*row) for row in rows]


async def _read_binary(tx: Tx, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
    async with tx.cursor(binary=True) as cursor:
        await cursor.execute(queries[name], parameters)
        return await cursor.fetchall()


async def read_postings(tx: Tx, set_id: UUID, ranges: Sequence[PostingRange]) -> list[Postings]:
    """The postings of these ranges, in this order; empty for a segment that has been replaced in the meantime."""
    async with tx.cursor(binary=True) as cursor:
        await cursor.execute(
            queries["read_postings"],
            {
                "set": set_id,
                "segments": [posting_range.segment_id for posting_range in ranges],
                "starts": [posting_range.start for posting_range in ranges],
                "sizes": [posting_range.end - posting_range.start for posting_range in ranges],
            },
        )
        return [
            Postings(np.frombuffer(ordinals or b"", "<u2"), np.frombuffer(counts or b"", np.uint8))
            for ordinals, counts in await cursor.fetchall()
        ]
