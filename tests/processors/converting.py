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
    """The markdown of the file; `keep` is told what to remember before each wait, `under_way` what was kept."""
    conversion = under_way
    if conversion is None:
        conversion = Conversion(await processor.start(path, name))
    try:
        while True:
            await keep(conversion)
            await wait(pause_before_check(conversion))
            found = await check_conversion(processor, conversion)
            if isinstance(found, str):
                return found
            conversion = found
    except asyncio.CancelledError:
        # Nobody wants it any more. Cancelled again, we still want to have said so.
        with contextlib.suppress(Exception):
            await asyncio.shield(processor.cancel(conversion.remote_id))
        raise
