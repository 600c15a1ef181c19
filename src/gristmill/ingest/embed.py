"""embed: pieces of many documents become batches, batches become vectors.

    take       up to `size` pieces: documents that somebody waits for first, then the bases by turns, and of one base its
               documents in their order
    look up    a text that has a vector already, in this batch or in a base of the same embedder, costs nothing
    embed      the rest, the longest first
    hand on    to the writer; the next batch is taken when this one is committed

So few pieces are under way at any moment, and a kill loses at most those. `size` follows the embedder: about half a second
of its work, at least `LEAST`, at most `MOST`.

On failure: a text that is refused fails its own document alone. When the embedder is down, everything waits here for a
while, then goes back to the queue without an attempt being counted. What failed is tried again document by document, in
ever smaller batches, until it is known whose fault it is: one that keeps failing while others go well, a harmless word if
there are none, has an attempt counted. A provider that asked for time is asked again for the same batches.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from gristmill import clock, faults
from gristmill.catalog import BaseId
from gristmill.embedding import Embedder
from gristmill.errors import Transient, WorkError
from gristmill.ingest.chunk import TextChunk
from gristmill.ingest.document import Document
from gristmill.jobs import Snooze
from gristmill.search import Chunk
from gristmill.search.publish import text_hash
from gristmill.telemetry import pipeline_metrics

MIN_BATCH, MAX_BATCH = 16, 200  # pieces
PARALLEL = 2  # batches: as one is written, the next is being embedded
_TARGET_SECONDS = 0.5  # seconds of embedding in one batch
_PATIENCE = timedelta(seconds=20)  # how long documents wait here for an embedder that is down
_PAUSES = (1, 2, 5, 10, 20, 60)  # seconds
_MAX_STRIKES = 3
_PROBE_TEXT = "ok"
# The provider asked for time, or was not even asked: that is about no text. To look for one that is at fault would send
# each document by itself, and so many requests to one who wants fewer.
_RATE_LIMIT_CODES = frozenset({"embedder_rate_limited", "embedder_paced"})

Vector = NDArray[np.float32]
FindVectors = Callable[[str, BaseId, Sequence[bytes]], Awaitable[dict[bytes, Vector]]]


@dataclass(frozen=True)
class EmbeddedChunks:
    """Chunks of one document, with their vectors."""

    document: Document
    chunks: list[Chunk]


@dataclass(frozen=True)
class _QueuedChunk:
    document: Document
    piece: TextChunk
    digest: bytes


class EmbedStage:
    """The stage of one embedder."""

    def __init__(
        self,
        embedder: Embedder,
        find_vectors: FindVectors,
        write: Callable[[Sequence[EmbeddedChunks]], Awaitable[None]],
        embed_each: Callable[[Embedder, Sequence[str]], Awaitable[Sequence[Vector | WorkError]]],
    ) -> None:
        self._embedder, self._find_vectors, self._write, self._embed_each = (
            embedder,
            find_vectors,
            write,
            embed_each,
        )
        self._bases: dict[BaseId, list[Document]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._pending_vectors: dict[
            bytes, asyncio.Future[Vector | WorkError]
        ] = {}  # texts, until they are written
        self._calls: dict[asyncio.Task[Sequence[Vector | WorkError]], list[Document]] = {}
        self._size = MIN_BATCH
        self._failures = 0
        self._paused_until = 0.0
        self._successes = 0

    def add(self, document: Document) -> None:
        """The document has pieces to embed, or nothing more to come."""
        if document.ended.done():
            return
        queue = self._bases.setdefault(document.base.id, [])
        if document not in queue:
            if document.is_urgent:
                queue.insert(sum(other.is_urgent for other in queue), document)
            else:
                queue.append(document)
        self._running = {task for task in self._running if not task.done()}  # at once: see `Stage.put`
        if len(self._running) < PARALLEL:
            self._running.add(asyncio.create_task(self._run(), name="embedding"))

    def remove(self, document: Document) -> None:
        """The document leaves, done or not."""
        queue = self._bases.get(document.base.id, [])
        if document in queue:
            queue.remove(document)
        if not queue:
            self._bases.pop(document.base.id, None)
        for call, documents in self._calls.items():
            if all(other.ended.done() for other in documents):
                call.cancel()  # nobody wants it any more: the request that is under way ends too

    # ── taking ───────────────────────────────────────────────────────────────────────────────────────────

    def _next_batch(self) -> tuple[list[_QueuedChunk], list[Document]]:
        """The next pieces, and documents that have no more: only their end is to be written."""
        taken: list[tuple[Document, TextChunk]] = []
        ends: list[Document] = []
        # Urgent lines first; the others by turns: who was served goes behind the rest.
        order = sorted(self._bases, key=lambda base: not self._bases[base][0].is_urgent)
        for base_id in order:
            share = max(1, (self._size - len(taken)) // max(1, len(order)))
            for document in list(self._bases[base_id]):
                if document.batch_limit is not None:
                    if taken:
                        continue
                    taken = [(document, piece) for piece in document.take_chunks(document.batch_limit)]
                    if not document.pieces:
                        self.remove(document)
                    return self._with_hashes(taken), [] if taken else [document]
                pieces = document.take_chunks(min(share, self._size - len(taken)))
                share -= len(pieces)
                taken += [(document, piece) for piece in pieces]
                if not document.pieces:
                    self.remove(document)
                    if not pieces and document.is_read:
                        ends.append(document)
                if share <= 0 or len(taken) >= self._size:
                    break
            if base_id in self._bases:
                self._bases[base_id] = self._bases.pop(base_id)
        return self._with_hashes(taken), ends

    def _with_hashes(self, taken: Sequence[tuple[Document, TextChunk]]) -> list[_QueuedChunk]:
        return [_QueuedChunk(document, piece, text_hash(piece.text)) for document, piece in taken]

    # ── embedding ────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        while self._bases:
            if (pause := self._paused_until - time.monotonic()) > 0:
                await clock.pause(timedelta(seconds=pause))
                continue
            batch, ends = self._next_batch()
            if not batch and not ends:
                return
            documents = list(dict.fromkeys([*(taken.document for taken in batch), *ends]))
            try:
                if len(batch) == 1 and batch[0].document.batch_limit == 1:
                    await self._probe_embedder()
                ready = await self._embed_batch(batch)
                await faults.point("index.embedded")
            except Transient as error:
                self._back_off(batch, ends, error)
            except Exception as error:
                for document in documents:
                    document.fail(error)
            else:
                with_chunks = {one.document for one in ready}
                ready += [EmbeddedChunks(document, []) for document in ends if document not in with_chunks]
                await self._write([one for one in ready if not one.document.ended.done()])
            finally:
                for taken in batch:
                    self._pending_vectors.pop(taken.digest, None)

    async def _embed_batch(self, batch: list[_QueuedChunk]) -> list[EmbeddedChunks]:
        if not batch:
            return []
        known: dict[bytes, Vector] = {}
        for base_id in {taken.document.base.id for taken in batch}:
            hashes = list({taken.digest for taken in batch if taken.document.base.id == base_id})
            known |= await self._find_vectors(self._embedder.identity, base_id, hashes)
        texts = {taken.digest: taken.piece.text for taken in batch if taken.digest not in known}
        in_other_batch = {
            digest: self._pending_vectors[digest] for digest in texts if digest in self._pending_vectors
        }
        started = time.monotonic()
        embedded = await self._embed_new_texts(
            {digest: text for digest, text in texts.items() if digest not in in_other_batch},
            list({taken.document for taken in batch}),
        )
        # What the other batch under way makes is waited for last: it may wait for what was made here.
        for digest, making in in_other_batch.items():
            vector = await making
            if isinstance(vector, Transient):
                raise vector
            if isinstance(vector, WorkError):
                embedded[digest] = vector
            else:
                known[digest] = vector
        took = time.monotonic() - started
        self._record_success(len(batch), took)
        pipeline_metrics.observe_batch("embed", len(batch))
        return self._join_vectors(batch, known, embedded, took)

    async def _embed_new_texts(
        self, texts: dict[bytes, str], documents: list[Document]
    ) -> dict[bytes, Vector | WorkError]:
        if not texts:
            return {}
        loop = asyncio.get_running_loop()
        pending = {digest: loop.create_future() for digest in texts}
        self._pending_vectors |= pending
        try:
            await faults.point("embed.before_call")
            longest_first = sorted(texts, key=lambda digest: -len(texts[digest]))
            vectors = await self._call_embedder([texts[digest] for digest in longest_first], documents)
            vectors_by_hash = dict(zip(longest_first, vectors, strict=True))
            for digest, vector in vectors_by_hash.items():
                pending[digest].set_result(vector)
            return vectors_by_hash
        finally:
            for digest, future in pending.items():
                if not future.done():
                    self._pending_vectors.pop(digest, None)
                    future.set_result(Transient("The embedder did not answer.", code="embedder_unavailable"))

    async def _call_embedder(
        self, texts: Sequence[str], documents: list[Document]
    ) -> Sequence[Vector | WorkError]:
        call = asyncio.ensure_future(self._embed_each(self._embedder, texts))
        self._calls[call] = documents
        try:
            return await call
        except asyncio.CancelledError:
            if call.cancelled() and all(document.ended.done() for document in documents):
                raise Transient("Cancelled.", code="cancelled") from None
            raise
        finally:
            del self._calls[call]
            call.cancel()

    def _join_vectors(
        self,
        batch: list[_QueuedChunk],
        known: dict[bytes, Vector],
        made: dict[bytes, Vector | WorkError],
        took: float,
    ) -> list[EmbeddedChunks]:
        ready: dict[Document, list[Chunk]] = {}
        counted: set[bytes] = set()
        for document, piece, digest in ((one.document, one.piece, one.digest) for one in batch):
            chunks = ready.setdefault(document, [])
            vector = known.get(digest, made.get(digest))
            if isinstance(vector, WorkError) or vector is None:
                document.fail(vector or Transient("A vector is missing.", code="embedder_bad_answer"))
                continue
            if digest in made and digest not in counted:
                counted.add(digest)
                document.timings.embedded += 1
            else:
                document.timings.reused += 1
            chunks.append(
                Chunk(piece.index, piece.text, piece.start, piece.end, piece.headings, vector, piece.page)
            )
        for document in ready:
            document.timings.batches += 1
            document.timings.embed += took
            document.note = document.batch_limit = document.waiting_since = None
        return [EmbeddedChunks(document, chunks) for document, chunks in ready.items()]

    # ── failure ──────────────────────────────────────────────────────────────────────────────────────────

    def _record_success(self, pieces: int, took: float) -> None:
        self._failures, self._successes = 0, self._successes + 1
        # Half of what it was and half of what would have been right: one odd batch does not swing it.
        ideal = pieces * _TARGET_SECONDS / took if took > 0.001 else MAX_BATCH
        self._size = int(min(MAX_BATCH, max(MIN_BATCH, (self._size + ideal) / 2 + 1)))

    async def _probe_embedder(self) -> None:
        """A single text failed, and perhaps nobody else is here to tell whose fault it is: one that is harmless tells,
        before it is tried again. An embedder that is down answers neither."""
        (result,) = await self._embed_each(self._embedder, [_PROBE_TEXT])
        if not isinstance(result, WorkError):
            self._failures, self._successes = 0, self._successes + 1

    def _back_off(self, batch: list[_QueuedChunk], ends: Sequence[Document], error: Transient) -> None:
        """The embedder is down: everything waits, for as long as it asks or longer each time."""
        batch = [taken for taken in batch if not taken.document.ended.done()]
        if not batch and all(document.ended.done() for document in ends):
            return
        pause = float(_PAUSES[min(self._failures, len(_PAUSES) - 1)])
        if error.retry_after is not None:
            pause = max(0.05, error.retry_after.total_seconds())
        self._failures += 1
        self._paused_until = max(self._paused_until, time.monotonic() + pause)
        pieces: dict[Document, list[TextChunk]] = {document: [] for document in ends}
        for taken in batch:
            pieces.setdefault(taken.document, []).append(taken.piece)
        for document, returned in pieces.items():
            document.return_chunks(returned)
            document.note = error.message
            if error.code not in _RATE_LIMIT_CODES:
                self._record_suspicion(document, len(returned), alone=len(pieces) == 1)
            document.waiting_since = document.waiting_since or time.monotonic()
            if document.strikes >= _MAX_STRIKES:
                document.fail(error)
            elif time.monotonic() - document.waiting_since + pause > _PATIENCE.total_seconds():
                document.finish(Snooze(timedelta(seconds=pause)))
            else:
                self.add(document)

    def _record_suspicion(self, document: Document, pieces: int, *, alone: bool) -> None:
        if (
            alone
            and pieces <= 1
            and self._successes > document.successes_at_strike
            and document.batch_limit is not None
        ):
            document.strikes += 1
        document.batch_limit = max(1, pieces // 2) if alone else pieces or 1
        document.successes_at_strike = self._successes
