"""A clock of the database that the test controls."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from gristmill.db import Database


@dataclass(frozen=True)
class DatabaseClock:
    """Replaces `clock_now()` in one database; time stops until `advance`."""

    db: Database

    @classmethod
    async def install(cls, db: Database) -> Self:
        """Stop the clock of `db`, for every process that uses it."""
        async with db.connection() as tx:
            await tx.execute("create table test_clock (at timestamptz not null)")
            await tx.execute("insert into test_clock values ('2030-01-01 00:00:00+00')")
            await tx.execute(
                "create or replace function clock_now() returns timestamptz"
                " language sql stable parallel safe as 'select at from test_clock'"
            )
        return cls(db)

    async def advance(self, by: timedelta) -> None:
        """Let time pass."""
        async with self.db.connection() as tx:
            await tx.execute("update test_clock set at = at + %s", [by])


async def stop_clock(database_url: str) -> None:
    """Stop the clock of a database that the caller has not opened."""
    db = Database(database_url)
    await db.open()
    await DatabaseClock.install(db)
    await db.close()
