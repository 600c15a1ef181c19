"""Wake-ups from other processes: LISTEN on a connection of its own, with news of its own health.

A notification only ever means "look again": who missed one (the connection was down) is told the same
thing at the next connect, so that nothing depends on a single notification arriving.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

import psycopg
from psycopg import sql

from gristmill import clock

log = logging.getLogger(__name__)

_FIRST_WAIT = timedelta(milliseconds=100)
_LONGEST_WAIT = timedelta(seconds=5)


class Listener:
    """Calls back on notifications; `payload` is None when some may have been missed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._callbacks: dict[str, list[Callable[[str | None], None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self.connected = asyncio.Event()

    def subscribe(self, channel: str, callback: Callable[[str | None], None]) -> None:
        """Have `callback` called for `channel`; before `start`."""
        self._callbacks.setdefault(channel, []).append(callback)

    def start(self) -> None:
        """Listen from now on, through any number of lost connections."""
        self._task = asyncio.create_task(self._run(), name="listener")

    async def stop(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        wait = _FIRST_WAIT
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._url, autocommit=True, application_name="gristmill listener"
                ) as connection:
                    for channel in self._callbacks:
                        await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
                    wait = _FIRST_WAIT
                    self.connected.set()
                    for channel in self._callbacks:
                        self._tell(channel, None)
                    async for notice in connection.notifies():
                        self._tell(notice.channel, notice.payload)
            except psycopg.Error as error:
                log.warning(
                    "listener lost its connection", extra={"reason": str(error).strip(), "again_in": wait}
                )
            finally:
                self.connected.clear()
            await clock.pause(wait)
            wait = min(wait * 2, _LONGEST_WAIT)

    def _tell(self, channel: str, payload: str | None) -> None:
        for callback in self._callbacks.get(channel, ()):
            callback(payload)
