"""Blocking work in a thread, waited for to its end.

`asyncio.to_thread` leaves a cancelled caller at once while the thread goes on. Where both hold the same file,
the caller's clean-up would then close it under the thread's hands, and the number of a closed file is soon
another file's. Here the caller leaves when the thread has.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def run_blocking(work: Callable[[], T]) -> T:
    """The result of `work`; a cancelled caller is released when `work` has ended."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue
        if not task.cancelled():
            task.exception()  # looked at, so that nobody reports it as forgotten
        raise
