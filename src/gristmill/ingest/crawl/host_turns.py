"""Wait until the next request to a host may be sent: crawls, checks of pages and readings of pages share its turns, in every process.

A host has turns once it is crawled. Whoever would wait too long gets Transient `source_busy` and comes back.
"""

from datetime import timedelta
from urllib.parse import urlsplit

from gristmill import clock
from gristmill.catalog import crawls
from gristmill.db import Database
from gristmill.errors import Transient

PATIENCE = timedelta(seconds=20)  # of someone who reads one page


class HostTurns:
    """Hands out turns."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def wait(self, url: str, patience: timedelta = PATIENCE) -> None:
        """Wait for the next turn of the host of `url`."""
        host = urlsplit(url).netloc
        async with self._db.connection() as tx:
            wait = await crawls.take_turn(tx, host, patience)
        if wait is None:
            return
        if wait < timedelta(0):
            raise Transient(
                f"{host} is crawled slowly, as its robots.txt asks for; the page is fetched later.",
                code="source_busy",
                retry_after=-wait,
            )
        await clock.pause(wait)
