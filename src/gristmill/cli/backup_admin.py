"""Back-ups from the command line: make, list, verify, restore, with a progress bar."""

import asyncio
from collections.abc import Generator
from contextlib import aclosing, contextmanager
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from gristmill import faults
from gristmill.backup import BackupRepository, Manifest, create_backup, restore_backup
from gristmill.backup.create import BackupSource
from gristmill.backup.create import Progress as ReportProgress
from gristmill.backup.repository import map_in_threads
from gristmill.cli import serve_lock
from gristmill.cli.open_database import message_after_a_moment
from gristmill.cli.output import console, new_table, plural
from gristmill.db import Database, local_server
from gristmill.errors import Conflict, GristmillError, NotFound
from gristmill.settings import Settings
from gristmill.sources.blobs import BlobStore
from gristmill.vault import KEY_FILE

_CONNECTIONS = 3


async def make_backup(current: Settings, destination: str, keep: int | None, as_json: bool) -> dict[str, Any]:
    """Make a back-up of the installation of these settings."""
    if current.database_url is not None:
        raise Conflict(
            "This installation uses a PostgreSQL of your own: back it up with its tools, then the uploaded files and the "
            "sealing key. docs/how-to/back-up.md has the commands.",
            code="backup_own_database",
        )
    faults.arm(current.faults)
    pgdata = current.data_dir / "postgres" / "data"
    if not pgdata.exists():
        raise NotFound(
            f"{current.data_dir} has no database yet: there is nothing to back up.", code="nothing_to_back_up"
        )
    repository = BackupRepository.open(destination, create=True)
    with message_after_a_moment(current):
        server = await asyncio.to_thread(local_server.start, current.data_dir)
    try:
        db = Database(server.url, size=_CONNECTIONS)
        await db.open()
        try:
            source = BackupSource(
                db,
                server.url,
                pgdata,
                BlobStore.open(current.blob_url, current.data_dir),
                current.data_dir / KEY_FILE,
            )
            with _progress_bar("Backing up", None, as_json) as report:
                result = await create_backup(source, repository, keep=keep, progress=report)
        finally:
            await db.close()
    finally:
        await asyncio.to_thread(server.close)
    shown = console(as_json)
    shown.print(
        f"Backed up {_megabytes(result.manifest.size)} as [bold]{result.manifest.id}[/bold]; {_megabytes(result.written)} of it "
        f"was new. A restore brings back {result.manifest.created_at:%Y-%m-%d %H:%M:%S %Z}."
    )
    if result.pruned:
        shown.print(f"Removed {plural(len(result.pruned), 'older back-up')}.")
    if current.secret_key is not None or current.secret_key_file is not None:
        shown.print(
            "The sealing key is a setting (secret_key, secret_key_file) and is not part of the back-up: keep it elsewhere."
        )
    return {
        **_summary(result.manifest),
        "writtenBytes": result.written,
        "seconds": round(result.took.total_seconds(), 3),
        "removed": result.pruned,
    }


async def list_backups(destination: str, as_json: bool) -> dict[str, Any]:
    """List the back-ups at the destination, the newest first."""
    repository = BackupRepository.open(destination, create=False)
    rows: list[dict[str, Any]] = []
    table = new_table("back-up", "restores", "size", "files", "state", right=("size", "files"))
    for backup_id in reversed(await repository.list_ids()):
        try:
            manifest = await repository.read_manifest(backup_id)
        except GristmillError as error:
            rows.append({"id": backup_id, "state": "damaged", "message": error.message})
            table.add_row(backup_id, "–", "–", "–", "damaged")
            continue
        missing = await repository.find_missing(manifest)
        state = "damaged" if missing else "complete"
        rows.append({**_summary(manifest), "state": state})
        table.add_row(
            backup_id,
            f"{manifest.created_at:%Y-%m-%d %H:%M:%S %Z}",
            _megabytes(manifest.size),
            f"{len(manifest.blobs):,}",
            state,
        )
    console(as_json).print(table if rows else "No back-ups here yet.")
    return {"items": rows, "nextCursor": None}


async def verify_newest(destination: str, as_json: bool) -> dict[str, Any]:
    """Read every piece of the newest back-up and compare it with its hash."""
    repository = BackupRepository.open(destination, create=False)
    manifest = await _choose(repository, None)
    with _progress_bar("Verifying", len(manifest.pieces), as_json, unit="pieces") as report:
        async with aclosing(map_in_threads(manifest.pieces, repository.read_piece)) as pieces:
            async for _ in pieces:
                report("pieces", 1)
    console(as_json).print(f"All {plural(len(manifest.pieces), 'piece')} of {manifest.id} are whole.")
    return {**_summary(manifest), "state": "complete"}


async def restore(current: Settings, source: str, at: str | None, as_json: bool) -> dict[str, Any]:
    """Restore a back-up into the data dir of these settings."""
    if current.database_url is not None:
        raise Conflict(
            "The settings name a PostgreSQL of your own (database_url). Restore with its tools, or unset it to restore into "
            "the data dir.",
            code="backup_own_database",
        )
    faults.arm(current.faults)
    repository = BackupRepository.open(source, create=False)
    manifest = await _choose(repository, at)
    with (
        serve_lock.acquire(current.data_dir),
        _progress_bar("Restoring", manifest.size, as_json) as report,
    ):
        result = await restore_backup(repository, manifest, current.data_dir, current.blob_url, report)
    console(as_json).print(
        f"Restored {_megabytes(result.size)} into {current.data_dir}, as of {manifest.created_at:%Y-%m-%d %H:%M:%S %Z}. "
        "Start it with `gristmill serve`, and check it with `gristmill doctor`."
    )
    return {
        **_summary(manifest),
        "dataDir": str(current.data_dir),
        "seconds": round(result.took.total_seconds(), 3),
    }


async def _choose(repository: BackupRepository, at: str | None) -> Manifest:
    if at is not None:
        return await repository.read_manifest(at)
    ids = await repository.list_ids()
    if not ids:
        raise NotFound("There are no back-ups here.", code="no_backup")
    return await repository.read_manifest(ids[-1])


def _summary(manifest: Manifest) -> dict[str, Any]:
    return {
        "id": manifest.id,
        "createdAt": manifest.created_at.isoformat(),
        "sizeBytes": manifest.size,
        "blobs": len(manifest.blobs),
        "gristmill": manifest.gristmill,
    }


@contextmanager
def _progress_bar(
    title: str, total: int | None, as_json: bool, unit: str = "bytes"
) -> Generator[ReportProgress]:
    amount = DownloadColumn() if unit == "bytes" else TextColumn("{task.completed:,.0f}")
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeElapsedColumn())
    with Progress(*columns, console=console(as_json), transient=True) as progress:
        bar = progress.add_task(title, total=total)

        def report(step: str, amount: int) -> None:
            progress.update(bar, advance=amount, description=f"{title}: {step}")

        yield report


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
