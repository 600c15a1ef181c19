"""Removes what the index contains of a base that is being deleted, in batches.

    drop_chunks     the next chunks, in the order of their numbers
    drop_segments   some segments, or some numbers of deleted chunks

The caller passes a fenced transaction for each batch. While a base is being deleted nothing of it is searched or written, so
the order does not matter; killed anywhere, the next attempt finds what is left.
"""

from dataclasses import dataclass
from uuid import UUID

from gristmill.db import Tx
from gristmill.search.store import queries

CHUNKS_PER_BATCH = 500  # some 2 MB, deleted in a few milliseconds
SEGMENTS_PER_BATCH = 4  # up to some 10 MB
_NUMBERS_PER_BATCH = 10_000


@dataclass(frozen=True)
class DroppedChunks:
    """How many chunks a batch deleted, and the number of the last one; None when none was left."""

    chunks: int
    last: int | None


async def drop_chunks(tx: Tx, base_id: UUID, after: int) -> DroppedChunks:
    """Delete the next chunks of a base, those with numbers above `after`."""
    return await queries.one(
        tx, DroppedChunks, "drop_base_chunks", base=base_id, after=after, limit=CHUNKS_PER_BATCH
    )


async def drop_only_segments(tx: Tx, base_id: UUID) -> bool:
    """Delete some segments of a base that has another index now; False when none is left."""
    return bool(await queries.run(tx, "drop_base_segments", base=base_id, limit=SEGMENTS_PER_BATCH))


async def drop_segments(tx: Tx, base_id: UUID) -> bool:
    """Delete some segments of a base, or some numbers of deleted chunks; False when none is left."""
    return bool(
        await queries.run(tx, "drop_base_segments", base=base_id, limit=SEGMENTS_PER_BATCH)
        or await queries.run(tx, "drop_base_deleted_numbers", base=base_id, limit=_NUMBERS_PER_BATCH)
    )
