"""Copies a database into an empty one, also of another server and a later version, and compares both row by row.

PostgreSQL's own pg_dump and pg_restore do the copy, in one transaction of the new database: it is there whole or not at all. The
comparison reads every row of every table on both sides: their number, and a sum of the hashes of their texts.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from gristmill.db.programs import find_programs
from gristmill.errors import SetupError

Report = Callable[[str], None]
_TABLES = """
    select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'public' and c.relkind in ('r', 'p') order by 1"""
# The tables that a server fills by itself while it runs, and that no guarantee depends on.
_PASSING_TABLES = frozenset({"progress", "provider", "provider_portion"})


@dataclass(frozen=True)
class TableSum:
    """The rows of a table, and a sum of their hashes."""

    rows: int
    digest: int


async def copy_database(source: str, target: str) -> None:
    """Copy everything of the database `source` into the empty database `target`."""
    programs = find_programs()
    if await _list_tables(target):
        raise SetupError(
            "The database to copy into is not empty. Name one without tables, or drop and create it.",
            code="database_not_empty",
        )
    await _create_extension(target)
    reading, writing = os.pipe()
    dump = await _start(
        [
            programs / "pg_dump",
            "--format=custom",
            "--compress=none",
            "--no-owner",
            "--no-privileges",
            "--schema=public",
        ],
        source,
        stdout=writing,
    )
    os.close(writing)
    restore = await _start(
        [
            programs / "pg_restore",
            "--no-owner",
            "--no-privileges",
            "--schema=public",
            "--single-transaction",
            "--exit-on-error",
            "--dbname",
            "",
        ],
        target,
        stdin=reading,
    )
    os.close(reading)
    try:
        (_, dump_errors), (_, restore_errors) = await asyncio.gather(
            dump.communicate(), restore.communicate()
        )
    except BaseException:
        for process in (dump, restore):
            if process.returncode is None:
                process.kill()
                await process.wait()
        raise
    # A pg_restore that ends early ends pg_dump too, which then has nothing to say.
    for name, process, errors in (("pg_restore", restore, restore_errors), ("pg_dump", dump, dump_errors)):
        if process.returncode != 0:
            lines = errors.decode(errors="replace").strip().splitlines()
            raise SetupError(
                f"The database could not be copied: {name}: {' / '.join(lines[-3:]) or 'no message'}.",
                code="database_copy_failed",
            )


async def _start(
    command: list[Any],
    url: str,
    *,
    stdin: int = asyncio.subprocess.DEVNULL,
    stdout: int = asyncio.subprocess.DEVNULL,
) -> asyncio.subprocess.Process:
    """Start a program for the database at `url`, whose password is not on the command line."""
    parameters = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    names = {
        "host": "PGHOST",
        "port": "PGPORT",
        "user": "PGUSER",
        "dbname": "PGDATABASE",
        "password": "PGPASSWORD",
    }
    names |= {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "connect_timeout": "PGCONNECT_TIMEOUT"}
    environment = {names[name]: value for name, value in parameters.items() if name in names}
    arguments = [str(part) or parameters.get("dbname", "") for part in command]
    return await asyncio.create_subprocess_exec(
        *arguments,
        stdin=stdin,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment, "LC_ALL": "C"},
    )


async def _create_extension(url: str) -> None:
    try:
        async with await psycopg.AsyncConnection[Any].connect(url, autocommit=True) as connection:
            await connection.execute("create extension if not exists vector")
    except psycopg.Error as error:
        raise SetupError(
            f"The extension pgvector can't be created in the database to copy into: {str(error).splitlines()[0]}. Install it there, "
            "and let an administrator run `create extension vector`.",
            code="pgvector_missing",
        ) from error


async def compare_databases(source: str, target: str, report: Report) -> int:
    """Compare every table of two databases; the number of rows. `SetupError` when they differ."""
    total = 0
    tables = await _list_tables(source)
    if tables != await _list_tables(target):
        raise _differs("the tables")
    for table in tables:
        if table in _PASSING_TABLES:
            continue
        report(f"comparing {table}")
        before, after = await asyncio.gather(sum_table(source, table), sum_table(target, table))
        if before != after:
            raise _differs(f"the table {table} ({before.rows:,} and {after.rows:,} rows)")
        total += before.rows
    return total


async def sum_table(url: str, table: str) -> TableSum:
    """The number of rows of a table, and the sum of their hashes."""
    statement = sql.SQL(
        "select count(*), coalesce(sum(('x' || left(md5(t::text), 15))::bit(60)::bigint::numeric), 0) from {} t"
    ).format(sql.Identifier(table))
    async with await psycopg.AsyncConnection[Any].connect(url, autocommit=True) as connection:
        # Both sides must write instants, floats and bytes alike.
        await connection.execute("set timezone = 'UTC'; set extra_float_digits = 1; set bytea_output = 'hex'")
        row = await (await connection.execute(statement)).fetchone()
    assert row is not None
    return TableSum(row[0], int(row[1]))


async def _list_tables(url: str) -> list[str]:
    async with await psycopg.AsyncConnection[Any].connect(url, autocommit=True) as connection:
        return [name for (name,) in await (await connection.execute(_TABLES)).fetchall()]


def _differs(what: str) -> SetupError:
    return SetupError(
        f"The copy differs from the database: {what}. Nothing was switched; the old one is used as before.",
        code="database_copy_differs",
    )
