"""A document's way: open → read → chunk → embed → write → publish, as the job `index_document`.

Each stage takes what waits as one batch, across documents and bases; the picture with the capacities is in README.md.
Killed anywhere, the next attempt goes on after the last batch that was committed, and what was searchable stays so until
the new version is whole. Every transaction shares the base's turn, proves the lease and looks whether the version is
still wanted: after a deletion or a newer version, nothing more is written.

    what is read equals what answers       nothing is cut, embedded or written
    an earlier attempt has written some    only the rest is embedded, if it would be cut alike
    a text was embedded before             its vector is taken from there
"""

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from gristmill import catalog, events, faults, jobs, organisation
from gristmill.catalog import Base, BaseId, BaseStatus, ItemId, Opened
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, Embedders, embed_each
from gristmill.errors import GristmillError, Invalid, LeaseLost, Permanent
from gristmill.events import BaseFailed, ItemFailed
from gristmill.ingest import read, readers
from gristmill.ingest.chunk import RECIPE, Chunker, Piece, limit_of
from gristmill.ingest.document import Document, Window
from gristmill.ingest.embed import Embedding, Vector
from gristmill.ingest.progress import Progress
from gristmill.ingest.readers import Embedded, Part, ReaderPool, ReadLimits, Report
from gristmill.ingest.stage import Stage
from gristmill.ingest.write import Writer
from gristmill.jobs import Done, Job, Outcome
from gristmill.operations.originals import Originals
from gristmill.search import publish
from gristmill.sources import Original
from gristmill.work import IndexDocument

OPENED = 64  # documents in one transaction
READERS = 8  # sources that are read at once
CUTTERS = 2  # threads that decode and cut
WINDOW = 64  # pieces that are cut before they are handed on
# Documents inside a document are counted, and not read yet: each would have to be an item of its own.
LIMITS = ReadLimits(depth=1)
READER = readers.reader_identity(LIMITS)
_ALIKE = 16  # bases of one embedder in which a text's vector is looked for


class EmbedderChanged(Permanent):
    """The base's embedder is not the one that made its vectors: the whole base can't be worked on."""

    code = "embedder_changed"


def base_of(job: Job) -> BaseId:
    """The base that a job works for: its lane."""
    return BaseId(UUID(job.lane))


@dataclass(frozen=True)
class _Refused:
    error: Exception


class Pipeline:
    """Indexes documents."""

    def __init__(
        self, db: Database, embedders: Embedders, originals: Originals, readers: ReaderPool | None = None
    ) -> None:
        self._db, self._embedders, self._originals, self._readers = db, embedders, originals, readers
        self._opening: Stage[Job, Document | _Refused | None] = Stage(self._open, size=OPENED)
        self._reading = asyncio.Semaphore(READERS)
        self._cutters = ThreadPoolExecutor(CUTTERS, thread_name_prefix="cut")
        self._embedding: dict[str, Embedding] = {}
        self._writer = Writer(db)
        self._progress = Progress(db)

    async def index(self, job: Job) -> Outcome:
        """Make the job's version of its item searchable, unless something newer is wanted."""
        document = await self._opening.put(job)
        if document is None:
            return Done()
        if isinstance(document, _Refused):
            raise document.error
        await faults.point("index.opened")
        self._progress.watch(document)
        stage = self._stage(document.embedder)
        try:
            await self._read(document, stage)
            return await document.ended
        finally:
            self._progress.forget(document)
            document.end()
            stage.drop(document)

    async def failed(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """The job is dead: say so on the item, in the same transaction; and on the base when it is at fault."""
        base_id = base_of(job)
        await catalog.share_turn(tx, base_id)
        work = IndexDocument.of(job)
        if await catalog.set_failed(tx, work.item_id, work.version, error.code, error.message):
            await publish.discard(tx, base_id, work.item_id)
            failed = ItemFailed(base_id, work.item_id, work.version, error.code, error.message)
            await events.record(tx, failed)
        if isinstance(error, EmbedderChanged):
            await catalog.set_base_status(tx, base_id, BaseStatus.FAILED, error.code, error.message)
            await events.record(tx, BaseFailed(base_id, error.code, error.message))
        await events.announce_ready(tx, [base_id])

    # ── open ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _open(self, claimed: Sequence[Job]) -> list[Document | _Refused | None]:
        """For each job its document, what refuses it, or None when there is nothing to do."""
        found: dict[Job, Document | _Refused | None] = dict.fromkeys(claimed)
        async with self._db.transaction() as tx:
            await catalog.share_turns(tx, [base_of(job) for job in claimed])
            ours = await jobs.fence_all(tx, claimed)
            bases = await catalog.find_bases(tx, [base_of(job) for job in claimed])
            wanted: dict[ItemId, Job] = {}
            for job in claimed:
                base = bases.get(base_of(job))
                if job.id not in ours:
                    found[job] = _Refused(LeaseLost(f"job {job.id} is no longer ours"))
                elif base is not None and (refused := self._refusal(job, base)) is not None:
                    found[job] = _Refused(refused)
                elif base is not None:
                    wanted[IndexDocument.of(job).item_id] = job
            versions = [(item_id, IndexDocument.of(job).version) for item_id, job in wanted.items()]
            for item in await catalog.begin_reading(tx, versions) if versions else []:
                job = wanted[item.id]
                document = self._document(job, bases[base_of(job)], item)
                await _resume(tx, document)
                found[job] = document
        return [found[job] for job in claimed]

    def _refusal(self, job: Job, base: Base) -> GristmillError | None:
        if job.interrupted and base.on_restart == "park":
            return Permanent(
                "Indexing was interrupted, and this base does not resume by itself: recover it when you like.",
                code="interrupted",
            )
        try:
            embedder = self._embedders.get(base.embedder)
        except Invalid as error:
            return EmbedderChanged(error.message)
        if embedder.identity != base.embedder_identity:
            return EmbedderChanged(
                f"The embedder {base.embedder!r} is no longer the one that made this base's vectors."
            )
        return None

    def _document(self, job: Job, base: Base, item: Opened) -> Document:
        embedder = self._embedders.get(base.embedder)
        source = self._originals.of(item, note=item.body, blob=item.blob_name)
        recipe = _recipe(embedder, base.chunking)
        return Document(job, base, item, item.wanted_version, embedder, source, recipe)

    # ── read and cut ─────────────────────────────────────────────────────────────────────────────────────

    async def _read(self, document: Document, stage: Embedding) -> None:
        """Put the document into its stage, window by window, as fast as it is taken out."""
        async with self._reading:
            original = await document.source.read()
        try:
            reading = await self._cut(partial(read.begin, others=READER if self._readers else None), original)
            document.digest = organisation.own(document.base.org_id, reading.digest)
            document.size = reading.size
            if document.is_unchanged:
                document.count = document.item.chunk_count
                await self._writer.leave_unchanged(document)
                return
            await _forget_other(self._db, document)
            await document.embedder.load()
            chunker = Chunker(
                document.embedder.tokenizer, limit_of(document.embedder, document.base.chunking)
            )
            async with aclosing(await self._windows(document, reading, chunker)) as windows:
                async for window in windows:
                    document.take(window)
                    stage.put(document)
                    await document.room()
                    if document.ended.done():
                        return
        finally:
            _remove(original)

    async def _windows(
        self, document: Document, reading: read.Reading, chunker: Chunker
    ) -> AsyncGenerator[Window]:
        """Where the document's windows come from: from its bytes, or from what was made of them before."""
        if reading.is_simple:
            return self._here(document, reading, chunker)
        async with self._db.connection() as tx:
            kept = await catalog.whole_content(tx, document.digest)
        if kept is not None:
            document.warnings = kept
            return self._joined(document, self._kept(document.digest), chunker)
        return self._joined(document, self._by_readers(document, reading.original), chunker)

    async def _joined(
        self, document: Document, parts: AsyncGenerator[Part], chunker: Chunker
    ) -> AsyncGenerator[Window]:
        """Windows of parts that come one by one; how many will come is not known."""
        waiting: list[Part] = []
        pieces: list[Piece] = []
        left = 1.0
        async with aclosing(parts):
            async for part in parts:
                started = time.monotonic()
                waiting.append(part)
                pieces += await self._cut(chunker.feed, part.text, part.page)
                document.spent.read += time.monotonic() - started
                if len(pieces) >= WINDOW:
                    left *= 0.9
                    yield Window(waiting, pieces, 1 - left)
                    waiting, pieces = [], []
        yield Window(waiting, [*pieces, *await self._cut(chunker.finish)], 1.0, last=True)

    async def _kept(self, digest: bytes) -> AsyncGenerator[Part]:
        """The parts of a content that was made before."""
        after = 0
        while True:
            async with self._db.connection() as tx:
                found = await catalog.parts_of(tx, digest, after)
            if not found:
                return
            for part in found:
                yield Part(part.text, part.page)
            after = found[-1].start + len(found[-1].text)

    async def _by_readers(self, document: Document, original: Original) -> AsyncGenerator[Part]:
        """The parts that a reader makes of the document; what it has to tell goes onto the document."""
        assert self._readers is not None
        left_out = 0
        with tempfile.TemporaryDirectory(dir=self._originals.scratch, prefix="gristmill-read-") as folder:
            path = original.path or Path(folder) / "original"
            if original.path is None:
                await asyncio.to_thread(path.write_bytes, original.data)
            results = readers.read(
                self._readers,
                path,
                name=original.name,
                media_type=original.media_type,
                scratch=Path(folder),
                limits=LIMITS,
            )
            async with aclosing(results):
                async for result in results:
                    match result:
                        case Part():
                            yield result
                        case Report():
                            document.warnings = [*result.warnings]
                        case _:
                            left_out += isinstance(result, Embedded)
        if left_out:
            document.warnings.append(f"embedded_left_out:{left_out}")

    async def _here(
        self, document: Document, reading: read.Reading, chunker: Chunker
    ) -> AsyncGenerator[Window]:
        windows = _cut(reading, chunker)
        while True:
            started = time.monotonic()
            window = await self._cut(next, windows, None)
            document.spent.read += time.monotonic() - started
            if window is None:
                return
            yield window

    async def _cut(self, work: Any, *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._cutters, work, *given)

    # ── embed ────────────────────────────────────────────────────────────────────────────────────────────

    def _stage(self, embedder: Embedder) -> Embedding:
        if embedder.identity not in self._embedding:
            self._embedding[embedder.identity] = Embedding(
                embedder, self._look_up, self._writer.write, embed_each
            )
        return self._embedding[embedder.identity]

    async def _look_up(self, identity: str, base_id: BaseId, hashes: Sequence[bytes]) -> dict[bytes, Vector]:
        """What was embedded before: in the same base, then in others of the same embedder."""
        async with self._db.connection() as tx:
            found = await publish.vectors(tx, [base_id], hashes)
            if missing := [digest for digest in hashes if digest not in found]:
                others = [
                    other
                    for other in await catalog.find_alike(tx, base_id, identity, _ALIKE)
                    if other != base_id
                ]
                if others:
                    found |= await publish.vectors(tx, others, missing)
        return found


def _recipe(embedder: Embedder, chunking: dict[str, Any]) -> str:
    """What decides how content is cut and embedded: where it is the same, so are the chunks."""
    return json.dumps([RECIPE, limit_of(embedder, chunking), embedder.identity])


def _cut(reading: read.Reading, chunker: Chunker) -> Iterator[Window]:
    """Windows of some pieces; a small document is one."""
    parts: list[Part] = []
    pieces: list[Piece] = []
    for part, share in reading.parts():
        parts.append(part)
        pieces += chunker.feed(part.text, part.page)
        if len(pieces) >= WINDOW:
            yield Window(parts, pieces, share)
            parts, pieces = [], []
    yield Window(parts, [*pieces, *chunker.finish()], 1.0, last=True)


async def _resume(tx: Tx, document: Document) -> None:
    """What an earlier attempt has written of this version, if there was one."""
    if document.item.begun_content is not None:
        document.written = await publish.written(tx, document.base.id, document.item.id, document.version)


async def _forget_other(db: Database, document: Document) -> None:
    """Drop what an earlier attempt has written, if this one makes it from something else, or otherwise."""
    item = document.item
    begun = item.begun_content
    if begun is not None and (begun, item.begun_recipe) != (document.digest, document.recipe):
        async with db.transaction() as tx:
            await catalog.share_turn(tx, document.base.id)
            await jobs.fence(tx, document.job)
            await publish.begin_again(tx, document.base.id, item.id, document.version)
        document.written.clear()


def _remove(original: Original) -> None:
    if original.temporary and original.path is not None:
        original.path.unlink(missing_ok=True)
