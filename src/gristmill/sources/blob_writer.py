"""blob writer: writes bytes into the blob store, under a temporary name until all of them are there.

In a folder, this module writes the files itself. obstore's LocalStore renames, but never syncs (0.12, by strace): after
a power cut, a blob could be gone while the row that names it is not. Here the file is synced before it gets its name,
and the name before `commit` returns. In an object store, what fits into one part is one request; more is a multipart
upload and a move.
"""

import contextlib
import os
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore

from gristmill import faults
from gristmill.sources import threads

TEMPORARY_FOLDER = "tmp"
# S3 takes at most 10,000 parts of at least 5 MiB: with this size, 80 GB. It moves at most 5 GB.
OBJECT_PART_BYTES = 8 * 2**20
_FILE_PART_BYTES = 2**20


class BlobWriter(Protocol):
    """Writes one blob, under a temporary name."""

    part_bytes: int

    async def write(self, data: bytes) -> None:
        """Append bytes."""
        ...

    async def commit(self, path: str) -> None:
        """Move the blob to `path`."""
        ...

    async def discard(self) -> None:
        """Remove what was written. Never raises: a later sweep removes what is left."""
        ...


class FileBlobWriter:
    """Writes into a folder: the file is synced before it gets its name, and the name before `commit` returns."""

    part_bytes = _FILE_PART_BYTES

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._temporary = folder / TEMPORARY_FOLDER / uuid4().hex
        self._file: int | None = None

    async def write(self, data: bytes) -> None:
        """Append to the temporary file."""
        await threads.run_blocking(lambda: self._write(data))

    async def commit(self, path: str) -> None:
        """Sync the file, rename it, sync its folder."""
        await threads.run_blocking(self._sync)
        await faults.point("blobs.before_move")
        await threads.run_blocking(lambda: self._move(self._folder / path))

    async def discard(self) -> None:
        """Remove the temporary file."""
        with contextlib.suppress(OSError):
            await threads.run_blocking(self._remove_file)

    def _open_file(self) -> int:
        if self._file is None:
            self._file = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        return self._file

    def _write(self, data: bytes) -> None:
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(self._open_file(), remaining) :]

    def _sync(self) -> None:
        os.fsync(self._open_file())
        self._close()

    def _move(self, target: Path) -> None:
        target.parent.mkdir(exist_ok=True)
        self._temporary.replace(target)
        sync_folder(target.parent)
        # Another process may have created `ab` and not synced it yet: sync the root each time.
        sync_folder(self._folder)

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)

    def _remove_file(self) -> None:
        self._close()
        self._temporary.unlink(missing_ok=True)


class _Upload(Protocol):
    async def write(self, buffer: bytes, /) -> int: ...

    async def close(self) -> None: ...


class ObjectBlobWriter:
    """Writes into an object store: one request for what fits into one part, else a multipart upload and a move."""

    part_bytes = OBJECT_PART_BYTES

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._temporary = f"{TEMPORARY_FOLDER}/{uuid4().hex}"
        self._first_part = b""
        self._upload: _Upload | None = None

    async def write(self, data: bytes) -> None:
        """Keep the first part in memory; start an upload with the second."""
        if not self._first_part:
            self._first_part = data
            return
        if self._upload is None:
            # Each part that is being sent is in memory.
            self._upload = obstore.open_writer_async(
                self._store, self._temporary, buffer_size=OBJECT_PART_BYTES, max_concurrency=2
            )
            await self._upload.write(self._first_part)
        await self._upload.write(data)

    async def commit(self, path: str) -> None:
        """Put the single part, or finish the upload and move the object."""
        if self._upload is None:
            await self._store.put_async(path, self._first_part, use_multipart=False)
            return
        await self._upload.close()
        await faults.point("blobs.before_move")
        await self._store.rename_async(self._temporary, path)

    async def discard(self) -> None:
        """Finish the upload, if there is one, and delete the object."""
        if self._upload is None:
            return
        # An abandoned upload leaves its parts in the bucket, invisible and billed; a finished one becomes an
        # object, which can be deleted.
        with contextlib.suppress(BaseError, OSError):
            await self._upload.close()
        with contextlib.suppress(BaseError, OSError):
            await self._store.delete_async(self._temporary)


def sync_folder(folder: Path) -> None:
    """Sync the names in `folder` to the disk."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
