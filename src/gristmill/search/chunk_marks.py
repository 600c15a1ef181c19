"""Marks of chunks: disabled ones never answer, pinned ones come first where they fit a query.

A mark belongs to the text of an item, by its hash: it survives a reindex, another embedder and a move to another base as long as
the chunk's text is the same, and two chunks of an item with equal text share it. Every statement that lets chunks through reads
the marks, so that a change counts from the next search on.
"""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from gristmill.db import Tx
from gristmill.search.literals import number_array
from gristmill.search.store import ChunkRow, queries

ChunkMark = Literal["disabled", "pinned"]


async def set_mark(
    tx: Tx, set_id: UUID, item_id: UUID, chunk_id: UUID, mark: ChunkMark | None
) -> ChunkRow | None:
    """Mark a chunk of an item's live version, or with None remove its mark; None if there is no such chunk."""
    parameters = {"set": set_id, "item": item_id, "chunk": chunk_id}
    if mark is None:
        await queries.run(tx, "clear_chunk_mark", **parameters)
    else:
        await queries.run(tx, "set_chunk_mark", **parameters, mark=mark)
    return await queries.maybe(tx, ChunkRow, "find_chunk", **parameters)


async def insert_imported_marks(tx: Tx, marks: Sequence[tuple[UUID, UUID, str]]) -> None:
    """Insert marks of another installation: the item, the hash of the text, the mark."""
    items, hashes, words = zip(*marks, strict=True)
    await queries.run(
        tx, "insert_imported_marks", items=list[UUID](items), hashes=list[UUID](hashes), marks=list(words)
    )


async def find_pinned(tx: Tx, set_id: UUID, nos: Sequence[int]) -> set[int]:
    """The numbers of those of the chunks that are pinned."""
    return set(await queries.values(tx, "pinned_numbers", set=set_id, nos=number_array(nos)))


async def count_disabled(tx: Tx, set_id: UUID, item_id: UUID) -> int:
    """How many chunks of an item's live version are disabled."""
    return (await queries.values(tx, "count_disabled", set=set_id, item=item_id))[0]
