"""One document's way: read → chunk → embed → write → publish, as the job `index_document`.

Each arrow ends in a fenced transaction or leaves nothing behind; killed anywhere, the next attempt begins
again at the source, and what was searchable stays so until `publish`.
"""

from dataclasses import dataclass

from gristmill import catalog, faults, jobs
from gristmill.catalog import Base, Item, ItemStatus
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, Embedders
from gristmill.errors import GristmillError, Invalid, Permanent
from gristmill.ingest import chunk, embed, read
from gristmill.jobs import Done, Job, Outcome
from gristmill.search import publish
from gristmill.work import IndexDocument

WRITE_BATCH = 200  # chunks in one transaction


@dataclass(frozen=True)
class _Document:
    item: Item
    base: Base
    note: str | None


class Pipeline:
    """Indexes documents."""

    def __init__(self, db: Database, embedders: Embedders, *, document_limit: int) -> None:
        self._db, self._embedders, self._limit = db, embedders, document_limit

    async def index(self, job: Job) -> Outcome:
        """Make the job's version of its item searchable, unless something newer is wanted."""
        version = IndexDocument.of(job).version
        document = await self._open(job, version)
        if document is None:
            return Done()
        embedder = self._embedder(document.base)
        content = await read.read(read.source_of(document.item, document.note, self._limit))
        pieces = await chunk.chunk(content.text, embedder, document.base.chunking)
        if not await self._keep(job, document.item, version, content):
            return Done()
        await publish.begin(self._db, job, document.item, version)
        for start in range(0, len(pieces), WRITE_BATCH):
            chunks = await embed.embed(embedder, pieces[start : start + WRITE_BATCH])
            await publish.write(self._db, job, document.item, version, chunks)
            await faults.point("index.batch_written")
        await publish.publish(
            self._db, job, document.item, version, chunks=len(pieces), warnings=[] if pieces else ["empty"]
        )
        return Done()

    async def failed(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """The job is dead: say so on the item, in the same transaction."""
        work = IndexDocument.of(job)
        await catalog.set_failed(tx, work.item_id, work.version, error.code, error.message)

    async def _open(self, job: Job, version: int) -> _Document | None:
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            item = await catalog.find_item(tx, IndexDocument.of(job).item_id)
            if item is None or not await catalog.set_stage(tx, item.id, version, ItemStatus.READING):
                return None
            base = await catalog.find_base(tx, item.base_id)
            if base is None:
                return None
            return _Document(
                item, base, await catalog.note_text(tx, item.id) if item.type == "note" else None
            )

    def _embedder(self, base: Base) -> Embedder:
        try:
            embedder = self._embedders.get(base.embedder)
        except Invalid as error:
            raise Permanent(error.message, code=error.code) from error
        if embedder.identity != base.embedder_identity:
            raise Permanent(
                f"The embedder {base.embedder!r} is no longer the one that made this base's vectors.",
                code="embedder_changed",
            )
        return embedder

    async def _keep(self, job: Job, item: Item, version: int, content: read.Content) -> bool:
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            if not await catalog.set_stage(tx, item.id, version, ItemStatus.EMBEDDING):
                return False
            await catalog.keep_content(
                tx, item.id, version, digest=content.digest, text=content.text, title=item.title
            )
            return True
