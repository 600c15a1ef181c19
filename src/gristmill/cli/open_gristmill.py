"""Opens a Gristmill in this process, and says so in a terminal when that takes more than a moment."""

import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from gristmill import app
from gristmill.cli.output import err
from gristmill.settings import Settings

_MOMENT = 0.5  # seconds


@asynccontextmanager
async def open_gristmill(settings: Settings, *, work: bool) -> AsyncGenerator[app.Gristmill]:
    """`app.gristmill`, with a line on standard error when the database takes a while to start."""
    async with AsyncExitStack() as stack:
        with _message_after_a_moment("Connecting to" if settings.database_url else "Starting"):
            mill = await stack.enter_async_context(app.gristmill(settings, work=work))
        yield mill


@contextmanager
def _message_after_a_moment(verb: str) -> Generator[None]:
    """Print one line if the block takes longer than a moment, and only in a terminal."""
    timer = threading.Timer(_MOMENT, lambda: err.print(f"[dim]{verb} the database …[/dim]"))
    timer.daemon = True
    if err.is_terminal:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
