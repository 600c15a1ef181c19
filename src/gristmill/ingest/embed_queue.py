"""The chunks that wait for their vectors, and the order in which batches take them.

A batch is divided equally among the bases that have chunks: whoever needs less than an equal part leaves the rest to the others.
Bases with urgent documents come first, and within a base its urgent documents, which share equally; who was served moves behind
the rest. Of the others, a quarter of the base's part is for the one that has waited longest, and the rest for those that need
least. So a note never waits for a book, of its own base or of another, a book goes on whatever else comes, and most documents are
written once, not a little of each in every batch.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from gristmill.catalog import BaseId
from gristmill.ingest.chunk import TextChunk
from gristmill.ingest.task import EmbedTotals, IndexTask, WaitReason
from gristmill.search.publish import text_hash

MAX_WAITING = 256  # chunks of one document
URGENT_BATCH = 16  # chunks: a small batch is soon done, and a user waits for it


class DocumentQueue:
    """The waiting chunks of one document, and the failures of its batches."""

    def __init__(self, task: IndexTask) -> None:
        self.task = task
        self.chunks: deque[TextChunk] = deque()
        self.is_complete = False  # no more chunks will be added
        self.waiting_for: WaitReason | None = None  # the embedder's error, while it is down
        self.waiting_since: float | None = None
        self.batch_limit: int | None = None  # after a failure: batches of its own, of at most so many chunks
        self.strikes = 0  # how often it failed alone while others succeeded
        self.successes_at_strike = 0  # the stage's successes at the last failure
        self.totals = EmbedTotals()
        self._room = asyncio.Event()
        self._room.set()

    def add(self, chunks: Sequence[TextChunk], *, is_last: bool) -> None:
        """Append chunks. The reader should then wait for room."""
        self.chunks.extend(chunks)
        self.is_complete = is_last
        if len(self.chunks) >= MAX_WAITING:
            self._room.clear()

    async def wait_for_room(self) -> None:
        """Wait until more chunks may be added, or the document has ended."""
        await self.task.completion.wait_for_either(self._room)

    def take(self, limit: int) -> list[TextChunk]:
        """Remove and return the next chunks, at most `limit`."""
        taken = [self.chunks.popleft() for _ in range(min(limit, len(self.chunks)))]
        if len(self.chunks) < MAX_WAITING:
            self._room.set()
        return taken

    def put_back(self, chunks: Sequence[TextChunk]) -> None:
        """Return chunks whose batch failed to the front of the queue."""
        self.chunks.extendleft(reversed(chunks))


@dataclass(frozen=True)
class QueuedChunk:
    """A chunk in a batch, with its document's queue and the hash of its text."""

    queue: DocumentQueue
    chunk: TextChunk
    digest: bytes


class EmbedQueue:
    """The documents with waiting chunks, by base."""

    def __init__(self) -> None:
        self._bases: dict[BaseId, list[DocumentQueue]] = {}

    def __bool__(self) -> bool:
        return bool(self._bases)

    @property
    def is_urgent(self) -> bool:
        """Whether there are chunks that a user waits for."""
        return any(line[0].task.is_urgent for line in self._bases.values())

    def is_worth_a_batch(self, size: int) -> bool:
        """Whether there are enough chunks for half a batch."""
        return 2 * sum(len(queue.chunks) for line in self._bases.values() for queue in line) >= size

    def add(self, queue: DocumentQueue) -> None:
        """Add a document that has chunks or has ended, unless it is in the queue."""
        line = self._bases.setdefault(queue.task.base.id, [])
        if queue in line:
            return
        if queue.task.is_urgent:
            line.insert(sum(other.task.is_urgent for other in line), queue)
        else:
            line.append(queue)

    def remove(self, queue: DocumentQueue) -> None:
        """Remove a document."""
        base_id = queue.task.base.id
        line = self._bases.get(base_id, [])
        if queue in line:
            line.remove(queue)
        if not line:
            self._bases.pop(base_id, None)

    def next_batch(self, size: int) -> tuple[list[QueuedChunk], list[DocumentQueue]]:
        """The next chunks, at most `size`, and the documents that have none left and only need their end written."""
        order = sorted(self._bases, key=lambda base: not self._bases[base][0].task.is_urgent)
        first = self._bases[order[0]][0] if order else None
        if first is not None and first.batch_limit is not None:
            alone = self._take(first, first.batch_limit)
            return alone, [] if alone else [first]
        if first is not None and first.task.is_urgent:
            size = min(size, URGENT_BATCH)
        batch: list[QueuedChunk] = []
        ended: list[DocumentQueue] = []
        needs = [sum(len(queue.chunks) for queue in self._bases[base]) for base in order]
        for base_id, share in zip(order, equal_parts(size, needs), strict=True):
            # A document whose batches fail waits until it is the first, for a batch of its own.
            queues = [queue for queue in self._bases[base_id] if queue.batch_limit is None]
            for queue, part in zip(queues, self._document_parts(share, queues), strict=True):
                if not queue.chunks and queue.is_complete:
                    ended.append(queue)
                batch += self._serve(queue, part)
            if base_id in self._bases:
                self._bases[base_id] = self._bases.pop(base_id)
        if not batch and not ended and first is not None:
            return self.next_batch(size)
        return batch, ended

    def _serve(self, queue: DocumentQueue, part: int) -> list[QueuedChunk]:
        """Take a part of a document's chunks, and put it behind the others of its base and urgency."""
        chunks = self._take(queue, part)
        if chunks and queue.chunks:
            self.remove(queue)
            self.add(queue)
        return chunks

    def _document_parts(self, size: int, queues: Sequence[DocumentQueue]) -> list[int]:
        """Urgent documents share what there is; what is left goes to the others."""
        urgent = equal_parts(size, [len(queue.chunks) * queue.task.is_urgent for queue in queues])
        others = shortest_first(
            size - sum(urgent), [len(queue.chunks) * (not queue.task.is_urgent) for queue in queues]
        )
        return [first + second for first, second in zip(urgent, others, strict=True)]

    def _take(self, queue: DocumentQueue, limit: int) -> list[QueuedChunk]:
        chunks = queue.take(limit)
        if not queue.chunks:
            self.remove(queue)
        return [QueuedChunk(queue, chunk, text_hash(chunk.text)) for chunk in chunks]


def equal_parts(size: int, needs: Sequence[int]) -> list[int]:
    """Divide `size` among those who need something: equally, and what one doesn't need goes to the others. The first ones get
    what can't be divided."""
    parts = [0] * len(needs)
    while size > 0 and (hungry := [place for place, need in enumerate(needs) if parts[place] < need]):
        portion = max(1, size // len(hungry))
        for place in hungry:
            served = min(portion, needs[place] - parts[place], size)
            parts[place] += served
            size -= served
    return parts


def shortest_first(size: int, needs: Sequence[int]) -> list[int]:
    """Divide `size`: a quarter for the first one that needs something, the rest for those that need least."""
    parts = [0] * len(needs)
    for first, need in enumerate(needs):
        if need and size:
            parts[first] = min(need, max(1, size // 4))
            size -= parts[first]
            break
    for place in sorted(range(len(needs)), key=lambda place: needs[place] - parts[place]):
        portion = min(needs[place] - parts[place], size)
        parts[place] += portion
        size -= portion
    return parts
