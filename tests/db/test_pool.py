from datetime import timedelta

import psycopg
import pytest

from gristmill.db import Database, DatabaseUnavailable
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


async def test_connections_that_died_while_idle_are_replaced_unnoticed(db: Database) -> None:
    async with db.transaction() as tx:
        await tx.execute("select 1")
    await terminate_backends(db.url)
    async with db.transaction() as tx:
        cursor = await tx.execute("select 42")
        assert await cursor.fetchone() == (42,)


async def test_a_connection_that_dies_in_a_transaction_is_told_as_transient(db: Database) -> None:
    async def cut_off() -> None:
        async with db.transaction() as tx:
            await tx.execute("select 1")
            await terminate_backends(db.url)
            await tx.execute("select 2")

    with pytest.raises(DatabaseUnavailable) as caught:
        await cut_off()
    assert caught.value.code == "database_unavailable"


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    db = Database("postgresql:///none?host=/nowhere", patience=timedelta(milliseconds=200))
    with pytest.raises(DatabaseUnavailable):
        await db.open()
    await db.close()


async def test_a_programming_error_is_not_dressed_up(db: Database) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        async with db.connection() as tx:
            await tx.execute("select * from nowhere")
