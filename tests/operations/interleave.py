"""Two who meet: one is held at a named point, the other goes ahead or waits for it."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from gristmill import faults
from tests.operations.manual_worker import ManualWorker
from tests.wait_until import wait_until

Result = TypeVar("Result")


@asynccontextmanager
async def paused_at(
    point: str, first: Coroutine[Any, Any, Result], *, must_reach: bool = True
) -> AsyncGenerator[asyncio.Task[Result]]:
    """`first` under way and held at `point`, while others pass it; the end of the block lets it go on to its end.
    One that never comes by has ended before the block begins, which is an error if it `surely` does."""
    with faults.watch(point, hold=True) as watch:
        task = asyncio.create_task(first)
        passed = asyncio.create_task(watch.passed.wait())
        await asyncio.wait([task, passed], return_when=asyncio.FIRST_COMPLETED)
        passed.cancel()
        if not watch.passed.is_set() and must_reach:
            raise AssertionError(f"it never came by {point}: {await task}")
        release, watch.hold = watch.hold, asyncio.Event()
        watch.hold.set()
        try:
            yield task
        finally:
            release.set()
            await asyncio.wait([task])


async def start_blocked(hand: ManualWorker, second: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """`second` under way, and waiting for a lock that somebody else has."""
    task = asyncio.create_task(second)

    async def is_blocked() -> bool:
        assert not task.done(), f"it did not wait: {await task}"
        return await hand.value(
            "select exists (select from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock')"
        )

    await wait_until(is_blocked)
    return task
