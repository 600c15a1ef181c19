"""Batch concurrent calls: what is submitted while a batch runs becomes the next batch.

There are no timers: an idle batcher starts at once, a busy one collects. If a batch fails, its values are processed one by
one, so that only the one at fault fails. If the database is unavailable, the whole batch fails.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from gristmill.db import DatabaseUnavailable

Input = TypeVar("Input")
Result = TypeVar("Result")


class Batcher(Generic[Input, Result]):
    """Runs `work` on submitted values in batches of at most `size`, with at most `parallel` batches at once."""

    def __init__(
        self, work: Callable[[Sequence[Input]], Awaitable[Sequence[Result]]], *, size: int, parallel: int = 1
    ) -> None:
        self._work, self._size, self._parallel = work, size, parallel
        self._waiting: deque[tuple[Input, asyncio.Future[Result]]] = deque()
        self._running: set[asyncio.Task[None]] = set()

    async def submit(self, value: Input) -> Result:
        """Add a value to the next batch, and return its result."""
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((value, result))
        # Checked here rather than in a done callback, which runs a moment after the task has ended: a value submitted in
        # between would find a "running" task and never be processed.
        self._running = {task for task in self._running if not task.done()}
        if len(self._running) < self._parallel:
            self._running.add(asyncio.create_task(self._run()))
        return await result

    async def _run(self) -> None:
        await asyncio.sleep(0)  # collect what is submitted in the same moment
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(self._size, len(self._waiting)))]
            # Values whose callers were cancelled meanwhile are dropped.
            await self._process([entry for entry in batch if not entry[1].done()])

    async def _process(self, batch: list[tuple[Input, asyncio.Future[Result]]]) -> None:
        if not batch:
            return
        try:
            results = await self._work([value for value, _ in batch])
        except BaseException as error:
            if len(batch) > 1 and isinstance(error, Exception) and not isinstance(error, DatabaseUnavailable):
                for entry in batch:
                    await self._process([entry])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)
