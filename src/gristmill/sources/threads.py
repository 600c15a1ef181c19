"""Runs blocking work in a thread, and waits for its end even when the caller is cancelled.

`asyncio.to_thread` returns to a cancelled caller at once, while the thread goes on. Where both use the same file, the
caller's clean-up would close it under the thread, and another file may soon get the number of the closed one. Here the
caller continues when the thread has ended.
"""

import asyncio
import contextvars
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def run_blocking(work: Callable[[], Result]) -> Result:
    """The result of `work`. A cancelled caller gets its CancelledError only when `work` has ended."""
    # Not `to_thread`, whose task would cost as much as reading a small file.
    call = asyncio.get_running_loop().run_in_executor(None, contextvars.copy_context().run, work)
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        while not call.done():
            try:
                await asyncio.wait([call])
            except asyncio.CancelledError:
                continue
        if not call.cancelled():
            call.exception()  # marks it as retrieved, so that asyncio does not log it
        raise
