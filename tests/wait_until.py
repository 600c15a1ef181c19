"""Wait until something becomes true.

The limit is in looks, not in seconds: on a busy machine a look takes longer, so the wait grows with the load, and only
a defect uses up all looks.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from gristmill import clock, faults

Result = TypeVar("Result")

LIMIT = 30.0  # seconds on a machine where looking costs nothing


async def wait_until(
    condition: Callable[[], Awaitable[Result | None]], *, limit: float = LIMIT, every: float = 0.02
) -> Result:
    """Return what `condition` returns once that is truthy; fail after `limit / every` looks."""
    for _ in range(max(1, round(limit / every))):
        if result := await condition():
            return result
        await clock.pause(timedelta(seconds=every))
    raise AssertionError(f"still not so after {limit / every:.0f} looks: {condition}")


async def reached(watch: faults.PointWatch, *, limit: float = LIMIT) -> None:
    """Wait until the watched fault point is passed."""

    async def passed() -> bool:
        return watch.passed.is_set()

    await wait_until(passed, limit=limit)


async def ended(task: "asyncio.Task[Result]", *, limit: float = LIMIT) -> Result:
    """Wait until a task has ended; its result."""

    async def done() -> bool:
        return task.done()

    await wait_until(done, limit=limit)
    return await task
