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
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath

import psycopg

from gristmill import faults
from gristmill.backup.create import Progress
from gristmill.backup.manifest import Manifest, SavedFile
from gristmill.backup.repository import BackupRepository
from gristmill.db import cluster, local_server, migrate, reaper
from gristmill.errors import Conflict, Invalid, SetupError
from gristmill.sources.blobs import BlobStore
from gristmill.vault import KEY_FILE

STAGING = ".restoring"
_AT_ONCE = 4
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
        await _write_blobs(repository, manifest, BlobStore.open(blob_url, staging), progress)
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
    for file in manifest.files:
        await _write_file(repository, file, pgdata / _safe_path(file.path), progress)
    (pgdata / "backup_label").write_text(manifest.backup_label)
    (pgdata / "backup_label").chmod(0o600)
    if manifest.secret_key is not None:
        await _write_file(repository, manifest.secret_key, staging / KEY_FILE, progress)


def _safe_path(path: str) -> PurePosixPath:
    """A path inside PostgreSQL's data directory: what a manipulated manifest names elsewhere is refused."""
    safe = PurePosixPath(path)
    if safe.is_absolute() or ".." in safe.parts:
        raise Invalid(f"The back-up contains a path that leads elsewhere: {path}.", code="backup_damaged")
    return safe


async def _write_file(repository: BackupRepository, file: SavedFile, path: Path, progress: Progress) -> None:
    if not path.parent.exists():
        path.parent.mkdir(parents=True, mode=0o700)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        async for piece in _read_pieces(repository, file.pieces):
            await asyncio.to_thread(os.write, handle, piece)
            progress("database", len(piece))
    finally:
        os.close(handle)
    await faults.point("restore.file_written")


async def _write_blobs(
    repository: BackupRepository, manifest: Manifest, blobs: BlobStore, progress: Progress
) -> None:
    for blob in manifest.blobs:
        await blobs.restore(blob.name, _read_pieces(repository, blob.pieces))
        progress("files", blob.size)


async def _read_pieces(repository: BackupRepository, digests: Sequence[str]) -> AsyncGenerator[bytes]:
    """The pieces in their order; the next ones are fetched meanwhile."""
    tasks: list[asyncio.Task[bytes]] = []
    try:
        for digest in digests:
            tasks.append(asyncio.create_task(repository.get_piece(digest)))
            if len(tasks) >= _AT_ONCE:
                yield await tasks.pop(0)
        while tasks:
            yield await tasks.pop(0)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
