"""The embed stage: the chunks of many documents become batches, and batches become vectors.

    take       the next chunks from the queue, at most `size` (embed_queue.py)
    look up    a text that has a vector already, in this batch or in a base of the same embedder, costs nothing
    reserve    what the other texts cost, of the budgets; documents whose texts no budget has room for wait in the job queue
    embed      the other texts, longest first
    hand on    to the write stage; the next batch is taken after this one is committed

So few chunks are in flight at any moment, and a kill loses only those. `size` follows the embedder: about a second of its work, at
least `MIN_BATCH`, at most `MAX_BATCH`. Chunks that a user waits for don't wait for a batch to end: one more batch is started.

On failure: a rejected text fails only its own document. While the embedder is down, all documents wait here for a while,
then return to the job queue without a counted attempt. A failed batch is retried document by document, in ever smaller
batches, until it is clear which document is at fault: one that keeps failing while others succeed (or, if there are no
others, while a probe text succeeds) gets a counted attempt. After a rate limit the same batches are retried unchanged.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from gristmill import clock, faults
from gristmill.catalog import Base
from gristmill.embedding import Embedder
from gristmill.errors import Transient, WorkError
from gristmill.ingest.chunk import TextChunk
from gristmill.ingest.embed_queue import DocumentQueue, EmbedQueue, QueuedChunk
from gristmill.ingest.reserve import Purse, snooze_without_budget
from gristmill.ingest.task import EmbeddedChunks, EmbedTotals, IndexTask, WaitReason
from gristmill.jobs import Snooze
from gristmill.search import Chunk
from gristmill.telemetry import pipeline_metrics
from gristmill.usage import BudgetUsedUp, Grant, Spending

MIN_BATCH, MAX_BATCH = 16, 200  # chunks
PARALLEL = 2  # batches: while one is written, the next is embedded; and one more for urgent documents
_LARGE_BATCH = 64  # chunks; batches grow to this size only with a fast embedder
_TARGET_SECONDS = 1.0  # of embedding per batch
_PATIENCE = timedelta(seconds=20)  # how long documents wait here for an embedder that is down
_PAUSES = (1, 2, 5, 10, 20, 60)  # seconds
_MAX_STRIKES = 3
_PROBE_TEXT = "ok"
# These errors are not about any text. Searching for a bad text would only send more requests to a provider that asked for
# fewer.
_RATE_LIMIT_CODES = frozenset({"embedder_rate_limited", "embedder_paced"})

Vector = NDArray[np.float32]
VectorOrError = Vector | WorkError
FindVectors = Callable[[str, Base, Sequence[bytes]], Awaitable[dict[bytes, Vector]]]
EmbedEach = Callable[[Embedder, Sequence[str]], Awaitable[Sequence[VectorOrError]]]


@dataclass(frozen=True)
class _ReservedTexts:
    """The texts that may be embedded, and those that have to wait, by hash."""

    granted: Sequence[bytes]
    denied: Mapping[bytes, BudgetUsedUp]


class EmbedStage:
    """The embed stage of one embedder. It alone changes the queues of its documents."""

    def __init__(
        self,
        embedder: Embedder,
        find_vectors: FindVectors,
        write: Callable[[Sequence[EmbeddedChunks]], Awaitable[None]],
        embed_each: EmbedEach,
        purse: Purse,
    ) -> None:
        self._embedder, self._find_vectors = embedder, find_vectors
        self._write, self._embed_each = write, embed_each
        self._purse = purse
        self._documents: dict[IndexTask, DocumentQueue] = {}
        self._queue = EmbedQueue()
        self._running: set[asyncio.Task[None]] = set()
        self._busy = 0  # how many of them have a batch
        # By the hash of the text, from the call until the chunk is written: the other batch waits for these.
        self._pending_vectors: dict[bytes, asyncio.Future[VectorOrError]] = {}
        self._calls: dict[asyncio.Task[Sequence[VectorOrError]], list[IndexTask]] = {}
        self._size = MIN_BATCH
        self._failures = 0
        self._paused_until = 0.0
        self._successes = 0

    def add(self, task: IndexTask, chunks: Sequence[TextChunk], *, is_last: bool) -> None:
        """Queue the next chunks of a document; `is_last` if there will be no more."""
        if task not in self._documents:
            self._documents[task] = DocumentQueue(task)
        self._documents[task].add(chunks, is_last=is_last)
        self._enqueue(self._documents[task])

    async def wait_for_room(self, task: IndexTask) -> None:
        """Wait until more chunks of the document may be added, or it has ended."""
        await self._documents[task].wait_for_room()

    def waiting_for(self, task: IndexTask) -> WaitReason | None:
        """What the document waits for, if the embedder is down."""
        queue = self._documents.get(task)
        return queue.waiting_for if queue else None

    def seconds(self, task: IndexTask) -> float:
        """How long the document's batches took to embed."""
        queue = self._documents.get(task)
        return queue.totals.seconds if queue else 0.0

    def remove(self, task: IndexTask) -> None:
        """Forget a document that has ended, and cancel the requests that only it was waiting for."""
        queue = self._documents.pop(task, None)
        if queue is not None:
            self._queue.remove(queue)
        for call, tasks in self._calls.items():
            if all(other.completion.is_done for other in tasks):
                call.cancel()

    def _enqueue(self, queue: DocumentQueue) -> None:
        if queue.task.completion.is_done:
            return
        self._queue.add(queue)
        # Checked here rather than in a done callback, for the same reason as in `Batcher.submit`.
        self._running = {run for run in self._running if not run.done()}
        if len(self._running) <= PARALLEL and self._must_start():
            self._running.add(asyncio.create_task(self._run(), name="embedding"))

    def _must_start(self) -> bool:
        """Whether to take a batch now. With a fast embedder, a transaction costs more than the vectors: while another batch is
        under way, the next one waits until it is at least half full; the other one takes it otherwise."""
        if self._queue.is_urgent:
            return self._busy <= PARALLEL
        if self._busy >= PARALLEL:
            return False
        return self._busy == 0 or self._size < _LARGE_BATCH or self._queue.is_worth_a_batch(self._size)

    # ── batches ──────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        while self._queue:
            if (pause := self._paused_until - time.monotonic()) > 0:
                await clock.pause(timedelta(seconds=pause))
                continue
            if not self._must_start():
                return
            batch, ended = self._queue.next_batch(self._size)
            if not batch and not ended:
                return
            self._busy += 1
            grants: dict[IndexTask, Grant] = {}
            try:
                if len(batch) == 1 and batch[0].queue.batch_limit == 1:
                    await self._probe_embedder()
                embedded = await self._embed_batch(batch, grants)
                await faults.point("index.embedded")
            except Transient as error:
                self._back_off(batch, ended, error)
            except Exception as error:
                for queue in dict.fromkeys([*(queued.queue for queued in batch), *ended]):
                    queue.task.completion.fail(error)
            else:
                tasks = {message.task for message in embedded}
                embedded += [
                    EmbeddedChunks(queue.task, (), queue.totals) for queue in ended if queue.task not in tasks
                ]
                await self._write([message for message in embedded if not message.task.completion.is_done])
                snooze_without_budget(grants)
            finally:
                self._busy -= 1
                await self._give_back(grants)
                for queued in batch:
                    self._pending_vectors.pop(queued.digest, None)

    async def _give_back(self, grants: Mapping[IndexTask, Grant]) -> None:
        """Give back what was reserved and not written; if the database is down, the end of the jobs does."""
        ids = [grant.spending.reservation for grant in grants.values()]
        with contextlib.suppress(Transient):
            await self._purse.release([reservation for reservation in ids if reservation is not None])

    async def _embed_batch(
        self, batch: Sequence[QueuedChunk], grants: dict[IndexTask, Grant]
    ) -> list[EmbeddedChunks]:
        if not batch:
            return []
        known: dict[bytes, Vector] = {}
        for base in {queued.queue.task.base.chunk_set: queued.queue.task.base for queued in batch}.values():
            hashes = list({queued.digest for queued in batch if queued.queue.task.base.id == base.id})
            known |= await self._find_vectors(self._embedder.identity, base, hashes)
        texts = {queued.digest: queued.chunk.text for queued in batch if queued.digest not in known}
        in_other_batch = {
            digest: self._pending_vectors[digest] for digest in texts if digest in self._pending_vectors
        }
        started = time.monotonic()
        new = await self._embed_new_texts(
            {digest: text for digest, text in texts.items() if digest not in in_other_batch}, batch, grants
        )
        # Waited for last, because the other batch may be waiting for vectors of this one.
        for digest, pending in in_other_batch.items():
            vector = await pending
            if isinstance(vector, BudgetUsedUp):
                continue  # of another base: this one asks for it itself, in its next batch
            if isinstance(vector, Transient):
                raise vector
            if isinstance(vector, WorkError):
                new[digest] = vector
            else:
                known[digest] = vector
        seconds = time.monotonic() - started
        self._record_success(len(batch), seconds)
        pipeline_metrics.observe_batch("embed", len(batch))
        served = [queued for queued in batch if queued.digest in known or queued.digest in new]
        self._put_back([q for q in batch if q.digest not in known and q.digest not in new], grants)
        return self._join_vectors(served, known, new, seconds, grants)

    def _put_back(self, missing: Sequence[QueuedChunk], grants: Mapping[IndexTask, Grant]) -> None:
        """Return the chunks that no budget had room for. A document that asked for it waits; others ask in their next batch."""
        chunks: dict[DocumentQueue, list[TextChunk]] = {}
        for queued in missing:
            chunks.setdefault(queued.queue, []).append(queued.chunk)
        for queue, returned in chunks.items():
            queue.put_back(returned)
            grant = grants.get(queue.task)
            if grant is None or grant.wait is None:
                self._enqueue(queue)

    async def _embed_new_texts(
        self, texts: dict[bytes, str], batch: Sequence[QueuedChunk], grants: dict[IndexTask, Grant]
    ) -> dict[bytes, VectorOrError]:
        if not texts:
            return {}
        tasks = list({queued.queue.task for queued in batch})
        loop = asyncio.get_running_loop()
        pending: dict[bytes, asyncio.Future[VectorOrError]] = {
            digest: loop.create_future() for digest in texts
        }
        self._pending_vectors |= pending
        try:
            wanted = await self._reserve_texts(texts, batch, grants)
            for digest, wait in wanted.denied.items():
                self._pending_vectors.pop(digest, None)
                pending[digest].set_result(wait)
            await faults.point("embed.before_call")
            longest_first = sorted(wanted.granted, key=lambda digest: -len(texts[digest]))
            if not longest_first:
                return {}
            vectors = await self._call_embedder([texts[digest] for digest in longest_first], tasks)
            by_hash = dict(zip(longest_first, vectors, strict=True))
            for digest, vector in by_hash.items():
                pending[digest].set_result(vector)
            return by_hash
        finally:
            for digest, future in pending.items():
                if not future.done():
                    self._pending_vectors.pop(digest, None)
                    future.set_result(Transient("The embedder did not answer.", code="embedder_unavailable"))

    async def _reserve_texts(
        self, texts: Mapping[bytes, str], batch: Sequence[QueuedChunk], grants: dict[IndexTask, Grant]
    ) -> "_ReservedTexts":
        """Reserve what the texts cost, each for the first document of the batch that has it."""
        owned: dict[IndexTask, list[bytes]] = {}
        chunks: dict[IndexTask, list[TextChunk]] = {}
        for queued in {queued.digest: queued for queued in reversed(batch)}.values():
            if queued.digest in texts:
                owned.setdefault(queued.queue.task, []).append(queued.digest)
                chunks.setdefault(queued.queue.task, []).append(queued.chunk)
        grants.update(await self._purse.reserve_for_tasks(self._embedder, chunks))
        granted = [digest for task, digests in owned.items() for digest in digests[: grants[task].count]]
        denied = {
            digest: wait
            for task, digests in owned.items()
            if (wait := grants[task].wait) is not None
            for digest in digests[grants[task].count :]
        }
        return _ReservedTexts(granted, denied)

    async def _call_embedder(self, texts: Sequence[str], tasks: list[IndexTask]) -> Sequence[VectorOrError]:
        if all(task.completion.is_done for task in tasks):  # while the budgets were asked
            raise Transient("Cancelled.", code="cancelled")
        call = asyncio.ensure_future(self._embed_each(self._embedder, texts))
        self._calls[call] = tasks
        try:
            return await call
        except asyncio.CancelledError:
            if call.cancelled() and all(task.completion.is_done for task in tasks):
                raise Transient("Cancelled.", code="cancelled") from None
            raise
        finally:
            del self._calls[call]
            call.cancel()

    def _join_vectors(
        self,
        batch: Sequence[QueuedChunk],
        known: dict[bytes, Vector],
        new: dict[bytes, VectorOrError],
        seconds: float,
        grants: Mapping[IndexTask, Grant],
    ) -> list[EmbeddedChunks]:
        chunks: dict[DocumentQueue, list[Chunk]] = {queued.queue: [] for queued in batch}
        embedded: Counter[DocumentQueue] = Counter()
        counted: set[bytes] = set()  # a new text is counted once, for the first of its chunks
        for queued in batch:
            queue, chunk, digest = queued.queue, queued.chunk, queued.digest
            vector = known.get(digest, new.get(digest))
            if isinstance(vector, WorkError) or vector is None:
                error = vector or Transient("A vector is missing.", code="embedder_bad_answer")
                queue.task.completion.fail(error)
                continue
            if digest in new and digest not in counted:
                counted.add(digest)
                embedded[queue] += 1
            chunks[queue].append(
                Chunk(
                    chunk.index,
                    chunk.text,
                    chunk.start,
                    chunk.end,
                    chunk.headings,
                    vector,
                    chunk.page,
                    digest,
                )
            )
        for queue, made in chunks.items():
            queue.totals = EmbedTotals(
                queue.totals.seconds + seconds,
                queue.totals.batches + 1,
                queue.totals.embedded + embedded[queue],
                queue.totals.reused + len(made) - embedded[queue],
            )
            queue.waiting_for = queue.batch_limit = queue.waiting_since = None
        return [
            EmbeddedChunks(queue.task, made, queue.totals, _spending(grants.get(queue.task)))
            for queue, made in chunks.items()
        ]

    # ── failure ──────────────────────────────────────────────────────────────────────────────────────────

    def _record_success(self, chunks: int, seconds: float) -> None:
        self._failures, self._successes = 0, self._successes + 1
        # The mean of the current and the ideal size, so that one odd batch does not change it much.
        ideal = chunks * _TARGET_SECONDS / seconds if seconds > 0.001 else MAX_BATCH
        self._size = int(min(MAX_BATCH, max(MIN_BATCH, (self._size + ideal) / 2 + 1)))

    async def _probe_embedder(self) -> None:
        """Embed a harmless text before a single text is retried, because there may be no other document that shows whether
        the text or the embedder is at fault. An embedder that is down fails for both."""
        (result,) = await self._embed_each(self._embedder, [_PROBE_TEXT])
        if not isinstance(result, WorkError):
            self._failures, self._successes = 0, self._successes + 1

    def _back_off(
        self, batch: Sequence[QueuedChunk], ended: Sequence[DocumentQueue], error: Transient
    ) -> None:
        """The embedder is down: pause the stage, as long as the embedder asks for or longer each time."""
        batch = [queued for queued in batch if not queued.queue.task.completion.is_done]
        if not batch and all(queue.task.completion.is_done for queue in ended):
            return
        pause = float(_PAUSES[min(self._failures, len(_PAUSES) - 1)])
        if error.retry_after is not None:
            pause = max(0.05, error.retry_after.total_seconds())
        self._failures += 1
        self._paused_until = max(self._paused_until, time.monotonic() + pause)
        failed: dict[DocumentQueue, list[TextChunk]] = {queue: [] for queue in ended}
        for queued in batch:
            failed.setdefault(queued.queue, []).append(queued.chunk)
        for queue, chunks in failed.items():
            queue.put_back(chunks)
            queue.waiting_for = WaitReason(error.code, error.message, self._paused_until)
            if error.code not in _RATE_LIMIT_CODES:
                self._record_suspicion(queue, len(chunks), alone=len(failed) == 1)
            queue.waiting_since = queue.waiting_since or time.monotonic()
            if queue.strikes >= _MAX_STRIKES:
                queue.task.completion.fail(error)
            elif time.monotonic() - queue.waiting_since + pause > _PATIENCE.total_seconds():
                queue.task.completion.finish(Snooze(timedelta(seconds=pause)))
            else:
                self._enqueue(queue)

    def _record_suspicion(self, queue: DocumentQueue, chunks: int, *, alone: bool) -> None:
        others_succeeded = self._successes > queue.successes_at_strike
        if alone and chunks <= 1 and others_succeeded and queue.batch_limit is not None:
            queue.strikes += 1
        queue.batch_limit = max(1, chunks // 2) if alone else chunks or 1
        queue.successes_at_strike = self._successes


def _spending(grant: Grant | None) -> Spending | None:
    return None if grant is None or not grant.count else grant.spending
