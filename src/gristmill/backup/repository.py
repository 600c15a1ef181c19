"""Where back-ups are kept: a folder, or a bucket of an object store.

pieces/ab/cdef…     up to 1 MiB of a file, compressed, named by the SHA-256 of the plain bytes: equal pieces of all
                    back-ups are stored once, which makes every back-up after the first incremental
backups/ID          one manifest each, written when all of its pieces are stored and, in a folder, on the disk
lock                who makes a back-up, renewed while it runs

killed before the manifest     pieces without a manifest: they are not trusted, and written again
killed while pruning           manifests go first, so that no manifest names a missing piece
two at once                    the second is refused, unless the lock was not renewed for ten minutes
a damaged piece                found by its hash when it is read: `backup_damaged`
"""

import asyncio
import hashlib
import json
import os
import re
import socket
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import obstore
import zstandard
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore

from gristmill.backup.manifest import Manifest, decode_manifest
from gristmill.errors import Conflict, Invalid, NotFound, SetupError
from gristmill.sources.store_errors import explain_store_error

PIECE_BYTES = 1 << 20
Value = TypeVar("Value")
Result = TypeVar("Result")
_AT_ONCE = 4
_LEVEL = 1
_SYNCS_AT_ONCE = 8
_LOCK = "lock"
_LOCK_RENEWAL = timedelta(minutes=1)
_LOCK_EXPIRY = timedelta(minutes=10)
_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
_MANIFEST = re.compile(r"backups/([0-9A-Za-z-]+)")


class BackupRepository:
    """The back-ups at one destination."""

    def __init__(self, store: ObjectStore, folder: Path | None) -> None:
        self._store = store
        self._folder = folder
        # Pieces that a complete back-up names and that are there with the size that it names.
        self._stored: dict[str, int] = {}
        self._new: list[str] = []

    @classmethod
    def open(cls, destination: str, *, create: bool) -> "BackupRepository":
        """Open the folder or address; `create` makes the folder if it does not exist."""
        if "://" in destination and not destination.startswith("file://"):
            if urlsplit(destination).scheme not in _SCHEMES:
                names = ", ".join(f"{name}://" for name in _SCHEMES)
                raise SetupError(
                    f"Back-ups are kept in a folder, or below an address that begins with one of {names}.",
                    code="bad_backup_destination",
                )
            try:
                return cls(obstore.store.from_url(destination), None)
            except (BaseError, ValueError) as error:
                raise _unusable(destination, error) from error
        folder = Path(destination.removeprefix("file://")).expanduser().absolute()
        if not create and not (folder / "backups").is_dir():
            raise NotFound(f"{folder} contains no back-ups.", code="no_backup")
        try:
            for path in (folder, folder / "backups"):
                path.mkdir(parents=True, exist_ok=True, mode=0o700)
            return cls(LocalStore(folder), folder)
        except (OSError, BaseError) as error:
            raise _unusable(destination, error) from error

    # ── manifests ────────────────────────────────────────────────────────────────────────────────────────

    async def list_ids(self) -> list[str]:
        """The ids of the back-ups, the oldest first."""
        names = [path async for path, _ in self._list("backups")]
        return sorted(match[1] for name in names if (match := _MANIFEST.fullmatch(name)))

    async def read_manifest(self, backup_id: str) -> Manifest:
        """A back-up by its id; `NotFound` when there is none, `Invalid` when it is damaged."""
        try:
            data = bytes(await (await self._store.get_async(f"backups/{backup_id}")).bytes_async())
        except FileNotFoundError as error:
            raise NotFound(
                f"There is no back-up {backup_id} here. `gristmill backup DESTINATION --list` shows them.",
                code="no_backup",
            ) from error
        except (OSError, BaseError) as error:
            raise _unusable("The destination of the back-ups", error) from error
        return await asyncio.to_thread(decode_manifest, data, backup_id)

    async def latest(self) -> Manifest | None:
        """The newest back-up that can be read."""
        for backup_id in reversed(await self.list_ids()):
            try:
                return await self.read_manifest(backup_id)
            except Invalid:
                continue
        return None

    async def write_manifest(self, manifest: Manifest) -> None:
        """Complete a back-up: from now on it exists."""
        await asyncio.to_thread(self._sync, [_piece_path(digest) for digest in self._new])
        name = f"backups/{manifest.id}"
        try:
            await self._store.put_async(name, await asyncio.to_thread(manifest.encode))
        except (OSError, BaseError) as error:
            raise _unusable("The destination of the back-ups", error) from error
        await asyncio.to_thread(self._sync, [name])

    async def prune(self, keep: int) -> list[str]:
        """Remove all but the newest `keep` back-ups, and the pieces that no other one needs; the removed ids."""
        ids = await self.list_ids()
        removed, remaining = ids[:-keep], ids[-keep:]
        for backup_id in removed:
            await self._store.delete_async(f"backups/{backup_id}")
        needed: set[str] = set()
        for backup_id in remaining:
            # A manifest that can't be read may need any piece: then none is removed.
            needed.update((await self.read_manifest(backup_id)).pieces)
        unused = [path async for path, _ in self._list("pieces") if _piece_hash(path) not in needed]
        for start in range(0, len(unused), 500):
            await self._store.delete_async(unused[start : start + 500])
        return removed

    # ── pieces ───────────────────────────────────────────────────────────────────────────────────────────

    async def load_stored_pieces(self) -> None:
        """Learn which pieces of complete back-ups are there, so that they are not written again."""
        trusted: dict[str, int] = {}
        for backup_id in await self.list_ids():
            try:
                trusted.update((await self.read_manifest(backup_id)).pieces)
            except Invalid:
                continue
        sizes = {_piece_hash(path): size async for path, size in self._list("pieces")}
        self._stored = {digest: size for digest, size in trusted.items() if sizes.get(digest) == size}

    def has(self, digests: Iterable[str]) -> bool:
        """Whether all of these pieces are stored."""
        return all(digest in self._stored for digest in digests)

    def piece_size(self, digest: str) -> int:
        """The size of a stored piece."""
        return self._stored[digest]

    def put_piece(self, data: bytes) -> tuple[str, int]:
        """Store a piece, if it is not stored yet; its hash, and how many bytes were written. Runs in a thread."""
        digest = hashlib.sha256(data).hexdigest()
        if digest in self._stored:
            return digest, 0
        compressed = zstandard.compress(data, _LEVEL)
        try:
            self._store.put(_piece_path(digest), compressed)
        except (OSError, BaseError) as error:
            raise _unusable("The destination of the back-ups", error) from error
        self._stored[digest] = len(compressed)
        self._new.append(digest)
        return digest, len(compressed)

    def read_piece(self, digest: str) -> bytes:
        """The bytes of a piece; `Invalid` when it is missing or damaged. Runs in a thread: reads, unpacks and verifies in one go."""
        try:
            data = _decompress(memoryview(self._store.get(_piece_path(digest)).bytes()))
        except (FileNotFoundError, zstandard.ZstdError):
            data = None
        except (OSError, BaseError) as error:
            raise _unusable("The destination of the back-ups", error) from error
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            raise Invalid(
                f"Piece {digest[:12]} of the back-up is missing or damaged. Choose another back-up, or repair the disk.",
                code="backup_damaged",
            )
        return data

    async def find_missing(self, manifest: Manifest) -> list[str]:
        """The pieces of a back-up that are missing, or have another size than they should."""
        sizes = {_piece_hash(path): size async for path, size in self._list("pieces")}
        return [digest for digest, size in manifest.pieces.items() if sizes.get(digest) != size]

    # ── one at a time ────────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def lock(self) -> AsyncGenerator[None]:
        """Be the only one that writes here; `Conflict` when another back-up runs."""
        await self._take_lock()
        renewal = asyncio.create_task(self._renew_lock())
        try:
            yield
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)
            await self._store.delete_async(_LOCK)

    async def _take_lock(self) -> None:
        for _ in range(2):
            try:
                await self._store.put_async(_LOCK, _lock_owner(), mode="create")
            except AlreadyExistsError:
                pass
            except (OSError, BaseError) as error:
                raise _unusable("The destination of the back-ups", error) from error
            else:
                return
            lock = await self._store.get_async(_LOCK)
            owner = bytes(await lock.bytes_async()).decode(errors="replace")
            if not _is_abandoned(owner, lock.meta["last_modified"]):
                raise Conflict(
                    f"Another back-up is running: {owner}. Wait for it to end.", code="backup_running"
                )
            await self._store.delete_async(_LOCK)
        raise Conflict("Another back-up has just begun. Wait for it to end.", code="backup_running")

    async def _renew_lock(self) -> None:
        while True:
            await asyncio.sleep(_LOCK_RENEWAL.total_seconds())
            await self._store.put_async(_LOCK, _lock_owner())

    # ── the store ────────────────────────────────────────────────────────────────────────────────────────

    def _sync(self, names: list[str]) -> None:
        """Wait until these files and their folders are on the disk; an object store needs no such wait."""
        if self._folder is None:
            return
        files = [self._folder / name for name in names]
        folders = {parent for file in files for parent in (file.parent, file.parent.parent)}
        with ThreadPoolExecutor(_SYNCS_AT_ONCE) as threads:
            list(threads.map(_sync_file, files))
            list(threads.map(_sync_file, folders))

    async def _list(self, prefix: str) -> AsyncGenerator[tuple[str, int]]:
        stream = self._store.list(prefix, chunk_size=1000)
        try:
            async for batch in stream:
                for entry in batch:
                    yield entry["path"], entry["size"]
        except (OSError, BaseError) as error:
            raise _unusable("The destination of the back-ups", error) from error


async def map_in_threads(values: Iterable[Value], work: Callable[[Value], Result]) -> AsyncGenerator[Result]:
    """What `work` returns for each value, in order; it runs in threads, for some values ahead."""
    tasks: list[asyncio.Task[Result]] = []
    try:
        for value in values:
            tasks.append(asyncio.create_task(asyncio.to_thread(work, value)))
            if len(tasks) >= _AT_ONCE:
                yield await tasks.pop(0)
        while tasks:
            yield await tasks.pop(0)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _piece_path(digest: str) -> str:
    return f"pieces/{digest[:2]}/{digest[2:]}"


def _piece_hash(path: str) -> str:
    return path.removeprefix("pieces/").replace("/", "")


def _decompress(compressed: memoryview) -> bytes:
    return zstandard.ZstdDecompressor().decompress(compressed, max_output_size=PIECE_BYTES)


def _lock_owner() -> bytes:
    return json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode()


def _is_abandoned(owner: str, renewed_at: datetime) -> bool:
    """Whether the process that took the lock has ended, as far as this machine can say."""
    try:
        row = json.loads(owner)
        if row["host"] == socket.gethostname():
            os.kill(row["pid"], 0)
    except ProcessLookupError:
        return True
    except (ValueError, KeyError, TypeError, PermissionError):
        pass
    return datetime.now(UTC) - renewed_at > _LOCK_EXPIRY


def _unusable(what: str, error: Exception) -> SetupError:
    return SetupError(f"{what} can't be used: {explain_store_error(error)}.", code="bad_backup_destination")
