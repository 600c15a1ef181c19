"""Moves all data from the built-in PostgreSQL to another one, and back: copy, compare, then one file decides.

    to another      the built-in server is started for reading only → copy → compare → `<data_dir>/database-url` gets its name
    back            a new built-in database is created next to the old one → copy → compare → it takes the old one's place → the
                    file is removed

    killed before the last step      the database of before is used; the next move begins again
    killed after it                  the other one is used

The database of before is kept. One that is not ours is set to read only after a move, so that a process that still uses it fails
instead of writing what would be lost. The blobs stay where they are.
"""

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from gristmill import faults
from gristmill.db import local_server
from gristmill.db.copy_database import Report, compare_databases, copy_database
from gristmill.db.migrate import migrate, require_usable
from gristmill.db.programs import MAJOR
from gristmill.db.switch import begin_switch, old_copies
from gristmill.db.upgrade import READ_ONLY, STAGING, clear_staging, require_read_only, require_unused
from gristmill.errors import SetupError
from gristmill.settings.moved_database import write_moved_database

_OTHER_SESSIONS = """
    select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
       and application_name like 'gristmill%'"""


@dataclass(frozen=True)
class MoveResult:
    """A finished move; `old` is where the database of before is."""

    rows: int
    old: str
    took: timedelta


async def move_to_own(data_dir: Path, target: str, report: Report) -> MoveResult:
    """Move from the built-in database of a data dir to the empty one at `target`."""
    started = time.monotonic()
    pgdata = data_dir / "postgres" / "data"
    if not await asyncio.to_thread(pgdata.exists):
        raise SetupError(f"{data_dir} has no database: there is nothing to move.", code="nothing_to_move")
    await require_usable(target)
    await require_unused(data_dir / "postgres")
    report("starting the database for reading only")
    server = await asyncio.to_thread(local_server.start, data_dir, extra_config=READ_ONLY)
    try:
        await require_read_only(server.url)
        report("copying")
        await copy_database(server.url, target)
        await faults.point("move_database.copied")
        rows = await compare_databases(server.url, target, report)
        await migrate(target)
    finally:
        await asyncio.to_thread(server.close)
    await faults.point("move_database.before_switch")
    await asyncio.to_thread(write_moved_database, data_dir, target)
    await faults.point("move_database.switched")
    return MoveResult(rows, str(pgdata), timedelta(seconds=time.monotonic() - started))


async def move_to_embedded(data_dir: Path, source: str, report: Report) -> MoveResult:
    """Move from the database at `source` to a new built-in one of the data dir."""
    started = time.monotonic()
    folder = data_dir / "postgres"
    await _require_no_sessions(source)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True, mode=0o700)
    await clear_staging(data_dir)
    report("creating the database")
    server = await asyncio.to_thread(local_server.start, data_dir / STAGING)
    try:
        report("copying")
        await copy_database(source, server.url)
        await faults.point("move_database.copied")
        rows = await compare_databases(source, server.url, report)
        await migrate(server.url)
        await _require_no_sessions(source)
    finally:
        await asyncio.to_thread(server.close)
    await require_unused(data_dir / STAGING / "postgres")
    await require_unused(folder)
    await asyncio.to_thread(os.sync)
    await faults.point("move_database.before_switch")
    new_data = data_dir / STAGING / "postgres" / "data"
    await asyncio.to_thread(begin_switch, folder, new_data, _name_for_old_copy(folder))
    await faults.point("move_database.in_place")
    await asyncio.to_thread(write_moved_database, data_dir, None)
    await faults.point("move_database.switched")
    await _allow_reading_only(source)
    await clear_staging(data_dir)
    return MoveResult(rows, "the database before", timedelta(seconds=time.monotonic() - started))


def _name_for_old_copy(folder: Path) -> str:
    names = {path.name for path in old_copies(folder)}
    return next(name for n in range(1, 1000) if (name := f"data.{MAJOR}.{n}") not in names)


async def _require_no_sessions(url: str) -> None:
    """Refuse a database that another process of Gristmill uses: what it writes meanwhile would be lost."""
    await require_usable(url)
    async with await psycopg.AsyncConnection[Any].connect(url, autocommit=True) as connection:
        row = await (await connection.execute(_OTHER_SESSIONS)).fetchone()
    if row is None or row[0]:
        raise SetupError(
            "Another process uses this database. Stop every `gristmill serve` and `gristmill worker`, on all machines, then move.",
            code="database_in_use",
        )


async def _allow_reading_only(url: str) -> None:
    with contextlib.suppress(psycopg.Error):  # not the owner of the database
        async with await psycopg.AsyncConnection[Any].connect(url, autocommit=True) as connection:
            name = sql.Identifier(connection.info.dbname)
            await connection.execute(
                sql.SQL("alter database {} set default_transaction_read_only = on").format(name)
            )
