"""blobs: bytes by name, in a folder or in an object store.

    put         writes the bytes under a temporary name and hashes them on the way; one move then gives them their
                final name, their SHA-256 and a random token: `ab/cdef….token`
    put again   the same bytes get another name: nothing in the store is ever overwritten
    killed      before the move, a temporary is left, which `sweep_temporaries` removes; after it, the blob is complete
    read        by ranges: a slow reader holds no connection open, and at most one part is in memory

    missing                          SourceGone blob_gone
    longer than the limit            Permanent  document_too_large
    the disk is full                 Transient  disk_full
    the store fails in another way   Transient  blob_store_unavailable
    an unusable address              SetupError bad_blob_store

In a folder, `put` returns when the file and its name are on the disk (`blob_writer.py`). Errors of the caller's own
stream pass through unchanged.

`put` calls `before_commit` with the final name before the bytes have it, so that the caller can record the name first:
then the store never contains a blob that the database doesn't know. The caller's table decides which of several equal
blobs stay.
"""

import contextlib
import errno
import hashlib
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Sequence,
)
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore, ObjectStore

from gristmill import faults
from gristmill.errors import Permanent, SetupError, SourceGone, Transient
from gristmill.sources import threads
from gristmill.sources.blob_writer import (
    OBJECT_PART_BYTES,
    TEMPORARY_FOLDER,
    BlobWriter,
    FileBlobWriter,
    ObjectBlobWriter,
    sync_folder,
)
from gristmill.sources.store_errors import explain_store_error

# The object stores that can list their objects, which garbage collection needs; others of obstore can't.
SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "file", "memory")

_LIST_PAGE_SIZE = 1000
# Old blobs have no token in their name.
_NAME = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{32})?")
# Jobs have their own retries; obstore's default of three minutes is many times longer than a lease.
_STORE_RETRIES = 3
_STORE_TIMEOUT = timedelta(seconds=20)


@dataclass(frozen=True)
class Blob:
    """Some bytes in the store, and their SHA-256."""

    hash: bytes
    size: int
    name: str


class BlobStore:
    """The blob store of one installation; tasks and machines may share it."""

    def __init__(self, store: ObjectStore, folder: Path | None) -> None:
        self._store = store
        self._folder = folder

    @classmethod
    def open(cls, url: str | None, data_dir: Path) -> "BlobStore":
        """Open the store at `url`, or the folder `blobs` of the data dir. Credentials come from the environment."""
        if url is None:
            return cls._open_folder(data_dir / "blobs")
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            message = f"The address of the blob store must begin with one of {', '.join(f'{name}://' for name in SCHEMES)}."
            raise SetupError(message, code="bad_blob_store")
        if parts.scheme == "memory":
            return cls(MemoryStore(), None)
        if parts.scheme == "file":
            if parts.netloc or not parts.path.startswith("/"):
                raise SetupError(
                    "The address of a blob folder has the form file:///path/to/folder.", code="bad_blob_store"
                )
            return cls._open_folder(Path(unquote(parts.path)))
        return cls(_bucket(url), None)

    @classmethod
    def _open_folder(cls, folder: Path) -> "BlobStore":
        try:
            (folder / TEMPORARY_FOLDER).mkdir(parents=True, exist_ok=True)
            sync_folder(folder.parent)
            return cls(LocalStore(folder), folder)
        except (OSError, BaseError) as error:
            message = f"The blob folder {folder} can't be used: {explain_store_error(error)}."
            raise SetupError(message, code="bad_blob_store") from error

    async def put(
        self,
        chunks: AsyncIterable[bytes],
        limit: int | None = None,
        before_commit: Callable[[Blob], Awaitable[None]] | None = None,
    ) -> Blob:
        """Store the bytes of `chunks`, at most `limit` of them. `before_commit` is called when all bytes are written,
        before the move to their final name."""
        hashed, size = hashlib.sha256(), 0
        writer: BlobWriter = FileBlobWriter(self._folder) if self._folder else ObjectBlobWriter(self._store)
        try:
            async with contextlib.aclosing(_join_chunks(chunks, writer.part_bytes)) as parts:
                async for part in parts:
                    size += len(part)
                    if limit is not None and size > limit:
                        message = f"The document is larger than the limit of {limit:,} bytes."
                        raise Permanent(message, code="document_too_large")
                    await threads.run_blocking(partial(hashed.update, part))
                    with _translate_errors():
                        await writer.write(part)
                    await faults.point("blobs.part_written")
            blob = Blob(hashed.digest(), size, f"{hashed.hexdigest()}.{uuid4().hex}")
            if before_commit is not None:
                await before_commit(blob)
            with _translate_errors():
                await writer.commit(_path(blob.name))
        except BaseException:
            await writer.discard()
            raise
        return blob

    async def restore(self, name: str, chunks: AsyncIterable[bytes]) -> None:
        """Store bytes under the name that they had when they were backed up."""
        writer: BlobWriter = FileBlobWriter(self._folder) if self._folder else ObjectBlobWriter(self._store)
        try:
            async with contextlib.aclosing(_join_chunks(chunks, writer.part_bytes)) as parts:
                async for part in parts:
                    with _translate_errors():
                        await writer.write(part)
            with _translate_errors():
                await writer.commit(_path(name))
        except BaseException:
            await writer.discard()
            raise

    async def read(self, name: str) -> AsyncGenerator[bytes]:
        """The bytes of a blob, part by part."""
        size = await self.size(name)
        part_size = FileBlobWriter.part_bytes if self._folder is not None else OBJECT_PART_BYTES
        for start in range(0, size, part_size):
            length = min(part_size, size - start)
            with _translate_errors(reading=name):
                part = await self._store.get_range_async(_path(name), start=start, length=length)
            yield bytes(part)

    def local_path(self, name: str) -> Path | None:
        """The path of the blob, if the store is a folder on this machine."""
        return None if self._folder is None else self._folder / _path(name)

    async def get(self, name: str, limit: int) -> bytes:
        """All bytes of a blob; refuses more than `limit`."""
        size = await self.size(name)
        if size > limit:
            message = f"The blob {name} has {size:,} bytes, more than the limit of {limit:,}."
            raise Permanent(message, code="document_too_large")
        return b"".join([part async for part in self.read(name)])

    async def size(self, name: str) -> int:
        """The size of a blob in bytes."""
        with _translate_errors(reading=name):
            return (await self._store.head_async(_path(name)))["size"]

    async def exists(self, name: str) -> bool:
        """Whether the store has the blob."""
        try:
            await self.size(name)
        except SourceGone:
            return False
        return True

    async def delete(self, names: Sequence[str]) -> int:
        """Delete blobs; returns how many existed. S3 doesn't report it: there, all names count."""
        with _translate_errors():
            if self._folder is not None:
                paths = [self._folder / _path(name) for name in names]
                return await threads.run_blocking(lambda: sum(map(_unlink, paths)))
            return await _delete_objects(self._store, [_path(name) for name in names])

    async def list(self, older_than: timedelta = timedelta(0)) -> AsyncGenerator[Blob]:
        """Every blob that was written longer ago than `older_than`, in no order."""
        async for path, size in self._list_objects(None, older_than):
            name = path.replace("/", "")
            if _NAME.fullmatch(name) and path == _path(name):  # else a temporary, or not our file
                yield Blob(bytes.fromhex(name[:64]), size, name)

    async def sweep_temporaries(self, older_than: timedelta) -> int:
        """Remove what killed puts left; `older_than` must be longer than any put takes."""
        paths = [path async for path, _ in self._list_objects(TEMPORARY_FOLDER, older_than)]
        with _translate_errors():
            if (folder := self._folder) is not None:
                return await threads.run_blocking(lambda: sum(_unlink(folder / path) for path in paths))
            return await _delete_objects(self._store, paths)

    async def _list_objects(
        self, prefix: str | None, older_than: timedelta
    ) -> AsyncIterator[tuple[str, int]]:
        # Compares the store's clock with this machine's: precise enough for garbage collection, which waits hours.
        before = datetime.now(UTC) - older_than
        stream = self._store.list(prefix, chunk_size=_LIST_PAGE_SIZE)
        while True:
            with _translate_errors():
                try:
                    batch = await anext(stream)
                except StopAsyncIteration:
                    return
            for entry in batch:
                if entry["last_modified"] <= before:
                    yield entry["path"], entry["size"]


def _bucket(url: str) -> ObjectStore:
    parts = urlsplit(url)
    has_user = parts.username and not parts.scheme.startswith("abfs")  # abfs://container@account
    if has_user or parts.password or parts.query:
        message = "The address of the blob store contains credentials or options. Set them in the environment instead."
        raise SetupError(message, code="bad_blob_store")
    try:
        return obstore.store.from_url(
            url, retry_config={"max_retries": _STORE_RETRIES, "retry_timeout": _STORE_TIMEOUT}
        )
    except (BaseError, ValueError) as error:
        raise SetupError(
            f"The blob store {url} can't be used: {explain_store_error(error)}.", code="bad_blob_store"
        ) from error


async def _delete_objects(store: ObjectStore, paths: Sequence[str]) -> int:
    if not paths:
        return 0
    try:
        await store.delete_async(paths)
    except FileNotFoundError:  # some stores report it, and it is unknown which of the others were deleted
        return sum([await _delete_object(store, path) for path in paths])
    return len(paths)


async def _delete_object(store: ObjectStore, path: str) -> bool:
    try:
        await store.delete_async(path)
    except FileNotFoundError:
        return False
    return True


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


async def _join_chunks(chunks: AsyncIterable[bytes], size: int) -> AsyncGenerator[bytes]:
    """The same bytes in parts of at least `size`, except the last: uploads arrive in small chunks."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        if len(buffer) >= size:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)


def _path(name: str) -> str:
    return f"{name[:2]}/{name[2:]}"


@contextlib.contextmanager
def _translate_errors(reading: str | None = None) -> Generator[None]:
    """Translate the errors of the store; while reading a blob, `reading` is its name."""
    try:
        yield
    except (OSError, BaseError) as error:
        if reading is not None and isinstance(error, FileNotFoundError):
            raise SourceGone(f"The blob {reading} is not in the store.", code="blob_gone") from error
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        code = "disk_full" if full else "blob_store_unavailable"
        raise Transient(f"The blob store failed: {explain_store_error(error)}.", code=code) from error
