"""One document's way: read → chunk → embed → write → publish, as the job `index_document`.

Each arrow ends in a fenced transaction or leaves nothing behind; killed anywhere, the next attempt begins
again at the source, and what was searchable stays so until `publish`. Every transaction shares the base's turn
and looks whether the version is still wanted: after a deletion or a newer version, nothing more is written.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, BaseId, BaseStatus, Item, ItemStatus
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, Embedders
from gristmill.errors import GristmillError, Invalid, Permanent
from gristmill.events import BaseFailed, DocumentContentExtracted, ItemFailed
from gristmill.ingest import chunk, embed, read
from gristmill.jobs import Done, Job, Outcome
from gristmill.operations.originals import Originals
from gristmill.search import publish
from gristmill.sources import Source
from gristmill.work import IndexDocument

WRITE_BATCH = 200  # chunks in one transaction


class EmbedderChanged(Permanent):
    """The base's embedder is not the one that made its vectors: the whole base can't be worked on."""

    code = "embedder_changed"


@dataclass(frozen=True)
class _Document:
    base: Base
    item: Item
    version: int
    source: Source


def base_of(job: Job) -> BaseId:
    """The base that a job works for: its lane."""
    return BaseId(UUID(job.lane))


class Pipeline:
    """Indexes documents."""

    def __init__(self, db: Database, embedders: Embedders, originals: Originals) -> None:
        self._db, self._embedders, self._originals = db, embedders, originals

    async def index(self, job: Job) -> Outcome:
        """Make the job's version of its item searchable, unless something newer is wanted."""
        document = await self._open(job)
        if document is None:
            return Done()
        await faults.point("index.opened")
        embedder = self._embedder(document.base)
        content = await read.read(document.source)
        pieces = await chunk.chunk(content.text, embedder, document.base.chunking)
        if not await self._keep(job, document, content):
            return Done()
        for start in range(0, len(pieces), WRITE_BATCH):
            chunks = await embed.embed(embedder, pieces[start : start + WRITE_BATCH])
            async with self._writing(job, document) as tx:
                if tx is None:
                    return Done()
                await publish.write(tx, document.item, document.version, chunks)
            await faults.point("index.batch_written")
        async with self._writing(job, document) as tx:
            if tx is not None:
                warnings = [] if pieces else ["empty"]
                await publish.publish(
                    tx, job, document.item, document.version, chunks=len(pieces), warnings=warnings
                )
                await faults.point("publish.before_commit")
        await faults.point("publish.committed")
        return Done()

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

    async def _open(self, job: Job) -> _Document | None:
        work = IndexDocument.of(job)
        async with self._db.transaction() as tx:
            await catalog.share_turn(tx, base_of(job))
            await jobs.fence(tx, job)
            item = await catalog.find_item(tx, work.item_id)
            base = await catalog.find_base(tx, base_of(job))
            if item is None or base is None:
                return None
            if job.interrupted and base.on_restart == "park":
                raise Permanent(
                    "Indexing was interrupted, and this base does not resume by itself: recover it when you like.",
                    code="interrupted",
                )
            if not await catalog.set_stage(tx, item.id, work.version, ItemStatus.READING):
                return None
            note = await catalog.note_text(tx, item.id) if item.type == "note" else None
            source = self._originals.of(item, note=note, blob=await catalog.blob_of(tx, item.id))
        return _Document(base, item, work.version, source)

    def _embedder(self, base: Base) -> Embedder:
        try:
            embedder = self._embedders.get(base.embedder)
        except Invalid as error:
            raise EmbedderChanged(error.message) from error
        if embedder.identity != base.embedder_identity:
            raise EmbedderChanged(
                f"The embedder {base.embedder!r} is no longer the one that made this base's vectors."
            )
        return embedder

    async def _keep(self, job: Job, document: _Document, content: read.Content) -> bool:
        item, version = document.item, document.version
        async with self._writing(job, document) as tx:
            if tx is None or not await catalog.set_stage(tx, item.id, version, ItemStatus.EMBEDDING):
                return False
            await catalog.keep_content(
                tx, item.id, version, digest=content.digest, text=content.text, title=item.title
            )
            await publish.begin(tx, item)
            await events.record(
                tx, DocumentContentExtracted(item.base_id, item.id, version, len(content.text))
            )
            return True

    @asynccontextmanager
    async def _writing(self, job: Job, document: _Document) -> AsyncGenerator[Tx | None]:
        """A transaction that may write for the document; None when its version is no longer wanted."""
        async with self._db.transaction() as tx:
            await catalog.share_turn(tx, document.base.id)
            await jobs.fence(tx, job)
            yield tx if await catalog.is_wanted(tx, document.item.id, document.version) else None
