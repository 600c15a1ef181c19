"""Makes a data dir from a back-up. Everything is prepared in `<data_dir>/.restoring`, itself laid out like a data dir:

    1  the back-up is checked: all pieces are there, and this release can use it
    2  files, blobs and sealing key are written to `.restoring`, every piece compared with its hash
    3  PostgreSQL is started there once, which completes the files from the WAL, and stopped
    4  blobs, sealing key and last PostgreSQL's data are moved into place

    damaged, incomplete, disk full    `.restoring` is removed; nothing else was touched
    killed before 4                   the data dir is as it was; the next restore begins again
    killed during 4                   there is no database yet, so that nothing starts on half of it; the next restore begins again

A data dir that has a database, blobs or a sealing key is never written over.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import psycopg

from gristmill import faults
from gristmill.backup.create import Progress
from gristmill.backup.manifest import Manifest
from gristmill.backup.repository import PIECE_BYTES, BackupRepository, map_in_threads
from gristmill.db import cluster, local_server, migrate, reaper
from gristmill.errors import Conflict, Invalid, SetupError
from gristmill.sources.blobs import BlobStore
from gristmill.vault import KEY_FILE

STAGING = ".restoring"
_FILES_AT_ONCE = 500
_STOP_PATIENCE = 120.0
_POLL = 0.05


@dataclass(frozen=True)
class RestoreResult:
    """A finished restore."""

    manifest: Manifest
    size: int
    took: timedelta


async def restore_backup(
    repository: BackupRepository, manifest: Manifest, data_dir: Path, blob_url: str | None, progress: Progress
) -> RestoreResult:
    """Restore a back-up into a data dir without a database. Blobs go to `blob_url`, or into the data dir."""
    started = time.monotonic()
    await _check(repository, manifest, data_dir)
    staging = data_dir / STAGING
    await _clear(staging)
    try:
        await _write_files(repository, manifest, staging, progress)
        await _write_blobs(repository, manifest, BlobStore.open(blob_url, staging), staging, progress)
        await faults.point("restore.written")
        await asyncio.to_thread(_recover, staging)
        await faults.point("restore.recovered")
    except BaseException:
        await _clear(staging)
        raise
    await _move_into_place(staging, data_dir)
    return RestoreResult(manifest, manifest.size, timedelta(seconds=time.monotonic() - started))


async def _check(repository: BackupRepository, manifest: Manifest, data_dir: Path) -> None:
    """Refuse what could not end well, before anything is written."""
    if manifest.postgres != cluster.MAJOR:
        raise Invalid(
            f"The back-up is of PostgreSQL {manifest.postgres}, and this release has {cluster.MAJOR}. "
            "Restore it with the release that made it, then upgrade.",
            code="backup_postgres_version",
        )
    known = max(migration.number for migration in migrate.list_migrations())
    if manifest.schema > known:
        raise Invalid(
            f"The back-up was made by a later release ({manifest.gristmill}). Install that release to restore it.",
            code="backup_format",
        )
    interrupted = (data_dir / STAGING).exists()
    for name in ("postgres/data", *(() if interrupted else ("blobs", KEY_FILE))):
        path = data_dir / name
        if path.is_file() or (path.is_dir() and any(entry.is_file() for entry in path.rglob("*"))):
            raise Conflict(
                f"{data_dir} already has data ({name}). Choose an empty folder with --data-dir, or move the old data away.",
                code="data_dir_not_empty",
            )
    if missing := await repository.find_missing(manifest):
        raise Invalid(
            f"{len(missing)} pieces of the back-up are missing or truncated. Choose another back-up.",
            code="backup_damaged",
        )
    await asyncio.to_thread(data_dir.mkdir, parents=True, exist_ok=True, mode=0o700)
    if (free := shutil.disk_usage(data_dir).free) < manifest.size:
        raise SetupError(
            f"The back-up needs {manifest.size >> 20} MB, and the disk of {data_dir} has {free >> 20} MB left. Make room.",
            code="disk_full",
        )


async def _write_files(
    repository: BackupRepository, manifest: Manifest, staging: Path, progress: Progress
) -> None:
    pgdata = staging / "postgres" / "data"
    for folder in manifest.folders:
        (pgdata / _safe_path(folder)).mkdir(parents=True, exist_ok=True, mode=0o700)
    files = [_File(pgdata / _safe_path(file.path), file.size, file.pieces) for file in manifest.files]
    if (key := manifest.secret_key) is not None:
        files.append(_File(staging / KEY_FILE, key.size, key.pieces))
    await _write_pieces(repository, files, lambda size: progress("database", size))
    (pgdata / "backup_label").write_text(manifest.backup_label)
    (pgdata / "backup_label").chmod(0o600)


def _safe_path(path: str) -> PurePosixPath:
    """A path inside PostgreSQL's data directory: what a manipulated manifest names elsewhere is refused."""
    safe = PurePosixPath(path)
    if safe.is_absolute() or ".." in safe.parts:
        raise Invalid(f"The back-up contains a path that leads elsewhere: {path}.", code="backup_damaged")
    return safe


async def _write_blobs(
    repository: BackupRepository, manifest: Manifest, blobs: BlobStore, staging: Path, progress: Progress
) -> None:
    paths = {blob.name: blobs.local_path(blob.name) for blob in manifest.blobs}
    in_staging = {
        name: path for name, path in paths.items() if path is not None and path.is_relative_to(staging)
    }
    files = [
        _File(in_staging[blob.name], blob.size, blob.pieces)
        for blob in manifest.blobs
        if blob.name in in_staging
    ]
    await _write_pieces(repository, files, lambda size: progress("files", size))
    for blob in manifest.blobs:
        if blob.name not in in_staging:
            await blobs.restore(blob.name, map_in_threads(blob.pieces, repository.read_piece))
            progress("files", blob.size)


# ── pieces ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _File:
    """A file of the staging folder, and the pieces that it consists of."""

    path: Path
    size: int
    pieces: tuple[str, ...]

    def create(self) -> None:
        """Make the file, without content."""
        if not self.path.parent.exists():
            self.path.parent.mkdir(parents=True, mode=0o700)
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))

    def write(self, data: bytes, offset: int) -> None:
        """Write a piece at its place."""
        handle = os.open(self.path, os.O_WRONLY)
        try:
            rest = memoryview(data)
            while rest:
                written = os.pwrite(handle, rest, offset)
                offset, rest = offset + written, rest[written:]
        finally:
            os.close(handle)


class WrittenPiece(NamedTuple):
    """A piece of a file that was written, and whether it has the size by which its place is known."""

    piece: "_FilePiece"
    size: int
    is_full: bool


@dataclass(frozen=True)
class _FilePiece:
    """A piece of a file. All but the last of a file have the same size, so that each is written at its place, in any order."""

    file: _File
    number: int

    def write(self, repository: BackupRepository) -> WrittenPiece:
        """Read, unpack, verify and write it."""
        offset = self.number * PIECE_BYTES
        data = repository.read_piece(self.file.pieces[self.number])
        self.file.write(data, offset)
        return WrittenPiece(self, len(data), offset + len(data) == min(self.file.size, offset + PIECE_BYTES))


async def _write_pieces(
    repository: BackupRepository, files: Sequence[_File], progress: Callable[[int], None]
) -> None:
    """Write files of the staging folder, several pieces at once. In back-ups of earlier releases, a file that grew while it was read can
    have pieces of other sizes; it is written again, piece after piece."""
    uneven: set[_File] = set()
    for start in range(0, len(files), _FILES_AT_ONCE):
        part = files[start : start + _FILES_AT_ONCE]
        await asyncio.to_thread(_create_files, part)
        pieces = (_FilePiece(file, number) for file in part for number in range(len(file.pieces)))
        written = map_in_threads(pieces, lambda piece: piece.write(repository))
        async with aclosing(written):
            async for piece, size, is_full in written:
                if not is_full:
                    uneven.add(piece.file)
                progress(size)
                if piece.number == len(piece.file.pieces) - 1:
                    await faults.point("restore.file_written")
    for file in uneven:
        await asyncio.to_thread(_write_in_order, repository, file)


def _create_files(files: Sequence[_File]) -> None:
    for file in files:
        file.create()


def _write_in_order(repository: BackupRepository, file: _File) -> None:
    file.create()
    offset = 0
    for digest in file.pieces:
        data = repository.read_piece(digest)
        file.write(data, offset)
        offset += len(data)


def _recover(staging: Path) -> None:
    """Start PostgreSQL on the restored files, so that it replays the WAL, and stop it."""
    server = local_server.start(staging)
    try:
        with psycopg.connect(server.url) as connection:
            connection.execute("select count(*) from item")
    finally:
        server.close()


async def _move_into_place(staging: Path, data_dir: Path) -> None:
    """Blobs and key first: while there is no database, nothing starts on the data dir."""
    await asyncio.to_thread(os.sync)
    if (staging / "blobs").exists():
        await asyncio.to_thread(shutil.rmtree, data_dir / "blobs", ignore_errors=True)
        (staging / "blobs").rename(data_dir / "blobs")
    await faults.point("restore.blobs_moved")
    if (staging / KEY_FILE).exists():
        (staging / KEY_FILE).replace(data_dir / KEY_FILE)
    (data_dir / "postgres").mkdir(exist_ok=True, mode=0o700)
    (staging / "postgres" / "data").rename(data_dir / "postgres" / "data")
    await asyncio.to_thread(os.sync)
    await faults.point("restore.moved")
    await _clear(staging)


async def _clear(staging: Path) -> None:
    """Remove what an interrupted restore left, once its PostgreSQL has stopped."""
    deadline = time.monotonic() + _STOP_PATIENCE
    while (staging / "postgres").exists() and not reaper.is_stopped(staging / "postgres"):
        if time.monotonic() > deadline:
            raise Conflict(
                f"PostgreSQL is still running on {staging}, after an interrupted restore. Wait until it has stopped.",
                code="database_locked",
            )
        await asyncio.sleep(_POLL)
    await asyncio.to_thread(shutil.rmtree, staging, ignore_errors=True)
