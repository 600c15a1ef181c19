"""Index chunks again that are written already, with other words around them: for a title that has changed.

A segment never changes, so its chunks get new numbers and a new segment, and the old numbers count as deleted: one transaction.
Texts, vectors and ids of the chunks stay as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.catalog import Base, ItemId
from gristmill.db import Tx
from gristmill.search import segment
from gristmill.search.index import tasks
from gristmill.search.index.tasks import NumberedVersion
from gristmill.search.segment import ChunkText, Segment
from gristmill.search.store import Vector, insert_segment, queries


@dataclass(frozen=True)
class IndexedChunks:
    """Some chunks of a version, and the index of the last one."""

    texts: list[ChunkText]
    vectors: list[Vector]
    last_index: int

    @property
    def segment_input(self) -> tuple[list[ChunkText], NDArray[np.uint64]]:
        """The arguments of `segment.build`."""
        return self.texts, segment.pack_signs(self.vectors)


async def read_chunks_after(
    tx: Tx, set_id: UUID, item_id: ItemId, version: int, after: int, limit: int
) -> IndexedChunks | None:
    """The next chunks of a version after an index, with the item's title of now; None if there are no more."""
    async with tx.cursor() as cursor:
        parameters = {"set": set_id, "item": item_id, "version": version, "after": after, "limit": limit}
        await cursor.execute(queries["read_chunks_after"], parameters)
        rows = await cursor.fetchall()
    if not rows:
        return None
    vectors = [np.array(row[5].strip("[]").split(","), np.float32) for row in rows]
    return IndexedChunks([ChunkText(*row[:5]) for row in rows], vectors, rows[-1][6])


async def index_again(
    tx: Tx, base: Base, set_id: UUID, version: tuple[ItemId, int], chunks: IndexedChunks, new: Segment
) -> None:
    """Give chunks new numbers, and the segment that was built of them. The caller has locked their item."""
    nos: list[int] = await queries.values(tx, "next_chunk_numbers", count=len(chunks.texts))
    old = [chunk.no for chunk in chunks.texts]
    await queries.run(tx, "renumber_chunks", set=set_id, old=old, new=nos)
    is_answering = set_id == base.chunk_set
    if not is_answering or base.has_segments:
        await insert_segment(tx, set_id, new.with_numbers(nos))
    if is_answering and base.is_in_engine:
        await tasks.open_puts(tx, base.id, [NumberedVersion(version[0], version[1], nos)])


async def items_with_chunks(tx: Tx, set_id: UUID, ids: Sequence[ItemId]) -> list[ItemId]:
    """Those of the items whose live version has chunks in a set."""
    return await queries.values(tx, "items_with_chunks", set=set_id, ids=list(ids))


async def drop_from_other_base(tx: Tx, base_id: UUID, ids: Sequence[ItemId]) -> int:
    """Delete the chunks of these items from the sets of a base that they do not belong to; how many there were."""
    return await queries.run(tx, "drop_items_of_sets", base=base_id, ids=list(ids))
