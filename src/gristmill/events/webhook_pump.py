"""Sequences events for webhooks where no stream does it: one pump per worker process.

It is woken by notifications, and polls every second anyway. Killed at any point, it loses nothing: the events stay in the
outbox, and the next process to look sequences them.
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
_COALESCE = timedelta(milliseconds=50)  # so that many commits are sequenced at once


class WebhookPump:
    """Sequences events while a webhook is active."""

    def __init__(self, db: Database, listener: Listener) -> None:
        self._db = db
        self._wake = asyncio.Event()
        self._outage = Outage(log, "the database")
        self._failures = Outage(log, "the webhook pump")
        listener.subscribe("event", lambda _payload: self._wake.set())

    async def run(self) -> None:
        """Run until cancelled, from the moment that the listener is connected."""
        wait = POLL
        while True:
            await clock.wait(self._wake, wait)
            self._wake.clear()
            try:
                wait = await self._pump()
                self._outage.clear()
                self._failures.clear()
            except DatabaseUnavailable as error:
                await self._outage.wait(error.message)
                self._wake.set()
            except Exception as error:  # a bug: without this loop webhooks would wait forever
                await self._failures.wait_unexpected(error)
                self._wake.set()
            await clock.pause(_COALESCE)

    async def _pump(self) -> timedelta:
        async with self._db.connection() as tx:
            (is_waiting,) = await queries.values(tx, "is_sequencing_due")
        return POLL if not is_waiting or await sequence_all(self._db) else _COALESCE
