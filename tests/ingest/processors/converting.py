"""One conversion from its start to its end, as a job has it over many attempts (tests/ingest/test_convert.py)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from gristmill import clock
from gristmill.ingest.processors import Conversion, Processor, check_conversion, pause_before_check

Keep = Callable[[Conversion], Awaitable[None]]


async def convert(
    processor: Processor,
    path: Path,
    name: str,
    keep: Keep,
    under_way: Conversion | None = None,
    wait: Callable[[timedelta], Awaitable[None]] = clock.pause,
) -> str:
    """The markdown of the file; `keep` gets the state before each wait, `under_way` is a state to continue from."""
    conversion = under_way
    if conversion is None:
        conversion = Conversion(await processor.start(path, name))
    try:
        while True:
            await keep(conversion)
            await wait(pause_before_check(conversion))
            result = await check_conversion(processor, conversion)
            if isinstance(result, str):
                return result
            conversion = result
    except asyncio.CancelledError:
        # No longer wanted. Shielded, so that a second cancellation does not stop the request.
        with contextlib.suppress(Exception):
            await asyncio.shield(processor.cancel(conversion.remote_id))
        raise
