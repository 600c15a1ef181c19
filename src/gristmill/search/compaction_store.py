"""The tables of search as tidying and explaining see them, one function per question or change, in the caller's
transaction; `store.py` has what searching itself needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import numpy as np

from gristmill.db import Tx
from gristmill.search.scope import Scope
from gristmill.search.segment import ChunkText
from gristmill.search.store import Vector, queries, vector_literal

# ── tidying ──────────────────────────────────────────────────────────────────────────────────────────────


async def bases_to_compact(
    tx: Tx, *, small: int, min_small: int, lexer_version: int, min_deleted: int, max_age: timedelta
) -> list[UUID]:
    """Bases whose segments need tidying."""
    return await queries.values(
        tx,
        "untidy",
        small=small,
        many=min_small,
        recipe=lexer_version,
        few_gone=min_deleted,
        patience=max_age,
    )


async def deleted_numbers(tx: Tx, base_id: UUID) -> list[int]:
    """Numbers of chunks that are gone and still in segments."""
    return await queries.values(tx, "gone", base=base_id)


async def has_overdue_deletions(tx: Tx, base_id: UUID, max_age: timedelta) -> bool:
    """Whether some are so for longer than `patience`."""
    return (await queries.values(tx, "gone_for_long", base=base_id, patience=max_age))[0]


async def forget_deleted(tx: Tx, base_id: UUID, nos: Sequence[int]) -> None:
    """No segment holds these numbers any more."""
    await queries.run(tx, "forget_gone", base=base_id, nos=list(nos))


async def read_all_postings(
    tx: Tx, base_id: UUID, segment_ids: Sequence[int]
) -> dict[int, tuple[bytes, bytes]]:
    """All postings of segments, by their ids: places, counts."""
    async with tx.cursor(binary=True) as cursor:
        await cursor.execute(queries["segment_words"], {"base": base_id, "ids": list(segment_ids)})
        return {row[0]: (row[1], row[2]) for row in await cursor.fetchall()}


async def read_chunks_to_lex(
    tx: Tx, base_id: UUID, nos: Sequence[int]
) -> tuple[list[ChunkText], list[Vector]]:
    """Chunks by number, with their vectors."""
    async with tx.cursor() as cursor:
        await cursor.execute(queries["to_lex"], {"base": base_id, "nos": list(nos)})
        rows = await cursor.fetchall()
    return [ChunkText(*row[:5]) for row in rows], [
        np.array(row[5].strip("[]").split(","), np.float32) for row in rows
    ]


async def drop_segments(tx: Tx, base_id: UUID, segment_ids: Sequence[int]) -> int:
    """Remove segments; how many were there."""
    return len(await queries.values(tx, "drop_segments", base=base_id, segments=list(segment_ids)))


# ── explaining ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class NearestRank:
    """How near the nearest chunk of an item is, and its rank among all."""

    rank: int
    similarity: float


async def effective_acl(tx: Tx, item_id: UUID) -> list[str]:
    """Who may see an item."""
    values = await queries.values(tx, "effective_acl", item=item_id)
    return (values[0] if values else None) or []


async def chunk_numbers_of_item(tx: Tx, base_id: UUID, item_id: UUID) -> list[int]:
    """The numbers of the chunks that answer, of one item."""
    return await queries.values(tx, "nos_of_item", base=base_id, item=item_id)


async def is_in_scope(tx: Tx, base_id: UUID, item_id: UUID, scope: Scope) -> bool:
    """Whether an item is in a scope."""
    return (await queries.values(tx, "passes", base=base_id, item=item_id, **scope.parameters()))[0]


async def nearest_rank(tx: Tx, base_id: UUID, vector: Vector, nos: Sequence[int]) -> NearestRank | None:
    """How near the nearest of some chunks is."""
    return await queries.maybe(
        tx, NearestRank, "near", base=base_id, vector=vector_literal(vector), nos=list(nos)
    )
