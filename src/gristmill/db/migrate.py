"""Brings a database to the present schema: numbered files, forward only, each applied once.

`migrations/NNNN_name.sql` are applied in order, each in one transaction with the row that records it.
An advisory lock makes starting processes take turns: the first migrates, the others find it done. A file
that changed after it was applied, or a database of a later release, stops the start before harm is done.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import psycopg
from psycopg.rows import class_row

from gristmill.errors import SetupError

log = logging.getLogger(__name__)

_LOCK = 0x67726973746D696C  # "gristmil", the key of the advisory lock
OLDEST_SERVER = 15_00_00
OLDEST_VECTOR = (0, 8)


@dataclass(frozen=True)
class Migration:
    """One file of `migrations/`."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the file's text."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@dataclass(frozen=True)
class AppliedMigration:
    """A row of `schema_migration`."""

    number: int
    name: str
    checksum: str


def known_migrations() -> list[Migration]:
    """The migrations of this release, in order."""
    files = resources.files("gristmill.db").joinpath("migrations").iterdir()
    return [
        Migration(int(file.name[:4]), file.name[5:].removesuffix(".sql"), file.read_text(encoding="utf-8"))
        for file in sorted(files, key=lambda file: file.name)
        if file.name.endswith(".sql")
    ]


async def migrate(url: str, migrations: Sequence[Migration] | None = None) -> int:
    """Apply what is missing; how many were applied. `SetupError` when the database can't be used."""
    migrations = known_migrations() if migrations is None else migrations
    try:
        connection = await psycopg.AsyncConnection.connect(url, autocommit=True, application_name="gristmill")
    except psycopg.OperationalError as error:
        reason = str(error).strip().splitlines()[-1]
        raise SetupError(f"The database can't be reached: {reason}", code="database_unreachable") from error
    async with connection:
        await _check_server(connection)
        await connection.execute("select pg_advisory_lock(%s)", [_LOCK])
        applied = await _read_applied(connection)
        _check_history(migrations, applied)
        pending = migrations[len(applied) :]
        for migration in pending:
            await _apply(connection, migration)
    return len(pending)


async def _check_server(connection: psycopg.AsyncConnection) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        raise SetupError(
            f"The database is PostgreSQL {connection.info.server_version // 10_000}; Gristmill needs 15 or later.",
            code="database_too_old",
        )
    cursor = await connection.execute(
        "select default_version from pg_available_extensions where name = 'vector'",
    )
    row = await cursor.fetchone()
    if row is None:
        raise SetupError(
            "The PostgreSQL server lacks the extension pgvector: install its package for this server.",
            code="pgvector_missing",
        )
    if tuple(int(part) for part in str(row[0]).split(".")[:2]) < OLDEST_VECTOR:
        raise SetupError(
            f"The server's pgvector is {row[0]}; Gristmill needs 0.8 or later.", code="pgvector_too_old"
        )


async def _read_applied(connection: psycopg.AsyncConnection) -> list[AppliedMigration]:
    await connection.execute(
        "create table if not exists schema_migration ("
        " number int primary key, name text not null, checksum text not null,"
        " applied_at timestamptz not null default now())"
    )
    async with connection.cursor(row_factory=class_row(AppliedMigration)) as cursor:
        await cursor.execute("select number, name, checksum from schema_migration order by number")
        return await cursor.fetchall()


def _check_history(migrations: Sequence[Migration], applied: Sequence[AppliedMigration]) -> None:
    if len(applied) > len(migrations):
        raise SetupError(
            f"The database is at schema {applied[-1].number}, this Gristmill knows {migrations[-1].number}: "
            "it belongs to a later release. Upgrade this installation.",
            code="database_too_new",
        )
    for migration, row in zip(migrations, applied, strict=False):
        if (migration.number, migration.checksum) != (row.number, row.checksum):
            raise SetupError(
                f"Migration {row.number:04}_{row.name} is not the one that was applied to this database. "
                "Reinstall the release that made it.",
                code="schema_differs",
            )


async def _apply(connection: psycopg.AsyncConnection, migration: Migration) -> None:
    async with connection.transaction():
        await connection.execute(migration.sql.encode())
        await connection.execute(
            "insert into schema_migration (number, name, checksum) values (%s, %s, %s)",
            [migration.number, migration.name, migration.checksum],
        )
    log.info("schema migrated", extra={"number": migration.number, "migration": migration.name})
