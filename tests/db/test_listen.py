import asyncio

import pytest

from gristmill.db import Database
from gristmill.db.listen import Listener
from tests.terminate_backends import terminate_backends


class Notifications:
    """Collects the notifications of a listener."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()

    def __call__(self, payload: str | None) -> None:
        self._queue.put_nowait(payload)

    async def next(self) -> str | None:
        return await asyncio.wait_for(self._queue.get(), 60)


async def test_a_notification_arrives_and_a_lost_connection_is_replaced(db: Database) -> None:
    notifications, listener = Notifications(), Listener(db.url)
    listener.subscribe("news", notifications)
    listener.start()
    assert await notifications.next() is None, "called once, for what was sent before it listened"
    async with db.connection() as tx:
        await tx.execute("select pg_notify('news', 'one')")
    assert await notifications.next() == "one"
    await terminate_backends(db.url)
    assert await notifications.next() is None, "called once, for what was sent while the connection was lost"
    async with db.transaction() as tx:
        await tx.execute("select pg_notify('news', 'two')")
    assert await notifications.next() == "two"
    await listener.stop()


async def test_a_callback_that_raises_does_not_end_the_listening(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    notifications, listener = Notifications(), Listener(db.url)

    def fail(payload: str | None) -> None:
        if payload == "poison":
            raise RuntimeError("a bug")

    listener.subscribe("news", fail)
    listener.subscribe("news", notifications)
    listener.start()
    assert await notifications.next() is None
    async with db.connection() as tx:
        await tx.execute("select pg_notify('news', 'poison')")
        assert await notifications.next() is None, "connected again: look at what may have been missed"
        await tx.execute("select pg_notify('news', 'two')")
    assert await notifications.next() == "two"
    await listener.stop()
    tracebacks = [record for record in caplog.records if record.exc_info]
    assert len(tracebacks) == 1
