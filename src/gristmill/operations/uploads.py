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

from gristmill import contents, faults
from gristmill.db import Database, without_commit_hook
from gristmill.identity import LOCAL_ORG, OrgId, scoped_digest
from gristmill.sources.blobs import Blob, BlobStore

_BATCH_SIZE = 100  # names that the store is asked to remove in one call
_PIECE = 1 << 20  # bytes
_STALE_AFTER = timedelta(hours=1)  # since the last write to a temporary: whoever wrote it is gone


async def store_upload(
    db: Database,
    blobs: BlobStore,
    read: Callable[[], AsyncIterable[bytes]],
    limit: int | None = None,
    org: OrgId = LOCAL_ORG,
) -> Blob:
    """Store what `read` gives, for `org`; it is asked for again if storing took so long that the bytes were given up."""

    async def announce(blob: Blob) -> None:
        async with db.connection() as tx:
            await contents.reserve_blob_name(tx, blob.name)
        await faults.point("uploads.announced")

    with without_commit_hook():  # an upload is not what was asked for: the item that uses it is
        while True:
            blob = await blobs.put(read(), limit, announce)
            await faults.point("uploads.stored")
            scoped_hash = scoped_digest(org, blob.hash)
            async with db.transaction() as tx:
                name = await contents.register_blob(tx, scoped_hash, blob.size, blob.name)
            if name != blob.name:
                await _remove(db, blobs, [blob.name])
            if name is not None:
                return replace(blob, hash=scoped_hash, name=name)


async def store_file(db: Database, blobs: BlobStore, path: Path, org: OrgId = LOCAL_ORG) -> Blob:
    """Store a file of this machine; bytes that are kept already are used again, and not sent anew."""
    digest, size = await asyncio.to_thread(_digest_and_size, path)
    async with db.connection() as tx:
        name = await contents.touch_blob(tx, scoped_digest(org, digest))
    if name is not None:
        return Blob(scoped_digest(org, digest), size, name)
    return await store_upload(db, blobs, lambda: _read_pieces(path), org=org)


def _digest_and_size(path: Path) -> tuple[bytes, int]:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest(), file.tell()


async def _read_pieces(path: Path) -> AsyncGenerator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


async def remove_unused(db: Database, blobs: BlobStore, hashes: Sequence[bytes]) -> None:
    """Let go of blobs: those that nothing uses leave the store."""
    with without_commit_hook():
        async with db.transaction() as tx:
            removed = await contents.remove_unused_blobs(tx, hashes)
    if removed:
        await delete_marked(db, blobs)


async def collect_garbage(db: Database, blobs: BlobStore) -> None:
    """Let go of all that was stored long ago and that nothing came to use, and finish what was cut off."""
    async with db.connection() as tx:
        unused = await contents.find_unused_blobs(tx)
    await remove_unused(db, blobs, unused)
    await delete_marked(db, blobs)
    await blobs.sweep_temporaries(_STALE_AFTER)


async def delete_marked(db: Database, blobs: BlobStore) -> None:
    """Take out of the store what is doomed, by whoever doomed it; when this returns, it is gone."""
    async with db.connection() as tx:
        await contents.mark_overdue_names(tx)
    has_more = True
    while has_more:
        async with db.connection() as tx:
            names = await contents.find_deleting_names(tx, _BATCH_SIZE)
        await faults.point("remove.names_found")
        await _remove(db, blobs, names)
        has_more = bool(names)


async def _remove(db: Database, blobs: BlobStore, names: Sequence[str]) -> None:
    await blobs.delete(names)
    await faults.point("remove.bytes_gone")
    async with db.connection() as tx:
        await contents.drop_deleting_names(tx, names)
