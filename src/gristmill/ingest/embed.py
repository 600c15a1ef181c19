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

from gristmill import clock, faults, measures
from gristmill.catalog import BaseId
from gristmill.embedding import Embedder
from gristmill.errors import Transient, WorkError
from gristmill.ingest.chunk import Piece
from gristmill.ingest.document import Document
from gristmill.jobs import Snooze
from gristmill.search import Chunk
from gristmill.search.publish import text_hash

LEAST, MOST = 16, 200  # pieces
PARALLEL = 2  # batches: as one is written, the next is being embedded
_GOAL = 0.5  # seconds of embedding in one batch
_PATIENCE = timedelta(seconds=20)  # how long documents wait here for an embedder that is down
_PAUSES = (1, 2, 5, 10, 20, 60)  # seconds
_STRIKES = 3
_HARMLESS = "ok"
# The provider asked for time, or was not even asked: that is about no text. To look for one that is at fault would send
# each document by itself, and so many requests to one who wants fewer.
_BLAMELESS = frozenset({"embedder_rate_limited", "embedder_paced"})

Vector = NDArray[np.float32]
LookUp = Callable[[str, BaseId, Sequence[bytes]], Awaitable[dict[bytes, Vector]]]


@dataclass(frozen=True)
class Ready:
    """Chunks of one document, with their vectors."""

    document: Document
    chunks: list[Chunk]


@dataclass(frozen=True)
class _Taken:
    document: Document
    piece: Piece
    digest: bytes


class Embedding:
    """The stage of one embedder."""

    def __init__(
        self,
        embedder: Embedder,
        look_up: LookUp,
        write: Callable[[Sequence[Ready]], Awaitable[None]],
        embed_each: Callable[[Embedder, Sequence[str]], Awaitable[Sequence[Vector | WorkError]]],
    ) -> None:
        self._embedder, self._look_up, self._write, self._embed_each = embedder, look_up, write, embed_each
        self._bases: dict[BaseId, list[Document]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._making: dict[bytes, asyncio.Future[Vector | WorkError]] = {}  # texts, until they are written
        self._calls: dict[asyncio.Task[Sequence[Vector | WorkError]], list[Document]] = {}
        self._size = LEAST
        self._failures = 0
        self._paused_until = 0.0
        self._successes = 0

    def put(self, document: Document) -> None:
        """The document has pieces to embed, or nothing more to come."""
        if document.ended.done():
            return
        line = self._bases.setdefault(document.base.id, [])
        if document not in line:
            if document.urgent:
                line.insert(sum(other.urgent for other in line), document)
            else:
                line.append(document)
        self._running = {task for task in self._running if not task.done()}  # at once: see `Stage.put`
        if len(self._running) < PARALLEL:
            self._running.add(asyncio.create_task(self._run(), name="embedding"))

    def drop(self, document: Document) -> None:
        """The document leaves, done or not."""
        line = self._bases.get(document.base.id, [])
        if document in line:
            line.remove(document)
        if not line:
            self._bases.pop(document.base.id, None)
        for call, documents in self._calls.items():
            if all(other.ended.done() for other in documents):
                call.cancel()  # nobody wants it any more: the request that is under way ends too

    # ── taking ───────────────────────────────────────────────────────────────────────────────────────────

    def _take(self) -> tuple[list[_Taken], list[Document]]:
        """The next pieces, and documents that have no more: only their end is to be written."""
        taken: list[tuple[Document, Piece]] = []
        ends: list[Document] = []
        # Urgent lines first; the others by turns: who was served goes behind the rest.
        order = sorted(self._bases, key=lambda base: not self._bases[base][0].urgent)
        for base_id in order:
            share = max(1, (self._size - len(taken)) // max(1, len(order)))
            for document in list(self._bases[base_id]):
                if document.most is not None:
                    if taken:
                        continue
                    taken = [(document, piece) for piece in document.give(document.most)]
                    if not document.pieces:
                        self.drop(document)
                    return self._hashed(taken), [] if taken else [document]
                pieces = document.give(min(share, self._size - len(taken)))
                share -= len(pieces)
                taken += [(document, piece) for piece in pieces]
                if not document.pieces:
                    self.drop(document)
                    if not pieces and document.whole:
                        ends.append(document)
                if share <= 0 or len(taken) >= self._size:
                    break
            if base_id in self._bases:
                self._bases[base_id] = self._bases.pop(base_id)
        return self._hashed(taken), ends

    def _hashed(self, taken: Sequence[tuple[Document, Piece]]) -> list[_Taken]:
        return [_Taken(document, piece, text_hash(piece.text)) for document, piece in taken]

    # ── embedding ────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        while self._bases:
            if (pause := self._paused_until - time.monotonic()) > 0:
                await clock.pause(timedelta(seconds=pause))
                continue
            batch, ends = self._take()
            if not batch and not ends:
                return
            documents = list(dict.fromkeys([*(taken.document for taken in batch), *ends]))
            try:
                if len(batch) == 1 and batch[0].document.most == 1:
                    await self._ask_another()
                ready = await self._embedded(batch)
                await faults.point("index.embedded")
            except Transient as error:
                self._wait(batch, ends, error)
            except Exception as error:
                for document in documents:
                    document.fail(error)
            else:
                found = {one.document for one in ready}
                ready += [Ready(document, []) for document in ends if document not in found]
                await self._write([one for one in ready if not one.document.ended.done()])
            finally:
                for taken in batch:
                    self._making.pop(taken.digest, None)

    async def _embedded(self, batch: list[_Taken]) -> list[Ready]:
        if not batch:
            return []
        known: dict[bytes, Vector] = {}
        for base_id in {taken.document.base.id for taken in batch}:
            hashes = list({taken.digest for taken in batch if taken.document.base.id == base_id})
            known |= await self._look_up(self._embedder.identity, base_id, hashes)
        texts = {taken.digest: taken.piece.text for taken in batch if taken.digest not in known}
        elsewhere = {digest: self._making[digest] for digest in texts if digest in self._making}
        started = time.monotonic()
        made = await self._made(
            {digest: text for digest, text in texts.items() if digest not in elsewhere},
            list({taken.document for taken in batch}),
        )
        # What the other batch under way makes is waited for last: it may wait for what was made here.
        for digest, making in elsewhere.items():
            vector = await making
            if isinstance(vector, Transient):
                raise vector
            if isinstance(vector, WorkError):
                made[digest] = vector
            else:
                known[digest] = vector
        took = time.monotonic() - started
        self._went_well(len(batch), took)
        measures.batch("embed", len(batch))
        return self._joined(batch, known, made, took)

    async def _made(
        self, texts: dict[bytes, str], documents: list[Document]
    ) -> dict[bytes, Vector | WorkError]:
        if not texts:
            return {}
        loop = asyncio.get_running_loop()
        making = {digest: loop.create_future() for digest in texts}
        self._making |= making
        try:
            await faults.point("embed.before_call")
            longest_first = sorted(texts, key=lambda digest: -len(texts[digest]))
            vectors = await self._called([texts[digest] for digest in longest_first], documents)
            made = dict(zip(longest_first, vectors, strict=True))
            for digest, vector in made.items():
                making[digest].set_result(vector)
            return made
        finally:
            for digest, future in making.items():
                if not future.done():
                    self._making.pop(digest, None)
                    future.set_result(Transient("The embedder did not answer.", code="embedder_unavailable"))

    async def _called(self, texts: Sequence[str], documents: list[Document]) -> Sequence[Vector | WorkError]:
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

    def _joined(
        self,
        batch: list[_Taken],
        known: dict[bytes, Vector],
        made: dict[bytes, Vector | WorkError],
        took: float,
    ) -> list[Ready]:
        ready: dict[Document, list[Chunk]] = {}
        paid: set[bytes] = set()
        for document, piece, digest in ((one.document, one.piece, one.digest) for one in batch):
            chunks = ready.setdefault(document, [])
            vector = known.get(digest, made.get(digest))
            if isinstance(vector, WorkError) or vector is None:
                document.fail(vector or Transient("A vector is missing.", code="embedder_bad_answer"))
                continue
            if digest in made and digest not in paid:
                paid.add(digest)
                document.spent.embedded += 1
            else:
                document.spent.reused += 1
            chunks.append(
                Chunk(piece.index, piece.text, piece.start, piece.end, piece.headings, vector, piece.page)
            )
        for document in ready:
            document.spent.batches += 1
            document.spent.embed += took
            document.note = document.most = document.waiting_since = None
        return [Ready(document, chunks) for document, chunks in ready.items()]

    # ── failure ──────────────────────────────────────────────────────────────────────────────────────────

    def _went_well(self, pieces: int, took: float) -> None:
        self._failures, self._successes = 0, self._successes + 1
        # Half of what it was and half of what would have been right: one odd batch does not swing it.
        right = pieces * _GOAL / took if took > 0.001 else MOST
        self._size = int(min(MOST, max(LEAST, (self._size + right) / 2 + 1)))

    async def _ask_another(self) -> None:
        """A single text failed, and perhaps nobody else is here to tell whose fault it is: one that is harmless tells,
        before it is tried again. An embedder that is down answers neither."""
        (answer,) = await self._embed_each(self._embedder, [_HARMLESS])
        if not isinstance(answer, WorkError):
            self._failures, self._successes = 0, self._successes + 1

    def _wait(self, batch: list[_Taken], ends: Sequence[Document], error: Transient) -> None:
        """The embedder is down: everything waits, for as long as it asks or longer each time."""
        batch = [taken for taken in batch if not taken.document.ended.done()]
        if not batch and all(document.ended.done() for document in ends):
            return
        pause = float(_PAUSES[min(self._failures, len(_PAUSES) - 1)])
        if error.retry_after is not None:
            pause = max(0.05, error.retry_after.total_seconds())
        self._failures += 1
        self._paused_until = max(self._paused_until, time.monotonic() + pause)
        pieces: dict[Document, list[Piece]] = {document: [] for document in ends}
        for taken in batch:
            pieces.setdefault(taken.document, []).append(taken.piece)
        for document, back in pieces.items():
            document.give_back(back)
            document.note = error.message
            if error.code not in _BLAMELESS:
                self._suspect(document, len(back), alone=len(pieces) == 1)
            document.waiting_since = document.waiting_since or time.monotonic()
            if document.strikes >= _STRIKES:
                document.fail(error)
            elif time.monotonic() - document.waiting_since + pause > _PATIENCE.total_seconds():
                document.end(Snooze(timedelta(seconds=pause)))
            else:
                self.put(document)

    def _suspect(self, document: Document, pieces: int, *, alone: bool) -> None:
        if alone and pieces <= 1 and self._successes > document.successes_then and document.most is not None:
            document.strikes += 1
        document.most = max(1, pieces // 2) if alone else pieces or 1
        document.successes_then = self._successes
