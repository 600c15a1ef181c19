import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gristmill.db import Database, DatabaseUnavailable, pool
from tests.terminate_backends import terminate_backends


async def test_a_transaction_that_raises_leaves_nothing(db: Database) -> None:
    async def half() -> None:
        async with db.transaction() as tx:
            await tx.execute("create table left_behind ()")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        await half()
    async with db.connection() as tx:
        cursor = await tx.execute("select to_regclass('left_behind')")
        assert await cursor.fetchone() == (None,)


async def test_work_that_comes_one_by_one_uses_one_connection_of_many(db: Database) -> None:
    """Its server process has planned the statements already; the others stay idle."""

    async def backend(together: asyncio.Barrier | None = None) -> int:
        async with db.connection() as tx:
            row = await (await tx.execute("select pg_backend_pid()")).fetchone()
            if together is not None:
                await together.wait()
        assert row is not None
        return row[0]

    together = asyncio.Barrier(4)
    assert len(set(await asyncio.gather(*(backend(together) for _ in range(4))))) == 4
    assert len({await backend() for _ in range(8)}) == 1


async def test_connections_that_died_while_idle_are_replaced(db: Database) -> None:
    async with db.transaction() as tx:
        await tx.execute("select 1")
    await terminate_backends(db.url)
    async with db.transaction() as tx:
        cursor = await tx.execute("select 42")
        assert await cursor.fetchone() == (42,)


async def test_a_connection_that_dies_in_a_transaction_is_unavailable(db: Database) -> None:
    async def cut_off() -> None:
        async with db.transaction() as tx:
            await tx.execute("select 1")
            await terminate_backends(db.url)
            await tx.execute("select 2")

    with pytest.raises(DatabaseUnavailable) as caught:
        await cut_off()
    assert caught.value.code == "database_unavailable"


async def test_a_transaction_that_does_nothing_for_long_is_cut_off_and_frees_its_locks(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a process is frozen in the middle of a transaction."""
    monkeypatch.setattr(pool, "_IDLE_TRANSACTION_TIMEOUT", timedelta(milliseconds=50))
    impatient = Database(db.url)
    await impatient.open()

    async def freeze() -> None:
        async with impatient.transaction() as tx:
            await tx.execute("select pg_advisory_xact_lock(7)")
            async with db.transaction() as second_tx:
                await second_tx.execute("select pg_advisory_xact_lock(7)")
            await tx.execute("select 1")

    with pytest.raises(DatabaseUnavailable):
        await freeze()
    await impatient.close()


async def test_waiting_for_a_lock_ends_after_a_limit(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_LOCK_TIMEOUT", timedelta(milliseconds=50))
    impatient = Database(db.url)
    await impatient.open()
    async with db.transaction() as tx:
        await tx.execute("select pg_advisory_xact_lock(7)")
        for large in (False, True):
            with pytest.raises(DatabaseUnavailable) as caught:
                async with impatient.transaction(large=large) as second_tx:
                    await second_tx.execute("select pg_advisory_xact_lock(7)")
            assert caught.value.code == "database_busy"
    await impatient.close()


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    db = Database("postgresql:///none?host=/nowhere", patience=timedelta(milliseconds=200))
    with pytest.raises(DatabaseUnavailable):
        await db.open()
    await db.close()


async def test_a_programming_error_is_raised_as_it_is(db: Database) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        async with db.connection() as tx:
            await tx.execute("select * from nowhere")


SOCKET = ".s.PGSQL.5432"


@asynccontextmanager
async def breaking_proxy(url: str) -> AsyncGenerator[str]:
    """The URL of a proxy that loses a few bytes in the middle of a large result, and then the connection."""
    server_socket = Path(str(conninfo_to_dict(url)["host"])) / SOCKET

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            broken = len(data) > 4000
            writer.write(data[:1000] + data[1007:] if broken else data)
            await writer.drain()
            if broken:
                break
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(server_socket)
        await asyncio.gather(
            forward(reader, server_writer), forward(server_reader, writer), return_exceptions=True
        )

    with tempfile.TemporaryDirectory(prefix="gm-", dir="/tmp") as folder:
        async with await asyncio.start_unix_server(serve, f"{folder}/{SOCKET}"):
            yield make_conninfo(url, host=folder)


async def test_a_connection_that_breaks_in_the_middle_of_a_result_is_unavailable(database_url: str) -> None:
    """libpq reports it as a result without SQLSTATE, which psycopg raises as plain DatabaseError."""

    async def read_rows() -> None:
        async with breaking_proxy(database_url) as url:
            db = Database(url)
            await db.open()
            try:
                async with db.transaction() as tx:
                    await tx.execute("select generate_series(1, 10000)")
            finally:
                await db.close()

    with pytest.raises(DatabaseUnavailable) as caught:
        await read_rows()
    assert type(caught.value.__cause__) is psycopg.DatabaseError
    assert caught.value.code == "database_unavailable"


async def test_errors_of_a_statement_are_raised_as_they_are(db: Database) -> None:
    for statement, error in (
        ("select 1 / 0", psycopg.errors.DivisionByZero),
        ("select 'x'::int", psycopg.errors.InvalidTextRepresentation),
        ("do $$ begin raise exception 'no' using errcode = 'ZZ001'; end $$", psycopg.DatabaseError),
    ):
        with pytest.raises(error):
            async with db.connection() as tx:
                await tx.execute(statement.encode())
