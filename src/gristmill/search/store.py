"""The chunk table, one function per question or change, in the caller's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.db import Queries, Tx
from gristmill.search import rows
from gristmill.search.fuse import Found

queries = Queries(__package__ or "gristmill.search")


async def write(tx: Tx, encoded: Sequence[bytes]) -> None:
    """Append chunks, encoded by `rows`, to versions that do not answer yet."""
    async with (
        tx.cursor() as cursor,
        cursor.copy(f"copy chunk ({rows.COLUMNS}) from stdin (format binary)") as copy,
    ):
        await copy.write(rows.HEADER)
        for row in encoded:
            await copy.write(row)
        await copy.write(rows.TRAILER)


async def written(tx: Tx, base_id: UUID, item_id: UUID, version: int) -> set[int]:
    """Which chunks of a version are there."""
    return set(await queries.values(tx, "written", base=base_id, item=item_id, version=version))


async def vectors(tx: Tx, bases: Sequence[UUID], hashes: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
    """The vectors that these texts have in any of the bases, by the texts' hashes."""
    wanted = [UUID(bytes=digest) for digest in hashes]
    async with tx.cursor(binary=True) as cursor:
        await cursor.execute(queries["vectors"], {"bases": list(bases), "hashes": wanted})
        return {row[0].bytes: rows.vector(row[1]) for row in await cursor.fetchall()}


async def drop_unpublished(tx: Tx, base_id: UUID, item_id: UUID) -> None:
    """Remove what was written under versions that do not answer."""
    await queries.run(tx, "drop_unpublished", base=base_id, item=item_id)


async def drop_other_versions(tx: Tx, base_id: UUID, item_ids: Sequence[UUID]) -> None:
    """Remove every version of these items but the one that answers."""
    await queries.run(tx, "drop_other_versions", base=base_id, items=list(item_ids))


async def drop_version(tx: Tx, base_id: UUID, item_id: UUID, version: int) -> None:
    """Remove what was written of one version."""
    await queries.run(tx, "drop_version", base=base_id, item=item_id, version=version)


async def drop_items(tx: Tx, base_id: UUID, item_ids: Sequence[UUID]) -> int:
    """Remove every chunk of these items; how many there were."""
    return await queries.run(tx, "drop_items", base=base_id, items=list(item_ids))


async def nearest(tx: Tx, base_id: UUID, vector: NDArray[np.float32], limit: int) -> list[Found]:
    """The vector leg."""
    literal = "[" + ",".join(f"{value:.5g}" for value in vector.tolist()) + "]"
    return await queries.many(tx, Found, "nearest", base=base_id, vector=literal, limit=limit)


async def matching(tx: Tx, base_id: UUID, lexemes: Sequence[str], limit: int) -> list[Found]:
    """The text leg: any of the lexemes."""
    if not lexemes:
        return []
    words = " | ".join("'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'" for lexeme in lexemes)
    return await queries.many(tx, Found, "matching", base=base_id, words=words, limit=limit)


@dataclass(frozen=True)
class ChunkRow:
    """A chunk that answers, with what its item adds."""

    id: UUID
    item_id: UUID
    base_id: UUID
    version: int
    index: int
    text: str
    start: int
    end: int
    headings: list[str]
    title: str
    source: dict[str, Any]


async def chunks(tx: Tx, base_id: UUID, ids: Sequence[UUID]) -> dict[UUID, ChunkRow]:
    """The chunks of these ids that answer at this moment."""
    found = await queries.many(tx, ChunkRow, "chunks", base=base_id, ids=list(ids))
    return {row.id: row for row in found}


async def list_chunks(
    tx: Tx, base_id: UUID, item_id: UUID, *, limit: int, after: tuple[UUID, int] | None = None
) -> list[ChunkRow]:
    """The chunks that answer, of an item and all below it, in order."""
    after_item, after_index = after or (None, None)
    return await queries.many(
        tx,
        ChunkRow,
        "list_chunks",
        base=base_id,
        item=item_id,
        limit=limit,
        after_item=after_item,
        after_index=after_index,
    )
