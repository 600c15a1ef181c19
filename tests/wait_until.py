"""Waiting for something to become true, with a limit that only a defect reaches."""

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from gristmill import clock

Result = TypeVar("Result")

LIMIT = 30.0


async def wait_until(
    condition: Callable[[], Awaitable[Result | None]], *, limit: float = LIMIT, every: float = 0.02
) -> Result:
    """What `look` gives once it is truthy; fails after `limit` seconds."""
    end = time.monotonic() + limit
    while not (result := await condition()):
        assert time.monotonic() < end, f"still not so after {limit} s: {condition}"
        await clock.pause(timedelta(seconds=every))
    return result
