"""Uploads: bytes go into the store first, into the table `blob` second, and are used by an item third.

    store_upload         reserve a name → put the bytes under it → one transaction: the name becomes a blob's, or is marked for
                         deletion when a blob of equal bytes exists
    remove_unused        one transaction: delete blobs that nothing uses, and mark their names for deletion
    delete_marked        delete the marked names from the store, then from the table
    retry_lost_upload    all of it again, if equal bytes of a deleted document left the store before an item used them

A name is used once. So a deletion can't hit equal bytes that were uploaded since, two processes may delete the same name, an
upload never waits for a deletion, and no transaction is open while the store works.

    killed …                              leaves                        which is removed
    before the name is reserved           a temporary file              at a start an hour later
    before it becomes a blob's            a reserved name               a day later, by the next deletion
    before an item uses the blob          a blob                        at a start half an hour later
    after names are marked                marked names                  by the next deletion, or at the next start
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from gristmill import contents, faults
from gristmill.db import Database, without_commit_hook
from gristmill.errors import Transient
from gristmill.identity import LOCAL_ORG, OrgId, scoped_digest
from gristmill.sources.blobs import Blob, BlobStore

_BATCH_SIZE = 100  # names that one call deletes from the store
_PIECE = 1 << 20  # bytes
_ATTEMPTS = 5
_STALE_AFTER = timedelta(hours=1)  # since the last write to a temporary file: its writer has ended

Result = TypeVar("Result")


async def store_upload(
    db: Database,
    blobs: BlobStore,
    read: Callable[[], AsyncIterable[bytes]],
    limit: int | None = None,
    org: OrgId = LOCAL_ORG,
) -> Blob:
    """Store the bytes of `read` for `org`; it is called again if storing took so long that the reserved name expired."""

    async def reserve_name(blob: Blob) -> None:
        async with db.connection() as tx:
            await contents.reserve_blob_name(tx, blob.name)
        await faults.point("uploads.announced")

    with without_commit_hook():  # the request is done when its item is added, not when its bytes are stored
        while True:
            blob = await blobs.put(read(), limit, reserve_name)
            await faults.point("uploads.stored")
            scoped_hash = scoped_digest(org, blob.hash)
            async with db.transaction() as tx:
                name = await contents.register_blob(tx, scoped_hash, blob.size, blob.name)
            if name != blob.name:
                await _remove(db, blobs, [blob.name])
            if name is not None:
                return replace(blob, hash=scoped_hash, name=name)


async def retry_lost_upload(attempt: Callable[[], Awaitable[Result]]) -> Result:
    """Run an attempt that stores bytes and files what uses them, again if it lost the bytes to a deletion (`upload_lost`). Its next
    upload gets a name of its own, so that only another deletion of equal bytes, in the same instant, can take it too."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return await attempt()
        except Transient as error:
            if error.code != "upload_lost":
                raise
    return await attempt()


async def store_file(db: Database, blobs: BlobStore, path: Path, org: OrgId = LOCAL_ORG) -> Blob:
    """Store a local file; if a blob of equal bytes exists, that is used instead."""
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
    """Delete those of the blobs that nothing uses, from the tables and from the store."""
    with without_commit_hook():
        async with db.transaction() as tx:
            removed = await contents.remove_unused_blobs(tx, hashes)
    if removed:
        await delete_marked(db, blobs)


async def collect_garbage(db: Database, blobs: BlobStore) -> None:
    """Delete everything that was stored a while ago and is not used, and finish interrupted deletions."""
    async with db.connection() as tx:
        unused = await contents.find_unused_blobs(tx)
    await remove_unused(db, blobs, unused)
    await delete_marked(db, blobs)
    await blobs.sweep_temporaries(_STALE_AFTER)


async def delete_marked(db: Database, blobs: BlobStore) -> None:
    """Delete from the store every name that is marked for deletion, by any process; when this returns, they are deleted."""
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
    """Delete the bytes of these names, then the names. The lock is one that only back-ups wait for."""
    async with db.connection() as tx:
        await contents.lock_byte_removal_shared(tx)
        try:
            await blobs.delete(names)
        finally:
            await contents.unlock_byte_removal_shared(tx)
        await faults.point("remove.bytes_gone")
        await contents.drop_deleting_names(tx, names)
