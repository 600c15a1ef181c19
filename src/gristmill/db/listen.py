"""Wake-ups from other processes: LISTEN on a connection of its own, which is reopened when it is lost.

A notification only ever means "look again". After every connect each subscriber is called once without a payload, so that
nothing depends on a single notification arriving.
"""

import asyncio
import logging
from collections.abc import Callable

import psycopg
from psycopg import sql

from gristmill import clock
from gristmill.db.outage import Outage, first_line

log = logging.getLogger(__name__)


class Listener:
    """Calls back on notifications; `payload` is None when some may have been missed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._callbacks: dict[str, list[Callable[[str | None], None]]] = {}
        self._locks: list[tuple[int, int]] = []
        self._task: asyncio.Task[None] | None = None
        self.connected = asyncio.Event()

    def subscribe(self, channel: str, callback: Callable[[str | None], None]) -> None:
        """Have `callback` called for `channel`; before `start`."""
        self._callbacks.setdefault(channel, []).append(callback)

    def hold_lock(self, space: int, key: int) -> None:
        """Hold an advisory lock on the listening connection: a sign of life that ends with this process."""
        self._locks.append((space, key))

    def start(self) -> None:
        """Listen from now on, through any number of lost connections."""
        self._task = asyncio.create_task(self._run(), name="listener")

    async def stop(self) -> None:
        """Stop listening."""
        if self._task is not None:
            await clock.cancel_tasks([self._task])

    async def _run(self) -> None:
        outage = Outage(log, "the connection for notifications of the database")
        while True:
            unexpected, reason = None, "the connection ended"
            try:
                await self._listen(outage)
            except psycopg.Error as error:
                reason = first_line(error)
            except (
                Exception
            ) as error:  # a bug in a callback: without notifications, everything waits for polls
                unexpected = error
            finally:
                self.connected.clear()
            await (outage.wait(reason) if unexpected is None else outage.wait_unexpected(unexpected))

    async def _listen(self, outage: Outage) -> None:
        async with await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, application_name="gristmill listener"
        ) as connection:
            for lock in self._locks:
                await connection.execute("select pg_advisory_lock(%s, %s)", lock)
            for channel in self._callbacks:
                await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
            self.connected.set()
            for channel in self._callbacks:
                self._notify(channel, None)
            outage.clear()
            async for notice in connection.notifies():
                self._notify(notice.channel, notice.payload)

    def _notify(self, channel: str, payload: str | None) -> None:
        for callback in self._callbacks.get(channel, ()):
            callback(payload)
