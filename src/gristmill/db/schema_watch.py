"""Stops a process of an earlier release when a later one has changed the schema under it.

A start on a schema that is too new is refused (`migrate.py`). A process that is running then learns of the change by a notification that
commits with the migration, and by a look every few seconds in case it missed that. Its jobs go back to the queue, for workers of
the new release.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from gristmill.db.listen import Listener
from gristmill.db.migrate import SCHEMA_CHANNEL, list_migrations
from gristmill.db.pool import Database
from gristmill.errors import GristmillError

log = logging.getLogger(__name__)

_LOOK_AGAIN = timedelta(seconds=10)


async def stop_when_outdated(db: Database, changes: asyncio.Event, stop: Callable[[], None]) -> None:
    """Call `stop` once the schema is newer than this release knows; `changes` is set when it may be."""
    known = list_migrations()[-1].number
    while True:
        try:
            async with db.connection() as tx:
                row = await (await tx.execute("select max(number) from schema_migration")).fetchone()
        except GristmillError:
            row = None  # the database is away
        if row is not None and (row[0] or 0) > known:
            log.error(
                "a later release has changed the schema: this process stops. Start the same release everywhere",
                extra={"schema": row[0], "known": known},
            )
            stop()
            return
        changes.clear()
        try:
            async with asyncio.timeout(_LOOK_AGAIN.total_seconds()):
                await changes.wait()
        except TimeoutError:
            pass


def watch_changes(listener: Listener) -> asyncio.Event:
    """An event that is set when the schema may have changed; before the listener starts."""
    changes = asyncio.Event()
    listener.subscribe(SCHEMA_CHANNEL, lambda _payload: changes.set())
    return changes
