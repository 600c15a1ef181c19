"""Waiting for something to become true, with a limit that only a defect reaches."""

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from gristmill import clock

Found = TypeVar("Found")

LIMIT = 30.0


async def until(
    look: Callable[[], Awaitable[Found | None]], *, limit: float = LIMIT, every: float = 0.02
) -> Found:
    """What `look` gives once it is truthy; fails after `limit` seconds."""
    end = time.monotonic() + limit
    while not (found := await look()):
        assert time.monotonic() < end, f"still not so after {limit} s: {look}"
        await clock.pause(timedelta(seconds=every))
    return found
