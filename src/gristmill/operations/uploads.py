"""Bytes that somebody gives us: in the store first, in the table second, used by an item third.

Killed after the store: a blob that the table does not know, which a sweep of the store removes. Killed after the
table: a blob that no item uses, which the collection removes. Never the other way round.
"""

from collections.abc import AsyncIterable, Callable
from datetime import timedelta

from gristmill import catalog, clock
from gristmill.db import Database
from gristmill.sources.blobs import Blob, Blobs

_WAIT = timedelta(milliseconds=50)


async def keep(
    db: Database, blobs: Blobs, read: Callable[[], AsyncIterable[bytes]], limit: int | None = None
) -> Blob:
    """Store what `read` gives; it may be asked for twice, when equal bytes are being removed at this moment."""
    while True:
        blob = await blobs.put(read(), limit)
        async with db.connection() as tx:
            kept = await catalog.keep_blob(tx, blob.hash, blob.size)
        # Equal bytes may have left the store between the two: from the row on they stay.
        if kept and await blobs.exists(blob.hash):
            return blob
        await clock.pause(_WAIT)
