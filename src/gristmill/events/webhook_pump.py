"""Sees to it that events come in order for webhooks, where nobody else reads them: one a process that works.

Woken by notifications, and looking every second anyway. Killed at any point: the outbox keeps the events, and the next
to look puts them in order.
"""

import asyncio
import logging
from datetime import timedelta

from gristmill import clock
from gristmill.db import Database, DatabaseUnavailable
from gristmill.db.listen import Listener
from gristmill.db.outage import Outage
from gristmill.events.sequencer import sequence_all
from gristmill.events.store import queries

log = logging.getLogger(__name__)

POLL = timedelta(seconds=1)
_COALESCE = timedelta(milliseconds=50)  # many commits are put in order at once


class WebhookPump:
    """Puts events in order while a webhook wants some."""

    def __init__(self, db: Database, listener: Listener) -> None:
        self._db = db
        self._wake = asyncio.Event()
        self._outage = Outage(log, "the database")
        listener.subscribe("event", lambda _payload: self._wake.set())

    async def run(self) -> None:
        """Work until it is cancelled."""
        while True:
            self._wake.clear()
            try:
                wait = await self._pump()
                self._outage.clear()
            except DatabaseUnavailable as error:
                await self._outage.wait(error.message)
                continue
            except Exception as error:  # a bug: webhooks would wait for ever if nobody looked any more
                log.exception("the courier raised a bug")
                await self._outage.wait(type(error).__name__)
                continue
            await clock.pause(_COALESCE)
            await clock.wait(self._wake, wait)

    async def _pump(self) -> timedelta:
        async with self._db.connection() as tx:
            (is_waiting,) = await queries.values(tx, "anything_to_order")
        return POLL if not is_waiting or await sequence_all(self._db) else _COALESCE
