"""PostgreSQL's files while the server runs, by its own protocol for back-ups.

    begin()    a temporary slot keeps all WAL from here on; pg_backup_start writes a checkpoint
    files()    copied as they are: changes meanwhile may be half in a file, and are repaired from the WAL
    finish()   pg_backup_stop: the moment that a restore brings back; then the WAL from begin() to here is copied too

The connection holds it all together: when this process is killed, the server drops the slot and forgets the back-up.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import psycopg

from gristmill.errors import Conflict

CONTROL_FILE = "global/pg_control"
_SEGMENT = re.compile(r"[0-9A-F]{24}|[0-9A-F]{8}\.history")
# What the server makes again at its start, or what belongs to a running one (as pg_basebackup leaves out).
_SKIPPED_FOLDERS = {
    "pg_wal",
    "pg_dynshmem",
    "pg_notify",
    "pg_replslot",
    "pg_serial",
    "pg_snapshots",
    "pg_stat_tmp",
    "pg_subtrans",
}
_SKIPPED_FILES = {
    "postmaster.pid",
    "postmaster.opts",
    "pg_internal.init",
    "backup_label",
    "tablespace_map",
    "backup_manifest",
}


@dataclass(frozen=True)
class StopPoint:
    """The end of a copy: what a restore needs to know."""

    created_at: datetime
    backup_label: str
    start_wal: str
    stop_wal: str


class DatabaseFiles:
    """A copy of a running server's files."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], pgdata: Path) -> None:
        self._connection = connection
        self._pgdata = pgdata
        self._start_wal = ""

    @classmethod
    async def begin(cls, url: str, pgdata: Path) -> Self:
        """Begin a copy of the server at `url`, whose files are in `pgdata`."""
        connection = await psycopg.AsyncConnection[Any].connect(
            url, autocommit=True, application_name="gristmill backup"
        )
        copy = cls(connection, pgdata)
        try:
            if await copy._value("show wal_level") == "minimal":
                raise Conflict(
                    "PostgreSQL was started by an earlier release, which did not keep what a back-up needs. "
                    "Restart `gristmill serve` once.",
                    code="backup_needs_restart",
                )
            await connection.execute(
                "select pg_create_physical_replication_slot('gristmill_backup_' || pg_backend_pid(), true, true)"
            )
            copy._start_wal = await copy._value(
                "select pg_walfile_name(pg_backup_start('gristmill', fast => true))"
            )
        except BaseException:
            await connection.close()
            raise
        return copy

    def files(self) -> Iterator[Path]:
        """The files to copy, relative to the data directory; `global/pg_control` last."""
        yield from (path for path in self._walk() if str(path) != CONTROL_FILE)
        yield Path(CONTROL_FILE)

    def folders(self) -> list[str]:
        """All folders below the data directory: the server expects also those that are empty, or not copied."""
        paths = [Path(folder).relative_to(self._pgdata) for folder, _, _ in os.walk(self._pgdata)]
        return [
            str(path)
            for path in paths
            if len(path.parts) < 2 or path.parts[0] == "pg_wal" or path.parts[0] not in _SKIPPED_FOLDERS
        ]

    def _walk(self) -> Iterator[Path]:
        for folder, folders, names in os.walk(self._pgdata):
            relative = Path(folder).relative_to(self._pgdata)
            folders[:] = sorted(
                name for name in folders if not (relative == Path() and name in _SKIPPED_FOLDERS)
            )
            for name in sorted(names):
                skipped = name in _SKIPPED_FILES or name.startswith("pgsql_tmp")
                if not skipped and (self._pgdata / relative / name).is_file():
                    yield relative / name

    async def finish(self) -> StopPoint:
        """End the copy; the server's changes up to now are part of it."""
        created_at = await self._value("select now()")
        row = await (
            await self._connection.execute(
                "select labelfile, pg_walfile_name(lsn) from pg_backup_stop(wait_for_archive => false)"
            )
        ).fetchone()
        assert row is not None
        return StopPoint(created_at, row[0], self._start_wal, row[1])

    def wal_files(self, stop: StopPoint) -> list[Path]:
        """The WAL between the begin and the end of the copy, relative to the data directory."""
        names = sorted(
            path.name for path in (self._pgdata / "pg_wal").iterdir() if _SEGMENT.fullmatch(path.name)
        )
        return [
            Path("pg_wal") / name
            for name in names
            if name.endswith(".history") or stop.start_wal <= name <= stop.stop_wal
        ]

    async def close(self) -> None:
        """Let the server forget the copy."""
        await self._connection.close()

    async def _value(self, statement: Any) -> Any:
        row = await (await self._connection.execute(statement)).fetchone()
        assert row is not None
        return row[0]
