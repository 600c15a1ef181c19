"""Removes what the index contains of a set of chunks, in batches: of a base that is being deleted, or one that is not kept.

    drop_chunks     the next chunks, in the order of their numbers
    drop_segments   some segments, or some numbers of deleted chunks

The caller passes a fenced transaction for each batch. Nothing of such a set is searched or written, so
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


async def drop_chunks(tx: Tx, set_id: UUID, after: int) -> DroppedChunks:
    """Delete the next chunks of a set, those with numbers above `after`."""
    return await queries.one(
        tx, DroppedChunks, "drop_set_chunks", set=set_id, after=after, limit=CHUNKS_PER_BATCH
    )


async def drop_only_segments(tx: Tx, set_id: UUID) -> bool:
    """Delete some segments of a set whose base has another index now; False when none is left."""
    return bool(await queries.run(tx, "drop_set_segments", set=set_id, limit=SEGMENTS_PER_BATCH))


async def drop_segments(tx: Tx, set_id: UUID) -> bool:
    """Delete some segments of a set, or some numbers of deleted chunks; False when none is left."""
    return bool(
        await queries.run(tx, "drop_set_segments", set=set_id, limit=SEGMENTS_PER_BATCH)
        or await queries.run(tx, "drop_set_deleted_numbers", set=set_id, limit=_NUMBERS_PER_BATCH)
    )
