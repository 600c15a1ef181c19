"""A process of an earlier release ends when a later one migrates the database under it."""

import asyncio

from gristmill.db import Database
from gristmill.db.listen import Listener
from gristmill.db.migrate import Migration, list_migrations, migrate
from gristmill.db.schema_watch import stop_when_outdated, watch_changes


async def test_a_worker_of_an_earlier_release_stops_when_the_schema_changes(db: Database) -> None:
    stopped = asyncio.Event()
    listener = Listener(db.url)
    changes = watch_changes(listener)
    listener.start()
    watch = asyncio.create_task(stop_when_outdated(db, changes, stopped.set))
    try:
        await listener.connected.wait()
        later = Migration(list_migrations()[-1].number + 1, "later", "create table later ()")
        assert await migrate(db.url, list_migrations()) == 0
        assert not stopped.is_set()
        await migrate(db.url, [*list_migrations(), later])
        await stopped.wait()
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await listener.stop()
