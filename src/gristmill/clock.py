"""Time, in the two places it is read.

The database's clock is the only one that leases, due times and schedules are compared with. SQL reads it
through the function `clock_now()` (migration 0001); a test replaces that function in its own database and
so sets time for every process that uses it. Python never compares instants: it only waits, here.
"""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

_CANCEL_AGAIN_AFTER = 0.2


async def pause(duration: timedelta) -> None:
    """Let `duration` pass."""
    await asyncio.sleep(duration.total_seconds())


async def wait(event: asyncio.Event, limit: timedelta | None) -> bool:
    """Wait until `event` is set, or `limit` has passed; tells which: True when it was set."""
    if event.is_set():
        return True
    if limit is None:
        return await event.wait()
    try:
        async with asyncio.timeout(limit.total_seconds()):
            return await event.wait()
    except TimeoutError:
        return event.is_set()


async def cancel_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended. Once is not enough: Python 3.11 can lose a cancel that meets the very end
    of a wait with a limit, and the task goes on as if nothing had been said."""
    remaining = {task for task in tasks if not task.done()}
    while remaining:
        for task in remaining:
            task.cancel()
        done, remaining = await asyncio.wait(remaining, timeout=_CANCEL_AGAIN_AFTER)
        for task in done:
            if not task.cancelled():
                task.exception()  # taken note of: who stops a task does not care how it ended
