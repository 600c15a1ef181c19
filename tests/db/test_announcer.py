"""Announcements: after the commit, together, and not lost when a process stops."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import psycopg

from gristmill import faults
from gristmill.db import Database, announce_after
from tests.wait_until import wait_until


class Notifications:
    """Counts what a connection of its own hears on the channel `news`."""

    def __init__(self, connection: psycopg.AsyncConnection[object]) -> None:
        self._connection, self.count = connection, 0
        connection.add_notify_handler(self._add)

    def _add(self, _: psycopg.Notify) -> None:
        self.count += 1

    async def have_come(self, number: int) -> bool:
        await self._connection.execute("select 1")  # what was sent before its response has been received
        return self.count == number


@asynccontextmanager
async def listening(url: str) -> AsyncGenerator[Notifications]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("listen news")
        yield Notifications(connection)


async def change(db: Database) -> None:
    async with db.transaction() as tx:
        await tx.execute("insert into change default values")
        announce_after(tx, "news")


async def number_of_changes(db: Database) -> int:
    async with db.connection() as tx:
        row = await (await tx.execute("select count(*) from change")).fetchone()
    assert row is not None
    return row[0]


async def test_a_change_is_announced_after_its_commit_and_changes_of_one_moment_together(
    db: Database,
) -> None:
    async with db.connection() as tx:
        await tx.execute("create table change ()")
    async with listening(db.url) as notifications:
        with faults.watch("announcer.before_notify", hold=True) as announcement:
            for _ in range(5):
                await change(db)
            await announcement.passed.wait()
            assert await number_of_changes(db) == 5
            assert await notifications.have_come(0), "a transaction notifies no one by itself"
        await wait_until(lambda: notifications.have_come(2))
        await change(db)
        await wait_until(lambda: notifications.have_come(3))


async def test_a_database_that_is_closed_announces_what_is_left(db: Database) -> None:
    other = Database(db.url)
    await other.open()
    async with db.connection() as tx:
        await tx.execute("create table change ()")
    async with listening(db.url) as notifications:
        await change(other)
        await other.close()
        assert await notifications.have_come(1)
