"""Opens a Gristmill in this process, and says so in a terminal when that takes more than a moment."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from gristmill import app
from gristmill.cli.open_database import message_after_a_moment
from gristmill.settings import Settings


@asynccontextmanager
async def open_gristmill(settings: Settings, *, work: bool) -> AsyncGenerator[app.Gristmill]:
    """`app.gristmill`, with a line on standard error when the database takes a while to start."""
    async with AsyncExitStack() as stack:
        with message_after_a_moment(settings):
            mill = await stack.enter_async_context(app.gristmill(settings, work=work))
        yield mill
