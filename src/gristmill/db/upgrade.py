"""Brings the PostgreSQL in the data dir to the version of this release: copy, compare, switch, keep the old one.

    1  the old server is started with the old programs, for reading only
    2  a new one is created in `<data_dir>/.upgrading`, and everything is copied into it       copy_database.py
    3  every row of both is compared, then the schema is brought to this release's
    4  both are stopped; one rename decides that the new one counts                            switch.py

    killed before 4      the old one is used as before; the next upgrade begins again
    killed during 4      the next start of anything finishes the switch
    the copy differs     nothing is switched

The old directory is kept as `<data_dir>/postgres/data.16`, until `drop_old_copies`.
"""

import asyncio
import os
import shutil
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg

from gristmill import faults
from gristmill.db import local_server, reaper
from gristmill.db.copy_database import Report, compare_databases, copy_database
from gristmill.db.migrate import migrate
from gristmill.db.programs import MAJOR
from gristmill.db.switch import begin_switch, finish_switch, old_copies
from gristmill.errors import SetupError

STAGING = ".upgrading"
_STOP_PATIENCE = 120.0
_POLL = 0.05
READ_ONLY = {"default_transaction_read_only": "on"}


@dataclass(frozen=True)
class UpgradeResult:
    """A finished upgrade; `old` is where the old data directory is kept."""

    from_version: int
    to_version: int
    rows: int
    old: Path
    took: timedelta


def database_version(data_dir: Path) -> int | None:
    """The major version of the PostgreSQL in the data dir; None if there is none."""
    folder = data_dir / "postgres"
    if folder.exists():
        finish_switch(folder)
    try:
        return int((folder / "data" / "PG_VERSION").read_text())
    except FileNotFoundError:
        return None


async def upgrade_database(data_dir: Path, report: Report) -> UpgradeResult | None:
    """Upgrade the database; None if it has the version of this release. The caller has checked that no server runs on it."""
    started = time.monotonic()
    version = database_version(data_dir)
    if version is None or version >= MAJOR:
        return None
    await clear_staging(data_dir)
    _check_room(data_dir)
    old, new = None, None
    try:
        report(f"starting PostgreSQL {version}")
        old = await asyncio.to_thread(local_server.start, data_dir, extra_config=READ_ONLY, major=version)
        await require_read_only(old.url)
        report(f"creating PostgreSQL {MAJOR}")
        new = await asyncio.to_thread(local_server.start, data_dir / STAGING)
        await faults.point("upgrade.started")
        report("copying")
        await copy_database(old.url, new.url)
        await faults.point("upgrade.copied")
        rows = await compare_databases(old.url, new.url, report)
        await faults.point("upgrade.compared")
        await migrate(new.url)
        await _analyse(new.url)
    finally:
        for server in (new, old):
            if server is not None:
                await asyncio.to_thread(server.close)
    for folder in (data_dir / STAGING / "postgres", data_dir / "postgres"):
        await require_unused(folder)
    report("switching")
    await asyncio.to_thread(os.sync)
    await faults.point("upgrade.stopped")
    old_name = f"data.{version}"
    new_data = data_dir / STAGING / "postgres" / "data"
    await asyncio.to_thread(begin_switch, data_dir / "postgres", new_data, old_name)
    await clear_staging(data_dir)
    took = timedelta(seconds=time.monotonic() - started)
    return UpgradeResult(version, MAJOR, rows, data_dir / "postgres" / old_name, took)


def drop_old_copies(data_dir: Path) -> list[Path]:
    """Delete the data directories of earlier versions that upgrades kept; which."""
    folder = data_dir / "postgres"
    finish_switch(folder)
    copies = old_copies(folder)
    for path in copies:
        shutil.rmtree(path)
    return copies


async def require_read_only(url: str) -> None:
    """Refuse a server that another process has started: it may be written to."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        row = await (await connection.execute("show default_transaction_read_only")).fetchone()
    if row != ("on",):
        raise SetupError(
            "Another process uses this database. Stop every `gristmill` process on the data dir, then upgrade.",
            code="database_in_use",
        )


async def _analyse(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("analyze")


def _check_room(data_dir: Path) -> None:
    size = sum(path.stat().st_size for path in (data_dir / "postgres" / "data").rglob("*") if path.is_file())
    if (free := shutil.disk_usage(data_dir).free) < size:
        raise SetupError(
            f"The upgrade copies {size >> 20} MB, and the disk of {data_dir} has {free >> 20} MB left. Make room.",
            code="disk_full",
        )


async def clear_staging(data_dir: Path) -> None:
    """Remove what an interrupted upgrade left, once its servers have stopped."""
    staging = data_dir / STAGING
    if (staging / "postgres").exists():
        await require_unused(staging / "postgres")
    await require_unused(data_dir / "postgres")
    await asyncio.to_thread(shutil.rmtree, staging, ignore_errors=True)


async def require_unused(folder: Path) -> None:
    """Wait until the server of a process that has ended has stopped too; `SetupError` if another process uses it."""
    deadline = time.monotonic() + _STOP_PATIENCE
    while not reaper.is_stopped(folder):
        if time.monotonic() > deadline or _has_users(folder):
            raise SetupError(
                f"PostgreSQL is in use on {folder}. Stop every `gristmill` process on the data dir, then try again.",
                code="database_in_use",
            )
        await asyncio.sleep(_POLL)


def _has_users(folder: Path) -> bool:
    """Whether a process uses the server; one that is just being stopped is locked by whoever stops it."""
    lock = reaper.Lock(folder / "users.lock")
    try:
        if lock.try_acquire(reaper.EXCLUSIVE):
            return False
        return lock.try_acquire(reaper.SHARED)
    finally:
        lock.close()
