"""Wait until something becomes true.

The limit is in looks, not in seconds: on a busy machine a look takes longer, so the wait grows with the load, and only
a defect uses up all looks. What looks take, the code under test lacks: they become less frequent.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from gristmill import clock, faults

Result = TypeVar("Result")

LIMIT = 30.0  # seconds on a machine where looking costs nothing
_FIRST_PAUSE, _MAX_PAUSE, _GROWTH = 0.02, 0.1, 1.2


async def wait_until(
    condition: Callable[[], Awaitable[Result | None]], *, limit: float = LIMIT, every: float | None = None
) -> Result:
    """Return what `condition` returns once that is truthy. It is looked at `every` so many seconds, by default less and less
    often, and as many times as would take `limit` seconds at the first pace."""
    pause = every or _FIRST_PAUSE
    looks = max(1, round(limit / pause))
    for _ in range(looks):
        if result := await condition():
            return result
        await clock.pause(timedelta(seconds=pause))
        pause = every or min(pause * _GROWTH, _MAX_PAUSE)
    raise AssertionError(f"still not so after {looks} looks: {condition}")


def wait_without_loop(condition: Callable[[], Result | None], *, limit: float = LIMIT) -> Result:
    """The same for tests that have no event loop, such as those of pages."""
    pause = _FIRST_PAUSE
    looks = round(limit / pause)
    for _ in range(looks):
        if result := condition():
            return result
        time.sleep(pause)
        pause = min(pause * _GROWTH, _MAX_PAUSE)
    raise AssertionError(f"still not so after {looks} looks: {condition}")


async def reached(watch: faults.PointWatch, *, limit: float = LIMIT) -> None:
    """Wait until the watched fault point is passed."""

    async def passed() -> bool:
        return await clock.wait(watch.passed, timedelta(seconds=_MAX_PAUSE))

    await wait_until(passed, limit=limit)


async def ended(task: "asyncio.Task[Result]", *, limit: float = LIMIT) -> Result:
    """Wait until a task has ended; its result."""

    async def done() -> bool:
        await asyncio.wait([task], timeout=_MAX_PAUSE)
        return task.done()

    await wait_until(done, limit=limit)
    return await task
