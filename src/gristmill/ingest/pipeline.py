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
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from gristmill import catalog, contents, events, faults, jobs
from gristmill.catalog import Base, BaseId, BaseStatus, DocumentToRead, ItemId
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, Embedders, embed_each
from gristmill.errors import GristmillError, Invalid, LeaseLost, Permanent
from gristmill.events import BaseFailed, ItemFailed
from gristmill.ingest.attachments import AttachmentFiler
from gristmill.ingest.batcher import Batcher
from gristmill.ingest.chunk import RECIPE, Chunker, token_limit
from gristmill.ingest.document import Document, ReadWindow
from gristmill.ingest.embed import EmbedStage, Vector
from gristmill.ingest.extract import READER, ReadStage
from gristmill.ingest.image_describers import ImageDescriber
from gristmill.ingest.images import known_image_chunks
from gristmill.ingest.offload import CpuOffload
from gristmill.ingest.processors import Processor, choose_reader
from gristmill.ingest.progress import ProgressReporter
from gristmill.ingest.read import PAGE_READER, TEXT_READER, InspectedOriginal
from gristmill.ingest.write import WriteStage
from gristmill.jobs import Done, Job, NewJob, Outcome, QueueLimits
from gristmill.operations.source_factory import SourceFactory
from gristmill.readers.pool import ReaderPool
from gristmill.search import publish
from gristmill.sources import Original
from gristmill.telemetry import pipeline_metrics, traces
from gristmill.work import CheckFileProcessing, IndexDocument

JOBS_PER_OPEN = 64  # documents in one transaction
MAX_SOURCE_READS = 8  # sources that are read at once
_REUSE_BASES = 16  # bases of one embedder in which a text's vector is looked for


class EmbedderChanged(Permanent):
    """The base's embedder is not the one that made its vectors: the whole base can't be worked on."""

    code = "embedder_changed"


def base_of(job: Job) -> BaseId:
    """The base that a job works for: its lane."""
    return BaseId(UUID(job.lane))


@dataclass(frozen=True)
class _Refusal:
    error: Exception


class Pipeline:
    """Indexes documents."""

    def __init__(
        self,
        db: Database,
        embedders: Embedders,
        originals: SourceFactory,
        readers: ReaderPool | None = None,
        limits: QueueLimits | None = None,
        analyst: ImageDescriber | None = None,
        processors: Mapping[str, Processor] | None = None,
    ) -> None:
        self._analyst, self._processors = analyst, processors or {}
        self._db, self._embedders, self._originals = db, embedders, originals
        self._open_jobs: Batcher[Job, Document | _Refusal | None] = Batcher(
            self._open_batch, size=JOBS_PER_OPEN
        )
        self._source_reads = asyncio.Semaphore(MAX_SOURCE_READS)
        self._embed_stages: dict[str, EmbedStage] = {}
        self._crew = CpuOffload()
        self._extractor = ReadStage(db, originals, readers, self._crew)
        self._attachments = AttachmentFiler(db, limits)
        self._write_stage = WriteStage(db, self._crew)
        self._progress = ProgressReporter(db)

    def close(self) -> None:
        """Nothing more will come."""
        self._crew.close()
        self._extractor.close()

    async def index(self, job: Job) -> Outcome:
        """Make the job's version of its item searchable, unless something newer is wanted."""
        document = await self._open_jobs.submit(job)
        if document is None:
            return Done()
        if isinstance(document, _Refusal):
            raise document.error
        await faults.point("index.opened")
        self._progress.watch(document)
        stage = self._embed_stage_for(document.embedder)
        try:
            await self._read_document(document, stage)
            return await document.ended
        finally:
            self._progress.forget(document)
            document.finish()
            stage.remove(document)
            _record_timings(document)

    async def record_failure(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """The job is dead: say so on the item, in the same transaction; and on the base when it is at fault."""
        base_id = base_of(job)
        await catalog.lock_base_shared(tx, base_id)
        work = IndexDocument.of(job)
        if await catalog.fail_version(tx, work.item_id, work.version, error.code, error.message):
            await publish.discard_unpublished(tx, base_id, work.item_id)
            event = ItemFailed(base_id, work.item_id, work.version, error.code, error.message)
            await events.record(tx, event)
        if isinstance(error, EmbedderChanged):
            await catalog.set_base_status(tx, base_id, BaseStatus.FAILED, error.code, error.message)
            await events.record(tx, BaseFailed(base_id, error.code, error.message))
        await events.announce_ready(tx, [base_id])

    # ── open ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _open_batch(self, claimed: Sequence[Job]) -> list[Document | _Refusal | None]:
        """For each job its document, what refuses it, or None when there is nothing to do."""
        results: dict[Job, Document | _Refusal | None] = dict.fromkeys(claimed)
        async with self._db.transaction() as tx:
            await catalog.lock_bases_shared(tx, [base_of(job) for job in claimed])
            fenced = await jobs.fence_all(tx, claimed)
            bases = await catalog.find_bases(tx, [base_of(job) for job in claimed])
            wanted: dict[ItemId, Job] = {}
            for job in claimed:
                base = bases.get(base_of(job))
                if job.id not in fenced:
                    results[job] = _Refusal(LeaseLost(f"job {job.id} is no longer ours"))
                elif base is not None and (refused := self._blocking_error(job, base)) is not None:
                    results[job] = _Refusal(refused)
                elif base is not None:
                    wanted[IndexDocument.of(job).item_id] = job
            versions = [(item_id, IndexDocument.of(job).version) for item_id, job in wanted.items()]
            for item in await catalog.begin_reading(tx, versions) if versions else []:
                job = wanted[item.id]
                document = self._document(job, bases[base_of(job)], item)
                await _load_written(tx, document)
                results[job] = document
        return [results[job] for job in claimed]

    def _blocking_error(self, job: Job, base: Base) -> GristmillError | None:
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

    def _document(self, job: Job, base: Base, item: DocumentToRead) -> Document:
        embedder = self._embedders.get(base.embedder)
        recipe = _recipe(embedder, base.chunking)
        known = self._validators_to_send(base, item) if item.live_recipe == recipe else {}
        source = self._originals.for_item(item, note=item.body, blob=item.blob_name, validators=known)
        return Document(job, base, item, item.wanted_version, embedder, source, recipe)

    def _validators_to_send(self, base: Base, item: DocumentToRead) -> dict[str, str]:
        """What a page's server may compare, if what answers would be made alike from the same bytes."""
        known = dict(item.live_validators or {})
        reader = known.pop("reader", None)
        processor = self._processors.get(base.file_processor or "")
        is_same_reader = (
            reader == processor.identity if processor else reader in (TEXT_READER, PAGE_READER, READER)
        )
        return known if is_same_reader and base.asset_reuse != "force" else {}

    # ── read and cut ─────────────────────────────────────────────────────────────────────────────────────

    async def _read_document(self, document: Document, stage: EmbedStage) -> None:
        """Put the document into its stage, window by window, as fast as it is taken out."""
        async with self._source_reads:
            original = await document.source.read()
        try:
            if original.unchanged and document.item.live_content is not None:
                document.digest, document.size = document.item.live_content, document.item.size_bytes or 0
                await self._finish_unchanged(document)
                return
            inspected = replace(await self._extractor.inspect(original), org=document.base.org_id)
            reading = await self._choose_reader(document, original, inspected)
            document.digest, document.size = reading.digest, reading.size
            if document.is_unchanged and await self._finish_unchanged(document, simple=reading.is_plain):
                return
            if await self._hand_to_converter(document, reading):
                return
            if document.item.type == "url":
                await self._extractor.save_page(document, reading)
            await _discard_other_attempt(self._db, document)
            await document.embedder.load()
            chunker = Chunker(
                document.embedder.tokenizer, token_limit(document.embedder, document.base.chunking)
            )
            async with aclosing(await self._extractor.windows(document, reading, chunker)) as windows:
                async for window in windows:
                    if window.last and not await self._file_attachments(document):
                        return
                    document.add_window(
                        await self._add_image_chunks(document, window) if window.last else window
                    )
                    stage.add(document)
                    await faults.point("index.window")
                    await document.wait_for_room()
                    if document.ended.done():
                        return
            await faults.point("index.read")
        finally:
            _remove_temporary(original)

    async def _finish_unchanged(self, document: Document, *, simple: bool = False) -> bool:
        """Leave what answers as it is, but for what it holds; False when its images are to be described again."""
        if not simple:
            await self._extractor.load_known_assets(document)
        if self._must_redescribe_images(document):
            return False
        document.count = document.item.chunk_count
        if await self._file_attachments(document):
            await self._write_stage.finish_unchanged(document)
        return True

    def _must_redescribe_images(self, document: Document) -> bool:
        """Whether its images are to be described again though nothing changed."""
        return document.base.asset_reuse == "force" and any(one.kind == "image" for one in document.assets)

    async def _add_image_chunks(self, document: Document, window: ReadWindow) -> ReadWindow:
        """The last window, with what is known to be said by the document's images behind it."""
        if self._analyst is None or not document.assets:
            return window
        first = document.count + len(window.pieces)
        if late := {index for index in document.written if index >= first}:
            # An earlier attempt may have known of fewer, or of others.
            async with self._db.transaction() as tx:
                await catalog.lock_base_shared(tx, document.base.id)
                await jobs.fence(tx, document.job)
                await publish.discard_from_index(
                    tx, document.base.id, document.item.id, document.version, first
                )
            document.written -= late
        image_chunks = await known_image_chunks(self._db, document, self._analyst)
        pieces = [replace(piece, index=first + number) for number, piece in enumerate(image_chunks)]
        return replace(window, pieces=[*window.pieces, *pieces])

    async def _choose_reader(
        self, document: Document, original: Original, reading: InspectedOriginal
    ) -> InspectedOriginal:
        """The reading as the base's file processor makes it, if it takes such files."""
        name = document.base.file_processor
        if document.item.type not in ("file", "url"):
            return reading
        match choose_reader(original.name, name, self._processors):
            case "invalid":
                raise Permanent(
                    f"The base's file processor {name!r} is not set up. Set it up, or give the base another one.",
                    code="unknown_file_processor",
                )
            case "process":
                return replace(reading, reader=self._processors[name or ""].identity)
            case "direct":
                return reading

    async def _hand_to_converter(self, document: Document, reading: InspectedOriginal) -> bool:
        """Whether somebody else has to convert it first: then its job ends, and another one begins."""
        name = document.base.file_processor or ""
        if name not in self._processors or reading.reader != self._processors[name].identity:
            return False
        async with self._db.transaction() as tx:
            if await contents.complete_content_warnings(tx, reading.digest) is not None:
                return False
            await catalog.lock_base_shared(tx, document.base.id)
            await jobs.fence(tx, document.job)
            if await catalog.is_wanted(tx, document.item.id, document.version):
                work = CheckFileProcessing(document.item.id, document.version, name, document.digest.hex())
                await jobs.enqueue(tx, NewJob(work, lane=document.base.lane, workload=float(document.size)))
            await jobs.complete(tx, document.job)
            await faults.point("convert.handed_over")
        document.finish()
        return True

    async def _file_attachments(self, document: Document) -> bool:
        """File what the document holds, now that all of it is read; False when it has to come back for that."""
        outcome = await self._attachments.file(document)
        if outcome is not None:
            document.finish(outcome)
        return outcome is None

    # ── embed ────────────────────────────────────────────────────────────────────────────────────────────

    def _embed_stage_for(self, embedder: Embedder) -> EmbedStage:
        if embedder.identity not in self._embed_stages:
            self._embed_stages[embedder.identity] = EmbedStage(
                embedder, self._find_vectors, self._write_stage.write, embed_each
            )
        return self._embed_stages[embedder.identity]

    async def _find_vectors(
        self, identity: str, base_id: BaseId, hashes: Sequence[bytes]
    ) -> dict[bytes, Vector]:
        """What was embedded before: in the same base, then in others of the same embedder."""
        async with self._db.connection() as tx:
            vectors = await publish.reusable_vectors(tx, [base_id], hashes)
            if missing := [digest for digest in hashes if digest not in vectors]:
                others = [
                    other
                    for other in await catalog.find_bases_by_embedder(tx, base_id, identity, _REUSE_BASES)
                    if other != base_id
                ]
                if others:
                    vectors |= await publish.reusable_vectors(tx, others, missing)
        return vectors


def _recipe(embedder: Embedder, chunking: dict[str, Any]) -> str:
    """What decides how content is cut and embedded: where it is the same, so are the chunks."""
    return json.dumps([RECIPE, token_limit(embedder, chunking), embedder.identity])


async def _load_written(tx: Tx, document: Document) -> None:
    """What an earlier attempt has written of this version, if there was one."""
    if document.item.begun_content is not None:
        document.written = await publish.written_chunk_indexes(
            tx, document.base.id, document.item.id, document.version
        )


async def _discard_other_attempt(db: Database, document: Document) -> None:
    """Drop what an earlier attempt has written, if this one makes it from something else, or otherwise."""
    item = document.item
    begun = item.begun_content
    if begun is not None and (begun, item.begun_recipe) != (document.digest, document.recipe):
        async with db.transaction() as tx:
            await catalog.lock_base_shared(tx, document.base.id)
            await jobs.fence(tx, document.job)
            await publish.discard_version(tx, document.base.id, item.id, document.version)
        document.written.clear()


def _record_timings(document: Document) -> None:
    spent = document.timings
    pipeline_metrics.observe_stage("read", spent.read)
    pipeline_metrics.observe_stage("embed", spent.embed)
    pipeline_metrics.observe_stage("write", spent.write)
    pipeline_metrics.observe_stage("all", time.monotonic() - spent.began)
    for name in ("read", "embed", "write"):
        traces.record_past_span(f"stage {name}", getattr(spent, name), {"item": str(document.item.id)})


def _remove_temporary(original: Original) -> None:
    if original.temporary and original.path is not None:
        original.path.unlink(missing_ok=True)
