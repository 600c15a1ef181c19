"""The statements of compaction, in the caller's transaction; `store.py` has those of searching and writing."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import numpy as np

from gristmill.db import Tx
from gristmill.search.segment import ChunkText
from gristmill.search.store import Vector, queries


async def newest_segment(tx: Tx) -> int:
    """The highest id of a segment; 0 when there is none."""
    return (await queries.values(tx, "newest_segment"))[0] or 0


@dataclass(frozen=True)
class BaseWithNewSegments:
    """A base, and the newest of its segments."""

    base_id: UUID
    newest: int


async def bases_with_new_segments(tx: Tx, after: int) -> list[BaseWithNewSegments]:
    """Bases with segments that are newer than segment `after`."""
    return await queries.many(tx, BaseWithNewSegments, "bases_with_new_segments", after=after)


async def next_bases(tx: Tx, after: UUID, limit: int) -> list[UUID]:
    """Bases in the order of their ids."""
    return await queries.values(tx, "next_bases", after=after, limit=limit)


async def bases_to_compact(
    tx: Tx,
    bases: Sequence[UUID],
    *,
    small: int,
    min_small: int,
    lexer_version: int,
    min_deleted: int,
    max_age: timedelta,
) -> list[UUID]:
    """Those of the bases whose segments need compaction."""
    return await queries.values(
        tx,
        "bases_to_compact",
        bases=list(bases),
        small=small,
        min_small=min_small,
        lexer_version=lexer_version,
        min_deleted=min_deleted,
        max_age=max_age,
    )


async def sets_to_compact(tx: Tx, base_id: UUID) -> list[UUID]:
    """The sets of chunks of a base that searches read, or may read."""
    return await queries.values(tx, "sets_to_compact", base=base_id)


async def set_lexer_version(tx: Tx, set_id: UUID, lexer_version: int) -> None:
    """Note that the segments of a set were lexed by this version."""
    await queries.run(tx, "set_lexer_version", set=set_id, lexer_version=lexer_version)


async def list_deleted_numbers(tx: Tx, set_id: UUID) -> list[int]:
    """Numbers of deleted chunks that are still in segments."""
    return await queries.values(tx, "list_deleted_numbers", set=set_id)


async def has_overdue_deletions(tx: Tx, set_id: UUID, max_age: timedelta) -> bool:
    """Whether chunks that were deleted longer than `max_age` ago are still in segments."""
    return (await queries.values(tx, "has_overdue_deletions", set=set_id, max_age=max_age))[0]


async def forget_deleted(tx: Tx, set_id: UUID, nos: Sequence[int]) -> None:
    """Forget these deleted chunks: no segment contains them any more."""
    await queries.run(tx, "forget_deleted", set=set_id, nos=list(nos))


async def read_all_postings(
    tx: Tx, set_id: UUID, segment_ids: Sequence[int]
) -> dict[int, tuple[bytes, bytes]]:
    """All postings of segments, by segment id: ordinals and counts."""
    async with tx.cursor(binary=True) as cursor:
        await cursor.execute(queries["read_all_postings"], {"set": set_id, "ids": list(segment_ids)})
        return {row[0]: (row[1], row[2]) for row in await cursor.fetchall()}


async def read_chunks_to_lex(
    tx: Tx, set_id: UUID, nos: Sequence[int]
) -> tuple[list[ChunkText], list[Vector]]:
    """The texts and vectors of chunks."""
    async with tx.cursor() as cursor:
        await cursor.execute(queries["read_chunks_to_lex"], {"set": set_id, "nos": list(nos)})
        rows = await cursor.fetchall()
    return [ChunkText(*row[:5]) for row in rows], [
        np.array(row[5].strip("[]").split(","), np.float32) for row in rows
    ]


async def drop_segments(tx: Tx, set_id: UUID, segment_ids: Sequence[int]) -> int:
    """Delete segments; returns how many there were."""
    return len(await queries.values(tx, "drop_segments", set=set_id, segments=list(segment_ids)))
