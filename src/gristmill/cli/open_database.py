"""Opens the database alone, for commands that need nothing else of Gristmill and start in a third of the time."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from gristmill.cli.output import err
from gristmill.db import Database, local_server
from gristmill.db.migrate import migrate
from gristmill.settings import Settings

_MOMENT = 0.5  # seconds
_CONNECTIONS = 2


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncGenerator[Database]:
    """Open the database; other processes may use it at the same time."""
    async with AsyncExitStack() as stack:
        with message_after_a_moment(settings):
            if settings.database_url is not None:
                url = settings.database_url.get_secret_value()
            else:
                server = await asyncio.to_thread(local_server.start, settings.data_dir)
                stack.push_async_callback(asyncio.to_thread, server.close)
                url = server.url
            await migrate(url)
            db = Database(url, size=_CONNECTIONS)
            await db.open()
            stack.push_async_callback(db.close)
        yield db


@contextmanager
def message_after_a_moment(settings: Settings) -> Generator[None]:
    """Print one line if the block takes longer than a moment to open the database, and only in a terminal."""
    verb = "Connecting to" if settings.database_url else "Starting"
    timer = threading.Timer(_MOMENT, lambda: err.print(f"[dim]{verb} the database …[/dim]"))
    timer.daemon = True
    if err.is_terminal:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
