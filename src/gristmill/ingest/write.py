"""write: chunks of many documents in one transaction, and the end of those that are whole with it.

    before        the chunks of a batch are lexed (crew.py), while the batch before is being written
    transaction   the bases' turns are shared → leases proved → versions still wanted → contents, versions and parts
                  kept → rows copied in → what is whole is published, with jobs and events → who became ready
    after         documents are told: written so far, done, no longer wanted, or lost to another worker

Killed before the commit: the rows of this transaction are embedded again, no others. Killed after: they are there, and
the next attempt passes over them. What makes a transaction fail is done again document by document, so that it fails
one of them alone.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

from gristmill import catalog, contents, events, faults, jobs
from gristmill.catalog import BaseId
from gristmill.contents import ContentAsset, ContentAttachment, FinishedVersion, NewContentPart, NewVersion
from gristmill.db import Database, DatabaseUnavailable, Tx
from gristmill.errors import LeaseLost
from gristmill.events import DocumentContentExtracted
from gristmill.ingest.batcher import Batcher
from gristmill.ingest.document import Document
from gristmill.ingest.embed import EmbeddedChunks
from gristmill.ingest.offload import CpuOffload
from gristmill.jobs import NewJob
from gristmill.search import Chunk, publish
from gristmill.search.publish import PreparedWrite, VersionChunks
from gristmill.telemetry import pipeline_metrics
from gristmill.work import AnalyseAssets

BATCHES_PER_TRANSACTION = 2  # in one transaction
DOCUMENTS_PER_TRANSACTION = 64  # that are left as they are, in one transaction
Found = TypeVar("Found")


@dataclass(frozen=True)
class _PlannedWrite:
    document: Document
    chunks: Sequence[Chunk]
    indexes: frozenset[int]
    parts: list[NewContentPart]
    attachments: Sequence[ContentAttachment]
    assets: Sequence[ContentAsset]
    is_read: bool  # all of its parts are these, and those written before
    is_last: bool


@dataclass(frozen=True)
class _WriteBatch:
    ready: Sequence[EmbeddedChunks]
    prepared: Mapping[BaseId, PreparedWrite]


class WriteStage:
    """Writes for all documents of a process, one transaction at a time."""

    def __init__(self, db: Database, crew: CpuOffload) -> None:
        self._db, self._crew = db, crew
        self._batches: Batcher[_WriteBatch, None] = Batcher(self._write_batches, size=BATCHES_PER_TRANSACTION)
        self._unchanged: Batcher[Document, None] = Batcher(
            self._finish_unchanged_batch, size=DOCUMENTS_PER_TRANSACTION
        )

    async def write(self, ready: Sequence[EmbeddedChunks]) -> None:
        """Write these chunks; every document is told how it went."""
        if not ready:
            return
        try:
            await self._batches.submit(_WriteBatch(ready, await self._lex_by_base(ready)))
        except Exception as error:
            if len(ready) == 1 or isinstance(error, DatabaseUnavailable):
                for embedded in ready:
                    embedded.document.fail(error)
            else:
                for embedded in ready:
                    await self.write([embedded])

    async def finish_unchanged(self, document: Document) -> None:
        """End a document that would become what answers already."""
        try:
            await self._unchanged.submit(document)
        except Exception as error:
            document.fail(error)

    # ── one transaction ──────────────────────────────────────────────────────────────────────────────────

    async def _write_batches(self, batches: Sequence[_WriteBatch]) -> list[None]:
        started = time.monotonic()
        planned = plan_writes([one for batch in batches for one in batch.ready])
        prepared = [entry for batch in batches for entry in batch.prepared.items()]
        async with self._db.transaction() as tx:
            live = await self._lock_wanted(tx, [one.document for one in planned])
            writing = [one for one in planned if one.document in live]
            await faults.point("write.begun")
            if len(writing) < len(planned):  # seldom: then it is done again for the others
                left = _by_base([EmbeddedChunks(one.document, [*one.chunks]) for one in writing])
                prepared = [(base_id, publish.prepare_write(chunks)) for base_id, chunks in left.items()]
            await self._store_contents(tx, writing)
            for base_id, chunks in sorted(prepared, key=itemgetter(0)):
                await publish.write(tx, base_id, chunks)
            await jobs.reset_attempts(
                tx, [one.document.job for one in writing if one.chunks and not one.is_last]
            )
            await self._publish_documents(tx, [one.document for one in writing if one.is_last])
        took = time.monotonic() - started
        pipeline_metrics.observe_batch("write", len(writing))
        for write in writing:
            _record_write(write, took)
        await faults.point("index.batch_written")
        return [None] * len(batches)

    async def _lex_by_base(self, ready: Sequence[EmbeddedChunks]) -> dict[BaseId, PreparedWrite]:
        return {
            base_id: PreparedWrite(written, await self._crew.build_segment(*publish.segment_input(written)))
            for base_id, written in _by_base(ready).items()
        }

    async def _finish_unchanged_batch(self, documents: Sequence[Document]) -> list[None]:
        async with self._db.transaction() as tx:
            live = await self._lock_wanted(tx, documents)
            done = [(document.base.id, document.job, _finished_version(document)) for document in live]
            if done:
                await events.record(tx, *map(_extraction_event, live))
                await publish.finish_unchanged(tx, done)
                lanes = {document.item.id: document.base.lane for document in live}
                for reopened in await contents.retry_failed_assets(tx, [d.item.id for d in live if d.assets]):
                    work = AnalyseAssets(reopened.id, reopened.version)
                    await jobs.enqueue(tx, NewJob(work, lane=lanes[reopened.id]))
                await events.announce_ready(tx, [document.base.id for document in live])
        for document in live:
            document.finish()
        return [None] * len(documents)

    async def _lock_wanted(self, tx: Tx, documents: Sequence[Document]) -> dict[Document, None]:
        """Those of the documents that may be written for; the others are told why not."""
        await catalog.lock_bases_shared(tx, [document.base.id for document in documents])
        fenced = await jobs.fence_all(tx, [document.job for document in documents])
        owned = [document for document in documents if document.job.id in fenced]
        wanted = await catalog.lock_wanted_versions(tx, [document.key for document in owned])
        for document in documents:
            if document.job.id not in fenced:
                document.fail(LeaseLost(f"job {document.job.id} is no longer ours"))
            elif document.item.id not in wanted:
                document.finish()
        return dict.fromkeys(document for document in owned if document.item.id in wanted)

    async def _store_contents(self, tx: Tx, writing: Sequence[_PlannedWrite]) -> None:
        """Contents first, for versions refer to them; parts only of those that nobody has kept whole."""
        complete = await contents.ensure_contents(tx, [one.document.digest for one in writing])
        await contents.save_versions(
            tx,
            [
                NewVersion(
                    one.document.item.id,
                    one.document.version,
                    one.document.digest,
                    one.document.recipe,
                    one.document.original,
                    one.document.validators,
                )
                for one in writing
                if not one.document.is_version_saved
            ],
        )
        # Two equal documents in one transaction would bring the same part twice.
        parts = {(part.content, part.start): part for one in writing for part in one.parts}
        await contents.insert_content_parts(
            tx, [part for part in parts.values() if part.content not in complete]
        )
        await contents.insert_attachments(
            tx, [(one.document.digest, found) for one in writing for found in one.attachments]
        )
        await contents.insert_content_assets(
            tx, [(one.document.digest, found) for one in writing for found in one.assets]
        )
        read = [one.document for one in writing if one.is_read and one.parts]
        await contents.mark_contents_complete(tx, _content_totals(read))

    async def _publish_documents(self, tx: Tx, done: Sequence[Document]) -> None:
        if not done:
            return
        await contents.mark_contents_complete(tx, _content_totals(done))
        for document in done:
            await contents.mark_assets_inline(tx, document.digest, document.inline)
        await events.record(tx, *map(_extraction_event, done))
        await publish.publish(
            tx, [(document.base.id, document.job, _finished_version(document)) for document in done]
        )
        await jobs.enqueue(tx, *map(_image_analysis_job, filter(_has_undescribed_images, done)))
        await events.announce_ready(tx, [document.base.id for document in done])
        await faults.point("publish.before_commit")


def _by_base(ready: Sequence[EmbeddedChunks]) -> dict[BaseId, list[VersionChunks]]:
    """The chunks of each base, which will share a segment."""
    written: dict[BaseId, list[VersionChunks]] = {}
    for embedded in ready:
        if embedded.chunks:
            document = embedded.document
            written.setdefault(document.base.id, []).append(
                VersionChunks(document.item.id, document.item.title, document.version, embedded.chunks)
            )
    return written


def plan_writes(ready: Sequence[EmbeddedChunks]) -> list[_PlannedWrite]:
    """What is to be written, and with what each document ends: two batches of one may do that together."""
    planned: list[_PlannedWrite] = []
    new_indexes: dict[Document, set[int]] = {}
    ended: set[Document] = set()
    for embedded in ready:
        document = embedded.document
        indexes = frozenset(chunk.index for chunk in embedded.chunks)
        parts = [
            NewContentPart(document.digest, start, part.text, part.page) for start, part in document.parts
        ]
        new = new_indexes.setdefault(document, set())
        new |= indexes - document.written
        left = document.count - len(document.written) - len(new)
        ends = document.is_read and not left and document not in ended
        if ends:
            ended.add(document)
        found = tuple(document.unsaved_attachments), tuple(document.unsaved_assets)
        planned.append(
            _PlannedWrite(document, embedded.chunks, indexes, parts, *found, document.is_read, ends)
        )
    return planned


def _content_totals(documents: Sequence[Document]) -> dict[bytes, tuple[int, Sequence[str]]]:
    return {document.digest: (document.characters, document.warnings) for document in documents}


def _finished_version(document: Document) -> FinishedVersion:
    warnings = document.warnings
    if not document.count and not warnings and not document.attachments:
        warnings = ["empty"]
    return FinishedVersion(
        document.item.id,
        document.version,
        document.count,
        warnings,
        document.size or None,
        document.timeline(),
        tuple(document.images),
    )


def _has_undescribed_images(document: Document) -> bool:
    return any(image.text is None for image in document.images)


def _image_analysis_job(document: Document) -> NewJob:
    work = AnalyseAssets(document.item.id, document.version)
    return NewJob(work, lane=document.base.lane, workload=float(sum(one.size for one in document.assets)))


def _extraction_event(document: Document) -> DocumentContentExtracted:
    return DocumentContentExtracted(document.base.id, document.item.id, document.version, document.characters)


def _record_write(write: _PlannedWrite, took: float) -> None:
    document = write.document
    document.written |= write.indexes
    document.is_version_saved = True
    # By their places: another batch of the same document may have brought them in the same transaction.
    if write.parts:
        last = write.parts[-1].start
        document.parts = [part for part in document.parts if part[0] > last]
    document.unsaved_attachments = _after_last(document.unsaved_attachments, write.attachments)
    document.unsaved_assets = _after_last(document.unsaved_assets, write.assets)
    document.timings.write += took
    if write.is_last:
        document.finish()


def _after_last(unsaved: list[Found], written: Sequence[Found]) -> list[Found]:
    """What came after the last that was written; all, when that is gone from the list already."""
    if written and written[-1] in unsaved:
        return unsaved[unsaved.index(written[-1]) + 1 :]
    return unsaved
