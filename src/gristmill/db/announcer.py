"""Wake-ups for other processes, sent after the commit that gives them something to see.

PostgreSQL commits transactions that notify one after the other, each until it is on the disk: a notification within every
transaction would make all workers of an installation queue for their commits. So a transaction only notes that it has something to
announce. Its process announces it when the transaction has ended, by a statement that waits for no disk, at most once every
`_COALESCE`.

A process that is killed in between announces nothing: whoever listens must also look by itself, as everyone does who may lose
the connection.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from weakref import WeakKeyDictionary

from gristmill import clock, faults
from gristmill.db.outage import DatabaseUnavailable
from gristmill.db.queries import Tx

_COALESCE = timedelta(milliseconds=25)
_PATIENCE = timedelta(seconds=1)  # when the process stops

_noted: WeakKeyDictionary[Tx, set[str]] = WeakKeyDictionary()


def announce_after(tx: Tx, channel: str) -> None:
    """Announce a change on this channel once the block that uses the connection has ended."""
    _noted.setdefault(tx, set()).add(channel)


class Announcer:
    """Announces the changes of one process."""

    def __init__(self, notify: Callable[[Sequence[str]], Awaitable[None]]) -> None:
        self._notify = notify
        self._channels: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def take_from(self, tx: Tx) -> None:
        """Announce soon what was noted for this connection."""
        if channels := _noted.pop(tx, None):
            self._channels |= channels
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run(), name="announcer")

    async def close(self) -> None:
        """Announce what is left, unless the database does not respond."""
        if self._task is not None:
            await clock.cancel_tasks([self._task])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE.total_seconds()):
                await self._announce()

    async def _run(self) -> None:
        while self._channels:
            await self._announce()
            await clock.pause(_COALESCE)

    async def _announce(self) -> None:
        channels, self._channels = self._channels, set()
        if not channels:
            return
        try:
            await faults.point("announcer.before_notify")
            await self._notify(sorted(channels))
        except asyncio.CancelledError:
            self._channels |= channels
            raise
        except DatabaseUnavailable:
            return  # those who listen have lost their connections too, and look when they have new ones
