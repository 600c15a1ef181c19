"""Brings a database to the present schema.

    the database         what happens
    is empty             the files of `schema/` and `functions/` are applied in one transaction, and every known migration
                         is recorded as applied
    has a history        the migrations that it lacks are applied in order, each in one transaction with its row
    was changed by a     the start is refused before any harm is done: a recorded checksum differs, or a later release
    different release    has migrated it

`migrations/NNNN_name.sql` only go forward. `NNNN_baseline_….sql` are the schema that the first release had; tests compare
the baseline and all later migrations with `schema/` and `functions/`. An advisory lock serialises starting processes:
the first one migrates, the others find it done.
"""

import hashlib
import logging
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources

import psycopg
from psycopg.rows import class_row

from gristmill.db.outage import first_line
from gristmill.errors import SetupError

log = logging.getLogger(__name__)

_LOCK = 0x67726973746D696C  # "gristmil", the key of the advisory lock
SCHEMA_CHANNEL = "schema"  # is notified by every migration
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


def list_migrations() -> list[Migration]:
    """The migrations of this release, in order."""
    return [
        Migration(int(name[:4]), name[5:].removesuffix(".sql"), text)
        for name, text in _sql_files("migrations")
    ]


def schema_sql() -> str:
    """The statements that make the schema in an empty database."""
    return "\n".join(text for folder in ("schema", "functions") for _, text in _sql_files(folder))


def _sql_files(folder: str) -> Iterator[tuple[str, str]]:
    files = resources.files("gristmill.db").joinpath(folder).iterdir()
    for file in sorted(files, key=lambda file: file.name):
        if file.name.endswith(".sql"):
            yield file.name, file.read_text(encoding="utf-8")


async def migrate(url: str, migrations: Sequence[Migration] | None = None) -> int:
    """Bring the database to the present schema; the number of migrations recorded. `SetupError` when it can't be used.

    With `migrations` given, these are applied one by one, to an empty database too.
    """
    async with await _connect(url) as connection:
        with _translate_errors():
            return await _bring_up_to_date(connection, migrations)


async def _bring_up_to_date(
    connection: psycopg.AsyncConnection, migrations: Sequence[Migration] | None
) -> int:
    await _check_server(connection)
    await _check_writable(connection)
    await connection.execute("select pg_advisory_lock(%s)", [_LOCK])
    applied = await _read_applied(connection)
    if not applied and migrations is None:
        return await _create_schema(connection)
    migrations = list_migrations() if migrations is None else migrations
    _check_history(migrations, applied)
    pending = migrations[len(applied) :]
    for migration in pending:
        await _apply(connection, migration)
    return len(pending)


async def require_usable(url: str) -> None:
    """Raise `SetupError` unless the database can be reached, and its server and pgvector are recent enough."""
    async with await _connect(url) as connection:
        await _check_server(connection)


async def _connect(url: str) -> psycopg.AsyncConnection:
    try:
        return await psycopg.AsyncConnection.connect(url, autocommit=True, application_name="gristmill")
    except psycopg.ProgrammingError:  # quotes the address, with its password
        raise SetupError(
            "GRISTMILL_DATABASE_URL is not the address of a PostgreSQL. Write it as postgresql://ROLE:PASSWORD@HOST/DATABASE.",
            code="database_unreachable",
        ) from None
    except psycopg.OperationalError as error:
        # Lines that are indented are the library's hints.
        reason = [line for line in str(error).strip().splitlines() if not line.startswith(("\t", " "))][-1]
        raise SetupError(
            f"The database can't be reached: {reason}. Check GRISTMILL_DATABASE_URL, and that PostgreSQL is running.",
            code="database_unreachable",
        ) from error


@contextmanager
def _translate_errors() -> Generator[None]:
    """Errors whose cause is the server, as errors for its operator; a statement that is wrong stays what it is."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise SetupError(
            f"The role in GRISTMILL_DATABASE_URL lacks a right: {first_line(error)}. Make it the owner of the database, and create the "
            "extension as a superuser: create extension vector.",
            code="database_not_permitted",
        ) from error
    except psycopg.errors.DiskFull as error:
        raise SetupError(
            f"The disk of the database is full: {first_line(error)}. Free some space.", code="disk_full"
        ) from error
    except psycopg.OperationalError as error:
        raise SetupError(
            f"The connection to the database was lost: {first_line(error)}. Start again.",
            code="database_unreachable",
        ) from error


async def _check_writable(connection: psycopg.AsyncConnection) -> None:
    row = await (await connection.execute("show default_transaction_read_only")).fetchone()
    if row == ("on",):
        raise SetupError(
            "The database allows reading only: its data was moved elsewhere by `gristmill move`. Use the other one; or, to use this one "
            "again, run `alter database … reset default_transaction_read_only` in it.",
            code="database_read_only",
        )


async def _check_server(connection: psycopg.AsyncConnection) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        raise SetupError(
            f"The database is PostgreSQL {connection.info.server_version // 10_000}; Gristmill needs 15 or later.",
            code="database_too_old",
        )
    cursor = await connection.execute("select extversion from pg_extension where extname = 'vector'")
    row = await cursor.fetchone()
    if (
        row is None
    ):  # an empty database. The server reads a file for each extension that it has to answer this
        cursor = await connection.execute(
            "select default_version from pg_available_extensions where name = 'vector'"
        )
        row = await cursor.fetchone()
    if row is None:
        raise SetupError(
            "The PostgreSQL server lacks the extension pgvector. Install the pgvector package for this server.",
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
    for migration, row in zip(migrations, applied, strict=False):
        if (migration.number, migration.checksum) != (row.number, row.checksum):
            raise SetupError(
                f"Migration {row.number:04}_{row.name} of this database is not the one that this Gristmill has. "
                "Reinstall the release that created the database.",
                code="schema_differs",
            )
    if len(applied) > len(migrations):
        raise SetupError(
            f"The database has schema {applied[-1].number}, and this Gristmill only knows {migrations[-1].number}: "
            "a later release has migrated it. Upgrade this installation.",
            code="database_too_new",
        )


async def _create_schema(connection: psycopg.AsyncConnection) -> int:
    migrations = list_migrations()
    async with connection.transaction():
        await connection.execute(schema_sql().encode())
        for migration in migrations:
            await _record(connection, migration)
    log.info("schema created", extra={"number": migrations[-1].number})
    return len(migrations)


async def _apply(connection: psycopg.AsyncConnection, migration: Migration) -> None:
    async with connection.transaction():
        await connection.execute(migration.sql.encode())
        await _record(connection, migration)
        await connection.execute("select pg_notify(%s, '')", [SCHEMA_CHANNEL])
    log.info("schema migrated", extra={"number": migration.number, "migration": migration.name})


async def _record(connection: psycopg.AsyncConnection, migration: Migration) -> None:
    await connection.execute(
        "insert into schema_migration (number, name, checksum) values (%s, %s, %s)",
        [migration.number, migration.name, migration.checksum],
    )
