"""Interleaves two coroutines: one pauses at a named fault point, the other goes ahead or blocks on a lock."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from gristmill import faults
from tests.operations.manual_worker import ManualWorker
from tests.wait_until import wait_until

Result = TypeVar("Result")


@asynccontextmanager
async def pause_at(
    point: str, first: Coroutine[Any, Any, Result], *, must_reach: bool = True
) -> AsyncGenerator[asyncio.Task[Result]]:
    """Run `first` until `point`, where it pauses while others pass; the end of the block lets it finish.
    If it finishes without reaching the point, that is an error when it `must_reach` it."""
    with faults.watch(point, hold=True) as watch:
        task = asyncio.create_task(first)
        reached_point = asyncio.create_task(watch.passed.wait())
        await asyncio.wait([task, reached_point], return_when=asyncio.FIRST_COMPLETED)
        reached_point.cancel()
        if not watch.passed.is_set() and must_reach:
            raise AssertionError(f"it never reached {point}: {await task}")
        release, watch.hold = watch.hold, asyncio.Event()
        watch.hold.set()
        try:
            yield task
        finally:
            release.set()
            await asyncio.wait([task])


async def start_blocked(worker: ManualWorker, second: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Start `second`, and return once it waits for a lock that another transaction holds."""
    task = asyncio.create_task(second)

    async def is_blocked() -> bool:
        assert not task.done(), f"it did not block: {await task}"
        return await worker.value(
            "select exists (select from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock')"
        )

    await wait_until(is_blocked)
    return task
