"""Waiting, and the rule about clocks.

Leases, due times and schedules are compared with the database's clock only. SQL reads it through the function
`clock_now()`; a test replaces that function in its own database and so sets the time for every process
that uses it. Python never compares times of day: it only waits, with the functions below.
"""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

_CANCEL_AGAIN_AFTER = 0.2


async def pause(duration: timedelta) -> None:
    """Wait for `duration`."""
    await asyncio.sleep(duration.total_seconds())


async def wait(event: asyncio.Event, limit: timedelta | None) -> bool:
    """Wait until `event` is set or `limit` has passed; returns whether it was set."""
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
    """Cancel tasks until they have ended. One cancel is not enough: Python 3.11 can lose one that arrives just as a
    timed wait ends, and the task continues."""
    remaining = {task for task in tasks if not task.done()}
    while remaining:
        for task in remaining:
            task.cancel()
        done, remaining = await asyncio.wait(remaining, timeout=_CANCEL_AGAIN_AFTER)
        for task in done:
            if not task.cancelled():
                task.exception()  # retrieved so that asyncio does not log it: the caller does not need it
