"""The last stage of documents in a search engine: chunks that are written are put there, and then their versions published.

    write    a fenced transaction: chunk rows and put tasks, of versions that do not answer yet     (write.py)
    put      outside any transaction, many documents together; the engine makes them searchable
    mark     a fenced transaction: closes the put tasks, and publishes the versions that have no open one left

A document that waits for the engine uses no slot, no connection and no place in a stage that others need: however slow the
engine is, bases in the embedded index don't notice.

While the engine is down, a put is tried again for a while, then the document returns to the job queue without a counted
attempt. Killed between `put` and `mark`: the next attempt reads the chunks of the open tasks from the table and puts them
again. That changes nothing where the engine has them, and nothing is embedded again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from gristmill import clock, faults
from gristmill.catalog import ItemId
from gristmill.db import Database
from gristmill.errors import GristmillError
from gristmill.ingest.batcher import Batcher
from gristmill.ingest.task import IndexTask, WaitReason
from gristmill.jobs import Snooze
from gristmill.search.index import tasks
from gristmill.search.index.engine import EngineIndex, IndexUnavailable, Labels, Point
from gristmill.search.index.engine_indexes import EngineIndexes
from gristmill.search.index.pending_put import PendingPut

MAX_WAITING = 1_024  # chunks of one document that wait for the engine; then its reader waits
_PUTS_PER_REQUEST = 256
_ENOUGH_CHUNKS = (
    200  # for a request: the engine needs less than half the time for each than for those of thirty
)
_MAX_DELAY = timedelta(seconds=0.5)  # how long chunks wait for those of other documents
_PARALLEL = 2  # requests to the engine for each embedder: while one is indexed, the next is prepared
_PATIENCE = timedelta(seconds=20)  # how long a document waits here for an engine that is down
_PAUSES = (1, 2, 5, 10, 20)  # seconds

PutOutcome = GristmillError | None


@dataclass(frozen=True, eq=False)
class EnginePut:
    """Chunks of one document that the engine has to get; none, when only the document's end is left to publish."""

    task: IndexTask
    pending: PendingPut | None


class PutQueue:
    """The chunks of one document that wait for the engine."""

    def __init__(self, task: IndexTask) -> None:
        self.task = task
        self.open: set[EnginePut] = set()
        self.is_written = False  # completely, so that it can be published once nothing is open
        self.written = asyncio.Event()  # the same, or it has ended
        self.waiting_for: WaitReason | None = None  # the engine's error, while it is down
        self._room = asyncio.Event()
        self._room.set()

    def add(self, put: EnginePut) -> None:
        """Add chunks."""
        self.open.add(put)
        self._update_room()

    def remove(self, put: EnginePut) -> None:
        """Remove chunks that are marked as indexed."""
        self.open.discard(put)
        self._update_room()

    def is_complete_with(self, marked: Sequence[EnginePut]) -> bool:
        """Whether the document can be published once these chunks are marked."""
        return self.is_written and self.open <= set(marked)

    def _update_room(self) -> None:
        waiting = sum(len(put.pending.nos) for put in self.open if put.pending is not None)
        (self._room.clear if waiting >= MAX_WAITING else self._room.set)()

    @property
    def is_full(self) -> bool:
        """Whether its reader has to wait."""
        return not self._room.is_set()

    async def wait_for_room(self) -> None:
        """Wait until more chunks may be added, or the document has ended."""
        await self.task.completion.wait_for_either(self._room)


class _Collector:
    """Holds chunks back while more are on their way, so that the engine gets many at once."""

    def __init__(self, is_more_coming: Callable[[], bool]) -> None:
        self._is_more_coming = is_more_coming
        self._chunks = 0
        self._released = asyncio.Event()

    async def wait_for_others(self, chunks: int) -> None:
        """Wait until there are enough chunks, no document is left that could bring more, or half a second has passed."""
        released = self._released
        self._chunks += chunks
        if self._chunks >= _ENOUGH_CHUNKS or not self._is_more_coming():
            self._release()
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(released.wait(), _MAX_DELAY.total_seconds())
            if not released.is_set():
                self._release()

    def _release(self) -> None:
        self._released.set()
        self._released, self._chunks = asyncio.Event(), 0


class EngineStage:
    """Puts the chunks of all documents of a process that are in a search engine. `is_more_coming` says whether some of them
    are not written completely."""

    def __init__(
        self,
        db: Database,
        indexes: EngineIndexes,
        mark: Callable[[EnginePut], Awaitable[None]],
        is_more_coming: Callable[[], bool],
    ) -> None:
        self._db, self._indexes, self._mark = db, indexes, mark
        self._collector = _Collector(is_more_coming)
        self._batchers: dict[EngineIndex, Batcher[PendingPut, PutOutcome]] = {}
        self._running: set[asyncio.Task[None]] = set()

    def start(self, queue: PutQueue, put: EnginePut) -> None:
        """Put these chunks, and have them marked, while the caller goes on. Errors end the document's attempt."""
        queue.add(put)
        run = asyncio.create_task(self._run(queue, put), name="engine put")
        self._running.add(run)
        run.add_done_callback(self._running.discard)

    async def _run(self, queue: PutQueue, put: EnginePut) -> None:
        try:
            if put.pending is None or await self._put(queue, put.pending):
                await faults.point("index.put")
                await self._mark(put)
        except Exception as error:
            queue.task.completion.fail(error)

    async def _put(self, queue: PutQueue, pending: PendingPut) -> bool:
        """Whether the engine has the chunks now. If not, the document has ended."""
        await self._collector.wait_for_others(len(pending.nos))
        started, attempt = time.monotonic(), 0
        while not queue.task.completion.is_done:
            error = await self._try_put(queue.task, pending)
            if error is None:
                queue.waiting_for = None
                return True
            if not isinstance(error, IndexUnavailable):
                raise error
            pause = timedelta(seconds=_PAUSES[min(attempt, len(_PAUSES) - 1)])
            attempt += 1
            if time.monotonic() - started + pause.total_seconds() > _PATIENCE.total_seconds():
                queue.task.completion.finish(Snooze(pause, error))
                return False
            queue.waiting_for = WaitReason(
                error.code, error.message, time.monotonic() + pause.total_seconds()
            )
            await clock.pause(pause)
        return False

    async def _try_put(self, task: IndexTask, pending: PendingPut) -> PutOutcome:
        try:
            index = await self._indexes.of(task.base)
        except IndexUnavailable as error:
            return error
        if index not in self._batchers:
            self._batchers[index] = Batcher(
                lambda batch: self._put_batch(index, batch), size=_PUTS_PER_REQUEST, parallel=_PARALLEL
            )
        return await self._batchers[index].submit(pending)

    async def _put_batch(self, index: EngineIndex, batch: Sequence[PendingPut]) -> list[PutOutcome]:
        """Put the chunks of several documents at once. If the engine refuses them, one by one: only one may be at fault."""
        # Read after the put tasks are committed: a change of labels after this waits for them (`tasks.relabels`).
        async with self._db.connection() as tx:
            labels = await tasks.labels(tx, [pending.task.item_id for pending in batch])
        try:
            await index.put(await asyncio.to_thread(_points, batch, labels))
        except IndexUnavailable as error:
            return [error for _ in batch]
        except GristmillError as error:
            if len(batch) == 1:
                return [error]
            return [outcome for pending in batch for outcome in await self._put_batch(index, [pending])]
        return [None for _ in batch]


def _points(batch: Sequence[PendingPut], labels: Mapping[ItemId, Labels]) -> list[Point]:
    """The points of items that still exist."""
    return [
        point
        for pending in batch
        if pending.task.item_id in labels
        for point in pending.points(labels[pending.task.item_id])
    ]
