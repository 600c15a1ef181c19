"""Bytes that somebody gives us: in the store first, in the table second, used by an item third.

    keep            the name that the bytes will have is announced → they get it → one transaction: it is a blob's,
                    or doomed, when equal bytes are kept already
    release         one transaction: the names of blobs that nothing uses are doomed
    empty_store     what is doomed leaves the store, then the table

A name is used once. So whoever removes what was doomed a moment ago can't hit equal bytes that came since, two who
remove the same do no harm, an upload never waits for a removal, and no transaction is open while the store works.

    killed …                              is left                       goes
    before the name is announced          a temporary                   at a start an hour later
    before it is a blob's                 an announced name             a day later, with whoever removes next
    before an item uses the blob          a blob                        at a start half an hour later
    after names are doomed                doomed names                  with whoever removes next, or at the next start
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from gristmill import catalog, faults
from gristmill.db import Database, aside
from gristmill.organisation import LOCAL, OrgId, own
from gristmill.sources.blobs import Blob, Blobs

_AT_ONCE = 100  # names that the store is asked to remove in one call
_PIECE = 1 << 20  # bytes
_STALE = timedelta(hours=1)  # since the last write to a temporary: whoever wrote it is gone


async def keep(
    db: Database,
    blobs: Blobs,
    read: Callable[[], AsyncIterable[bytes]],
    limit: int | None = None,
    org: OrgId = LOCAL,
) -> Blob:
    """Store what `read` gives, for `org`; it is asked for again if storing took so long that the bytes were given up."""

    async def announce(blob: Blob) -> None:
        async with db.connection() as tx:
            await catalog.announce_name(tx, blob.name)
        await faults.point("uploads.announced")

    with aside():  # an upload is not what was asked for: the item that uses it is
        while True:
            blob = await blobs.put(read(), limit, announce)
            await faults.point("uploads.stored")
            kept = own(org, blob.hash)
            async with db.transaction() as tx:
                name = await catalog.keep_blob(tx, kept, blob.size, blob.name)
            if name != blob.name:
                await _remove(db, blobs, [blob.name])
            if name is not None:
                return replace(blob, hash=kept, name=name)


async def keep_file(db: Database, blobs: Blobs, path: Path, org: OrgId = LOCAL) -> Blob:
    """Store a file of this machine; bytes that are kept already are used again, and not sent anew."""
    digest, size = await asyncio.to_thread(_hashed, path)
    async with db.connection() as tx:
        name = await catalog.touch_blob(tx, own(org, digest))
    if name is not None:
        return Blob(own(org, digest), size, name)
    return await keep(db, blobs, lambda: _pieces(path), org=org)


def _hashed(path: Path) -> tuple[bytes, int]:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest(), file.tell()


async def _pieces(path: Path) -> AsyncGenerator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


async def release(db: Database, blobs: Blobs, hashes: Sequence[bytes]) -> None:
    """Let go of blobs: those that nothing uses leave the store."""
    with aside():
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
    await blobs.sweep_temporaries(_STALE)


async def empty_store(db: Database, blobs: Blobs) -> None:
    """Take out of the store what is doomed, by whoever doomed it; when this returns, it is gone."""
    async with db.connection() as tx:
        await catalog.doom_due_names(tx)
    more = True
    while more:
        async with db.connection() as tx:
            names = await catalog.doomed_names(tx, _AT_ONCE)
        await faults.point("remove.names_found")
        await _remove(db, blobs, names)
        more = bool(names)


async def _remove(db: Database, blobs: Blobs, names: Sequence[str]) -> None:
    await blobs.delete(names)
    await faults.point("remove.bytes_gone")
    async with db.connection() as tx:
        await catalog.forget_names(tx, names)
