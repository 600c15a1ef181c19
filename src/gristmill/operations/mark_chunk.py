"""mark a chunk: disable it, pin it, or neither. Nothing is indexed for it: the next search reads the mark."""

from uuid import UUID

from gristmill import events, faults, search
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database
from gristmill.errors import NotFound
from gristmill.events import ItemsChanged
from gristmill.operations import guards
from gristmill.search import ChunkMark, ChunkRow


async def mark_chunk(
    db: Database, base_id: BaseId, item_id: ItemId, chunk_id: UUID, mark: ChunkMark | None
) -> ChunkRow:
    """Mark a chunk of an item's live version, or remove its mark; the chunk as it is then."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        item = await guards.require_item(tx, item_id)
        chunk = await search.set_mark(tx, base.chunk_set, item.id, chunk_id, mark)
        if chunk is None:
            raise NotFound(
                f"The item has no chunk {chunk_id}. It may have been indexed again: list its chunks.",
                code="chunk_not_found",
            )
        await events.record(tx, ItemsChanged(base.id, (item.id,), ("chunks",)))
        await faults.point("mark_chunk.before_commit")
    return chunk
