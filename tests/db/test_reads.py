"""Frequent reads on connections of their own: the same rows as by the pool, and nothing is noticed of lost connections."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import RowMaker

from gristmill.db import Database, DatabaseUnavailable, reads
from tests.terminate_backends import terminate_backends
from tests.wait_until import wait_until

STATEMENT = b"select %(id)s::uuid as id, %(names)s::text[] as names, %(n)s::int + %(n)s as n, 5 %% 3 as rest"


@dataclass(frozen=True)
class Sample:
    """A row with values of several types."""

    id: UUID | None
    names: list[str] | None
    n: int | None
    rest: int


def sample(_columns: Any) -> RowMaker[Sample]:
    return lambda values: Sample(*values)


async def fetch(db: Database, **values: Any) -> list[Sample]:
    return await db.reads.fetch(STATEMENT, {"id": None, "names": None, "n": None, **values}, sample)


async def sleep(db: Database, seconds: float) -> list[Any]:
    return await db.reads.fetch(b"select pg_sleep(%(seconds)s)", {"seconds": seconds}, lambda _: list)


async def count_sleepers(db: Database) -> int:
    async with db.connection() as tx:
        cursor = await tx.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and state = 'active'"
            " and query like 'select pg_sleep%'"
        )
        row = await cursor.fetchone()
    return 0 if row is None else row[0]


async def test_rows_and_parameters_of_any_type(db: Database) -> None:
    some_id = uuid4()
    for _ in range(2):  # prepared, then known
        assert await fetch(db, id=some_id, names=["a", 'b"\\'], n=21) == [
            Sample(some_id, ["a", 'b"\\'], 42, 2)
        ]
        assert await fetch(db, n=2**20) == [Sample(None, None, 2**21, 2)]
        assert await fetch(db) == [Sample(None, None, None, 2)]
        assert await db.reads.fetch(b"select 1 where false", {}, sample) == []


async def test_more_reads_at_once_than_connections(db: Database) -> None:
    results = await asyncio.gather(*(fetch(db, n=n) for n in range(100)))
    assert [row.n for (row,) in results] == [2 * n for n in range(100)]
    async with db.connection() as tx:
        cursor = await tx.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and query like '%names%'"
            " and pid <> pg_backend_pid()"
        )
        assert await cursor.fetchone() == (4,)


async def test_connections_that_are_lost_while_idle_are_replaced_unnoticed(db: Database) -> None:
    await fetch(db, n=1)
    await terminate_backends(db.url)
    assert [row.n for row in await fetch(db, n=2)] == [4]


async def test_a_read_whose_connection_is_lost_is_run_again(db: Database) -> None:
    reading = asyncio.create_task(sleep(db, 0.3))
    await wait_until(lambda: count_sleepers(db))
    async with db.connection() as tx:  # only this one: the pool has to run the statement again
        await tx.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database()"
            " and query like 'select pg_sleep%' and state = 'active'"
        )
    assert len(await reading) == 1


async def test_a_wrong_statement_raises_its_own_error_and_the_next_one_works(db: Database) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        await db.reads.fetch(b"select * from nowhere", {}, sample)
    with pytest.raises(psycopg.errors.DivisionByZero):
        await db.reads.fetch(b"select 1 / %(n)s::int", {"n": 0}, sample)
    assert [row.n for row in await fetch(db, n=2)] == [4]


async def test_a_cancelled_read_leaves_nothing_to_the_next_one(db: Database) -> None:
    reading = asyncio.create_task(sleep(db, 60))
    await wait_until(lambda: count_sleepers(db))
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert [row.n for row in await fetch(db, n=2)] == [4]


async def test_a_result_changed_by_a_migration_is_read_anew(db: Database) -> None:
    """A prepared statement whose columns changed fails; the pool runs it, and the connection is replaced."""
    async with db.connection() as tx:
        await tx.execute("create table changing (a int)")
        await tx.execute("insert into changing values (1)")
        assert await db.reads.fetch(b"select * from changing", {}, lambda _: list) == [[1]]
        await tx.execute("alter table changing add b int default 2")
    for _ in range(2):
        assert await db.reads.fetch(b"select * from changing", {}, lambda _: list) == [[1, 2]]


async def test_a_read_does_not_wait_forever_for_a_database_that_hangs(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "_SIZE", 1)
    impatient = Database(database_url, patience=timedelta(milliseconds=200))
    await impatient.open()
    reading = asyncio.create_task(sleep(impatient, 60))
    await wait_until(lambda: count_sleepers(impatient))
    with pytest.raises(DatabaseUnavailable):
        await fetch(impatient)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await impatient.close()
