"""A stage that takes what waits as one batch: whoever comes while a batch runs is in the next.

No timers: an idle stage starts at once, a busy one gathers. A batch that fails as a whole is done again one by one, so
that what is at fault fails alone.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from gristmill.db import DatabaseUnavailable

Input = TypeVar("Input")
Result = TypeVar("Result")


class Batcher(Generic[Input, Result]):
    """Runs `work` over what was put in, at most `size` at a time, `parallel` batches side by side."""

    def __init__(
        self, work: Callable[[Sequence[Input]], Awaitable[Sequence[Result]]], *, size: int, parallel: int = 1
    ) -> None:
        self._work, self._size, self._parallel = work, size, parallel
        self._waiting: deque[tuple[Input, asyncio.Future[Result]]] = deque()
        self._running: set[asyncio.Task[None]] = set()

    async def submit(self, value: Input) -> Result:
        """What `work` gives for this one."""
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((value, result))
        # Not by a callback, which comes a moment after a task's end: who is put in between would wait for ever.
        self._running = {task for task in self._running if not task.done()}
        if len(self._running) < self._parallel:
            self._running.add(asyncio.create_task(self._run()))
        return await result

    async def _run(self) -> None:
        await asyncio.sleep(0)  # let those in who come at the same moment
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(self._size, len(self._waiting)))]
            # Whoever was cancelled meanwhile wants nothing any more.
            await self._process([entry for entry in batch if not entry[1].done()])

    async def _process(self, batch: list[tuple[Input, asyncio.Future[Result]]]) -> None:
        if not batch:
            return
        try:
            results = await self._work([given for given, _ in batch])
        except BaseException as error:
            if len(batch) > 1 and isinstance(error, Exception) and not isinstance(error, DatabaseUnavailable):
                for entry in batch:
                    await self._process([entry])
                return
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, answer), result in zip(batch, results, strict=True):
                if not answer.done():
                    answer.set_result(result)
