"""Removal of items and contents with everything that only they use, in batches that each leave nothing dangling."""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill import catalog
from gristmill.catalog import ItemId
from gristmill.contents.blobs import remove_unused_blobs, remove_unused_blobs_nowait
from gristmill.contents.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class RemovalCounts:
    """What one batch removed; the names of `blobs` are marked for deletion from the store."""

    items: int
    contents: int
    blobs: int


async def remove_items(tx: Tx, ids: Sequence[ItemId]) -> RemovalCounts:
    """Remove items without children, with everything that only they use."""
    deleted = await catalog.delete_items(tx, ids)
    contents, blobs = await _delete_unused(tx, deleted.contents)
    return RemovalCounts(deleted.items, contents, await remove_unused_blobs(tx, [*deleted.blobs, *blobs]))


async def collect_contents(tx: Tx, hashes: Sequence[bytes]) -> int:
    """Delete those of the contents that no version uses, with what they hold; how many."""
    collected, blobs = await _delete_unused(tx, hashes)
    await remove_unused_blobs_nowait(tx, blobs)
    return collected


async def _delete_unused(tx: Tx, hashes: Sequence[bytes]) -> tuple[int, list[bytes]]:
    """How many contents were deleted, and the blobs that they held.

    Lock first, look second: a statement that began before the lock would not see who began to use one meanwhile.
    """
    locked = await queries.values(tx, "lock_contents", hashes=list(hashes)) if hashes else []
    if not locked:
        return 0, []
    blobs: list[bytes] = await queries.values(tx, "blobs_of_contents", hashes=locked)
    return await queries.run(tx, "delete_unused_contents", hashes=locked), blobs
