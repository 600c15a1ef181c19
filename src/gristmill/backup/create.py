"""Makes a back-up of a running installation, consistent in itself.

    1  PostgreSQL begins a copy; its files are read as they are            database_files.py
    2  blobs are copied: nearly all of them, without holding anything up
    3  no bytes leave the blob store from here ...
         blobs that are new since 2 are copied
         PostgreSQL ends its copy: this is the moment that a restore brings back
         blobs that are new since then are copied
       ... to here, for a second or less: every blob that the database of that moment names was there, and was copied
    4  the WAL, then the manifest: now the back-up exists

Bytes enter the blob store before the row that names them, and leave it after that row. Killed at any point before 4, no
back-up was made, and the next one writes again what was not finished. A file with the size and time of the last back-up,
taken when it had not changed for a while, is not read again.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from gristmill import __version__, contents, faults
from gristmill.backup.database_files import DatabaseFiles, StopPoint
from gristmill.backup.manifest import Manifest, SavedBlob, SavedFile
from gristmill.backup.repository import PIECE_BYTES, BackupRepository
from gristmill.db import Database
from gristmill.errors import SourceGone
from gristmill.sources.blobs import BlobStore
from gristmill.vault import KEY_FILE, acquire_key_lock

_SETTLED_NS = 2_000_000_000
_AT_ONCE = 4
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class BackupSource:
    """What is backed up. `secret_key` is the file with the sealing key, if the installation has one."""

    db: Database
    database_url: str
    pgdata: Path
    blobs: BlobStore
    secret_key: Path


@dataclass(frozen=True)
class BackupResult:
    """A finished back-up: `written` is what it added to the destination, in bytes."""

    manifest: Manifest
    written: int
    took: timedelta
    pruned: list[str] = field(default_factory=list[str])


async def create_backup(
    source: BackupSource, repository: BackupRepository, *, keep: int | None, progress: Progress
) -> BackupResult:
    """Make a back-up; with `keep`, remove all but the newest so many afterwards. `progress` gets a step and its bytes."""
    started = time.monotonic()
    async with repository.lock():
        await repository.load_stored_pieces()
        writer = _BackupWriter(source, repository, await repository.latest(), progress)
        manifest = await writer.write()
        pruned = await repository.prune(keep) if keep is not None else []
    return BackupResult(manifest, writer.written, timedelta(seconds=time.monotonic() - started), pruned)


class _BackupWriter:
    """One back-up while it is written."""

    def __init__(
        self,
        source: BackupSource,
        repository: BackupRepository,
        previous: Manifest | None,
        progress: Progress,
    ) -> None:
        self._source = source
        self._repository = repository
        self._progress = progress
        self._previous_files = {file.path: file for file in previous.files} if previous else {}
        self._previous_blobs = {blob.name: blob for blob in previous.blobs} if previous else {}
        self._folders: tuple[str, ...] = ()
        self._files: list[SavedFile] = []
        self._blobs: dict[str, SavedBlob] = {}
        self.written = 0

    async def write(self) -> Manifest:
        copy = await DatabaseFiles.begin(self._source.database_url, self._source.pgdata)
        try:
            self._folders = tuple(copy.folders())
            await self._save_files(copy.files(), "database")
            await faults.point("backup.files_saved")
            await self._save_blobs(await self._blob_names())
            names, stop, secret_key = await self._stop(copy)
            await self._save_files(copy.wal_files(stop), "changes meanwhile")
        finally:
            await copy.close()
        manifest = await self._manifest(stop, names, secret_key)
        await faults.point("backup.before_manifest")
        await self._repository.write_manifest(manifest)
        return manifest

    async def _stop(self, copy: DatabaseFiles) -> tuple[set[str], StopPoint, SavedFile | None]:
        """End PostgreSQL's copy while no bytes leave the blob store; the names that its database may need, and its keys."""
        async with self._source.db.transaction() as tx:
            await contents.lock_byte_removal(tx)
            before = await contents.names_in_store(tx)
            await self._save_blobs(before)
            stop, secret_key = await self._finish_with_keys(copy)
            await faults.point("backup.stopped")
            after = await self._blob_names()
            await self._save_blobs(after)
        return {*before, *after}, stop, secret_key

    async def _finish_with_keys(self, copy: DatabaseFiles) -> tuple[StopPoint, SavedFile | None]:
        """End PostgreSQL's copy while no sealing key is added or dropped: the saved keys open what is in the copy."""
        lock = await asyncio.to_thread(acquire_key_lock, self._source.secret_key)
        try:
            stop = await copy.finish()
            return stop, await self._save_secret_key()
        finally:
            lock.close()

    async def _blob_names(self) -> list[str]:
        async with self._source.db.connection() as tx:
            return await contents.names_in_store(tx)

    async def _save_files(self, paths: Iterable[Path], step: str) -> None:
        for path in paths:
            try:
                await self._save_file(path, step)
            except FileNotFoundError:
                continue  # its table was dropped meanwhile

    async def _save_file(self, path: Path, step: str) -> None:
        location = self._source.pgdata / path
        info = location.stat()
        known = self._previous_files.get(str(path))
        if (
            known is not None
            and known.settled
            and (known.size, known.modified_ns) == (info.st_size, info.st_mtime_ns)
            and self._repository.has(known.pieces)
        ):
            self._files.append(known)
            self._progress(step, known.size)
            return
        settled = time.time_ns() - info.st_mtime_ns > _SETTLED_NS
        pieces, size = await self._save_pieces(_file_pieces(location), step)
        self._files.append(SavedFile(str(path), size, info.st_mtime_ns, settled, pieces))

    async def _save_blobs(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._blobs:
                continue
            known = self._previous_blobs.get(name)
            if known is not None and self._repository.has(known.pieces):
                self._blobs[name] = known  # the bytes of a name never change
                continue
            try:
                pieces, size = await self._save_pieces(_cut(self._source.blobs.read(name)), "files")
            except SourceGone:
                continue  # deleted meanwhile, or an upload that is not complete yet
            self._blobs[name] = SavedBlob(name, size, pieces)

    async def _save_secret_key(self) -> SavedFile | None:
        if not self._source.secret_key.exists():
            return None
        pieces, size = await self._save_pieces(_file_pieces(self._source.secret_key), "sealing key")
        return SavedFile(KEY_FILE, size, 0, False, pieces)

    async def _save_pieces(self, pieces: AsyncIterable[bytes], step: str) -> tuple[tuple[str, ...], int]:
        """Store the pieces of a file, some at once; their hashes and the size of them all."""
        digests: list[str] = []
        tasks: list[asyncio.Task[tuple[str, int]]] = []
        size = 0
        try:
            async for piece in pieces:
                size += len(piece)
                tasks.append(asyncio.create_task(asyncio.to_thread(self._repository.put_piece, piece)))
                if len(tasks) >= _AT_ONCE:
                    digests.append(await self._count_piece(tasks.pop(0)))
                self._progress(step, len(piece))
            while tasks:
                digests.append(await self._count_piece(tasks.pop(0)))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return tuple(digests), size

    async def _count_piece(self, task: asyncio.Task[tuple[str, int]]) -> str:
        digest, written = await task
        self.written += written
        return digest

    async def _manifest(self, stop: StopPoint, names: set[str], secret_key: SavedFile | None) -> Manifest:
        async with self._source.db.connection() as tx:
            cursor = await tx.execute(
                "select current_setting('server_version_num')::int / 10000, (select max(number) from schema_migration)"
            )
            row = await cursor.fetchone()
        assert row is not None
        blobs = tuple(blob for name, blob in self._blobs.items() if name in names)
        saved = [*self._files, *blobs, *([secret_key] if secret_key else [])]
        digests = {digest for part in saved for digest in part.pieces}
        return Manifest(
            id=f"{stop.created_at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}",
            created_at=stop.created_at,
            gristmill=__version__,
            postgres=row[0],
            schema=row[1],
            backup_label=stop.backup_label,
            start_wal=stop.start_wal,
            stop_wal=stop.stop_wal,
            folders=self._folders,
            secret_key=secret_key,
            files=tuple(self._files),
            blobs=blobs,
            pieces={digest: self._repository.piece_size(digest) for digest in digests},
        )


async def _file_pieces(path: Path) -> AsyncGenerator[bytes]:
    """The bytes of a file up to its end, in pieces of one size but for the last. What is appended meanwhile is in the WAL."""
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece
            if len(piece) < PIECE_BYTES:
                return


async def _cut(parts: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """The same bytes in pieces of one size."""
    buffer = bytearray()
    async for part in parts:
        buffer += part
        while len(buffer) >= PIECE_BYTES:
            yield bytes(buffer[:PIECE_BYTES])
            del buffer[:PIECE_BYTES]
    if buffer:
        yield bytes(buffer)
