"""The database server of the benchmarks: a local PostgreSQL with default durability, in a temporary folder.

Every measurement gets a new database, cloned from a template in which its engine was installed once, after a
checkpoint, so that no engine pays for dirty pages of another.
"""

import asyncio
import contextlib
import os
import platform
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from gristmill.db import local_server, reaper

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")


class BenchServer:
    """The database server, until `close`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gristmill-bench-"))
        self._server = local_server.start(self.folder)
        self._templates: dict[str, str] = {}

    def close(self) -> None:
        """Stop the server and remove its files."""
        self._server.close()
        for _ in range(20):  # the server's keeper may recreate a lock file while it exits
            shutil.rmtree(self.folder, ignore_errors=True)
            time.sleep(0.1)
            if not self.folder.exists():
                return

    def stop_server(self) -> None:
        """Stop PostgreSQL as an administrator would: sessions end, committed data stays."""
        self._server.close()

    def start_server(self) -> None:
        """Start it again on the same files."""
        self._server = local_server.start(self.folder)

    @property
    def postmaster(self) -> int:
        """The pid of the server's first process."""
        pid = reaper.postmaster_pid(self.folder / "postgres" / "data")
        if pid is None:
            raise RuntimeError("PostgreSQL is not running")
        return pid

    async def wait_until_ready(self) -> None:
        """Wait while PostgreSQL recovers."""
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(psycopg.OperationalError):
                    async with await self.admin() as admin:
                        await admin.execute("select")
                        return
                await asyncio.sleep(0.05)

    async def admin(self) -> psycopg.AsyncConnection:
        """A connection to the `postgres` database."""
        url = make_conninfo(self._server.url, dbname="postgres")
        return await psycopg.AsyncConnection.connect(url, autocommit=True)

    @asynccontextmanager
    async def database(self, engine: str, install: Callable[[str], Awaitable[None]]) -> AsyncGenerator[str]:
        """The URL of a fresh database in which `engine` is installed; dropped at the end."""
        name = f"bench_{uuid4().hex}"
        async with await self.admin() as admin:
            if engine not in self._templates:
                self._templates[engine] = await self._create_template(admin, engine, install)
            await _create_database(admin, name, self._templates[engine])
            await admin.execute("checkpoint")
        try:
            yield make_conninfo(self._server.url, dbname=name)
        finally:
            async with await self.admin() as admin:
                await admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    async def _create_template(
        self, admin: psycopg.AsyncConnection, engine: str, install: Callable[[str], Awaitable[None]]
    ) -> str:
        name = f"template_{engine}"
        await _create_database(admin, name, "template1")
        await install(make_conninfo(self._server.url, dbname=name))
        # An engine's threads may close their connections a moment after it was stopped.
        await admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", [name]
        )
        return name

    async def describe(self) -> str:
        """The machine and the server, in one line."""
        async with await self.admin() as admin:
            row = await (await admin.execute("select current_setting('server_version')")).fetchone()
            durable = await (
                await admin.execute("select current_setting('fsync'), current_setting('synchronous_commit')")
            ).fetchone()
        assert row is not None
        assert durable is not None
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        return (
            f"{os.cpu_count()} cores ({_cpu_model()}), {platform.system()} {platform.machine()}, "
            f"PostgreSQL {row[0]} (fsync {durable[0]}, synchronous_commit {durable[1]}), "
            f"Python {platform.python_version()}, load average at the start {load}"
        )


async def _create_database(admin: psycopg.AsyncConnection, name: str, template: str) -> None:
    for wait in (0.1, 0.3, 1.0, None):
        try:
            await admin.execute(
                sql.SQL("create database {} template {}").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
            return
        except psycopg.errors.ObjectInUse:  # autovacuum is looking at the template
            if wait is None:
                raise
            await asyncio.sleep(wait)


def _cpu_model() -> str:
    try:
        lines = (_PROC / "cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def server_cpu(postmaster: int) -> float:
    """Processor seconds of the whole server: backends, writers, vacuum, also of exited processes; Linux only."""
    total = 0.0
    for folder in _PROC.glob("[0-9]*"):
        try:
            # The name in brackets may contain spaces; what follows does not.
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # exited in the meantime
            continue
        pid, parent = int(folder.name), int(fields[1])
        if pid == postmaster:
            total += sum(int(value) for value in fields[11:15])  # its own, and that of its exited children
        elif parent == postmaster:
            total += sum(int(value) for value in fields[11:13])
    return total / _TICK


def backend_cpu(pid: int) -> float:
    """Processor seconds of one backend, to the nanosecond; Linux only, 0 elsewhere."""
    try:
        return int((_PROC / str(pid) / "schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0
