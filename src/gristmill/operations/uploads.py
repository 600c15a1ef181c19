"""Bytes that somebody gives us: in the store first, in the table second, used by an item third.

Killed after the store: a file that the table does not know, harmless but for its room. Killed after the table: a blob
that no item uses, which `collect` removes at a later start. Never the other way round.
"""

from collections.abc import AsyncIterable, Callable, Sequence
from datetime import timedelta

from gristmill import catalog, clock, faults
from gristmill.db import Database
from gristmill.sources.blobs import Blob, Blobs

_WAIT = timedelta(milliseconds=50)
_AT_ONCE = 100  # blobs whose rows are locked while the store removes them


async def keep(
    db: Database, blobs: Blobs, read: Callable[[], AsyncIterable[bytes]], limit: int | None = None
) -> Blob:
    """Store what `read` gives; it may be asked for twice, when equal bytes are being removed at this moment."""
    while True:
        blob = await blobs.put(read(), limit)
        async with db.connection() as tx:
            await catalog.keep_blob(tx, blob.hash, blob.size)
        # Equal bytes may have left the store between the two: from the row on they stay.
        if await blobs.exists(blob.hash):
            return blob
        await clock.pause(_WAIT)


async def release(db: Database, blobs: Blobs, hashes: Sequence[bytes]) -> None:
    """Let go of blobs: those that no item uses leave the store."""
    async with db.transaction() as tx:
        doomed = await catalog.doom_blobs(tx, hashes)
    if doomed:
        await empty_store(db, blobs)


async def collect(db: Database, blobs: Blobs) -> None:
    """Let go of all that was stored long ago and that nothing came to use, and finish what was cut off."""
    async with db.connection() as tx:
        unused = await catalog.unused_blobs(tx)
    await release(db, blobs, unused)
    await empty_store(db, blobs)


async def empty_store(db: Database, blobs: Blobs) -> None:
    """Take out of the store what is marked for it, by whoever marked it."""
    more = True
    while more:
        # The one transaction that stays open while the store works: its locks keep everybody from storing the
        # same bytes, and another removal from taking them away once they are stored anew.
        async with db.transaction() as tx:
            hashes = await catalog.removing_blobs(tx, _AT_ONCE)
            await faults.point("remove.blobs_locked")
            await blobs.delete(hashes)
            await catalog.forget_blobs(tx, hashes)
        more = bool(hashes)
