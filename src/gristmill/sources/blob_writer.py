"""blob writer: bytes on their way into the blob store, under a temporary name until all of them are there.

A folder's bytes are written by hand. obstore's LocalStore renames, but never syncs (0.12, by strace): after a power
cut a blob could be gone while the row that names it is not. Here the file is on the disk before it has its name,
and its name is before `keep` returns. In an object store, what fits into one part is one request; more is an upload
in parts and a move.
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
# S3 takes no part below 5 MiB, and 10,000 of them: 80 GB. It moves no more than 5 GB.
OBJECT_PART_BYTES = 8 * 2**20
_FILE_PART_BYTES = 2**20


class BlobWriter(Protocol):
    """Bytes on their way in, under a temporary name."""

    part_bytes: int

    async def write(self, data: bytes) -> None:
        """Take the next bytes."""
        ...

    async def commit(self, path: str) -> None:
        """Move them to `path`, for good."""
        ...

    async def discard(self) -> None:
        """Remove what there is of them. Never raises: a sweep comes after."""
        ...


class FileBlobWriter:
    """Into a folder: on the disk before it has its name, and its name on the disk before `keep` returns."""

    part_bytes = _FILE_PART_BYTES

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._temporary = folder / TEMPORARY_FOLDER / uuid4().hex
        self._file: int | None = None

    async def write(self, data: bytes) -> None:
        """Append them to the temporary file."""
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
        # Whoever made `ab` may be another process that has not synced it yet: the root is synced each time.
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
    """Into an object store: one request when it fits into one part, else an upload and a move."""

    part_bytes = OBJECT_PART_BYTES

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._temporary = f"{TEMPORARY_FOLDER}/{uuid4().hex}"
        self._first_part = b""
        self._upload: _Upload | None = None

    async def write(self, data: bytes) -> None:
        """Hold the first part; begin an upload with the second."""
        if not self._first_part:
            self._first_part = data
            return
        if self._upload is None:
            # Each part under way is held in memory.
            self._upload = obstore.open_writer_async(
                self._store, self._temporary, buffer_size=OBJECT_PART_BYTES, max_concurrency=2
            )
            await self._upload.write(self._first_part)
        await self._upload.write(data)

    async def commit(self, path: str) -> None:
        """Put the one part, or end the upload and move what came of it."""
        if self._upload is None:
            await self._store.put_async(path, self._first_part, use_multipart=False)
            return
        await self._upload.close()
        await faults.point("blobs.before_move")
        await self._store.rename_async(self._temporary, path)

    async def discard(self) -> None:
        """End the upload, if there is one, and delete what came of it."""
        if self._upload is None:
            return
        # An upload that is abandoned keeps its parts in the bucket, unseen and paid for; one that is ended
        # becomes an object, which can be deleted.
        with contextlib.suppress(BaseError, OSError):
            await self._upload.close()
        with contextlib.suppress(BaseError, OSError):
            await self._store.delete_async(self._temporary)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` last."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
