"""Index documents: the job `index_document`. A document goes through open → read → chunk → embed → write.

Each stage batches the documents that wait for it, across items and bases; README.md has the picture with the capacities.
Killed anywhere, the next attempt continues after the last committed batch, and the live version answers searches until
the new one is complete. Every transaction locks the base shared, proves the job's lease and checks that the version is
still wanted: after a deletion or a newer version nothing more is written.

    the content equals that of the live version    nothing is chunked, embedded or written
    an earlier attempt wrote some chunks           only the rest is embedded, if content and recipe are the same
    a text was embedded before                     its vector is reused
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from time import monotonic

from gristmill import catalog, contents, events, faults, jobs
from gristmill.catalog import Base, BaseId, BaseStatus
from gristmill.contents import ContentAsset, ContentAttachment
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, Embedders, embed_each
from gristmill.errors import GristmillError, NoText, Permanent
from gristmill.events import BaseFailed, ItemFailed
from gristmill.ingest.attachments import AttachmentFiler
from gristmill.ingest.batcher import Batcher
from gristmill.ingest.embed import EmbedStage, Vector
from gristmill.ingest.image_describers import ImageDescriber
from gristmill.ingest.images import images_with_descriptions
from gristmill.ingest.inspect_original import InspectedOriginal
from gristmill.ingest.offload import CpuOffload
from gristmill.ingest.open import EmbedderChanged, JobOpener, OpenedJob, Refusal, embedder_of
from gristmill.ingest.processors import Processor, choose_reader
from gristmill.ingest.progress import DocumentProgress, ProgressReporter
from gristmill.ingest.read import ReadStage
from gristmill.ingest.render import create_renderer, read_source
from gristmill.ingest.reserve import Purse
from gristmill.ingest.stages import Stages
from gristmill.ingest.task import (
    EndOfContent,
    IndexTask,
    ReadWindow,
    UnchangedDocument,
    VersionContent,
    base_of,
)
from gristmill.ingest.transcribe import TranscriptReader
from gristmill.ingest.transcriber import Transcriber
from gristmill.ingest.write import WriteStage
from gristmill.jobs import Activity, Done, Job, NewJob, Outcome, QueueLimits, Snooze
from gristmill.operations.source_factory import SourceFactory
from gristmill.readers.pool import ReaderPool
from gristmill.search import publish
from gristmill.search.index.engine_indexes import NO_ENGINE, EngineIndexes
from gristmill.sources import Original
from gristmill.telemetry import pipeline_metrics, traces
from gristmill.work import CheckFileProcessing, IndexDocument

LARGE_DOCUMENT = 100 << 20  # bytes from which a document gets a warning
JOBS_PER_OPEN = 64  # jobs that are opened in one transaction
REUSE_BASES = 16  # other bases of the same embedder that are searched for a text's vector


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
        stages: Stages | None = None,
        large_document: int = LARGE_DOCUMENT,
        indexes: EngineIndexes = NO_ENGINE,
        transcriber: Transcriber | None = None,
    ) -> None:
        self._large_document = large_document
        self._db, self._describer, self._processors = db, analyst, processors or {}
        self._embedders, self._purse = embedders, Purse(db, embedders)
        self._stages = stages or Stages()
        opener = JobOpener(db, embedders, originals, self._processors)
        self._open_jobs: Batcher[Job, OpenedJob] = Batcher(opener.open, size=JOBS_PER_OPEN)
        self.offload = self._offload = CpuOffload()
        self._read_stage = ReadStage(db, originals, readers, self._offload, self._stages.threads)
        self._renderer = create_renderer(originals, self._stages)
        self._transcripts = TranscriptReader(db, transcriber, originals.scratch, self._stages.descriptions)
        self._attachments = AttachmentFiler(db, limits)
        self._embed_stages: dict[Embedder, EmbedStage] = {}
        self._write_stage = WriteStage(db, self._offload, indexes)
        self._progress = ProgressReporter(db, self._progress_of)

    def close(self) -> None:
        """Stop the threads and the subprocess."""
        self._offload.close()
        self._read_stage.close()

    async def index(self, job: Job) -> Outcome:
        """Make the job's version of its item searchable, unless a newer one is wanted."""
        with job.during(Activity.OPENING):
            task = await self._open_jobs.submit(job)
        if task is None:
            return Done()
        if isinstance(task, Snooze):
            return task
        if isinstance(task, Refusal):
            raise task.error
        await faults.point("index.opened")
        self._progress.watch(task)
        stage = self._embed_stage_for(task.embedder)
        try:
            await self._read(task, stage)
            return await self._write_stage.wait_for_end(task)
        finally:
            self._progress.forget(task)
            task.completion.finish()
            self._record_timings(task, stage)
            stage.remove(task)
            self._write_stage.forget(task)

    async def record_failure(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """Mark the item as failed, and the base if its embedder has changed, in the transaction that buries the job."""
        base_id = base_of(job)
        await catalog.lock_base_shared(tx, base_id)
        work = IndexDocument.of(job)
        if await catalog.fail_version(tx, work.item_id, work.version, error.code, error.message):
            await publish.discard_unpublished(tx, base_id, work.item_id)
            event = ItemFailed(base_id, work.item_id, work.version, error.code, error.message)
            await events.record(tx, event)
        if isinstance(error, EmbedderChanged) and await self._lacks_embedder(tx, base_id):
            await catalog.set_base_status(tx, base_id, BaseStatus.FAILED, error.code, error.message)
            await events.record(tx, BaseFailed(base_id, error.code, error.message))
        await events.announce_ready(tx, [base_id])

    async def _lacks_embedder(self, tx: Tx, base_id: BaseId) -> bool:
        """Whether the base's embedder is still missing or another one: it may have been exchanged since."""
        base = await catalog.find_base(tx, base_id)
        try:
            if base is not None:
                await embedder_of(tx, base, self._embedders)
        except EmbedderChanged:
            return True
        return False

    # ── read ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _read(self, task: IndexTask, stage: EmbedStage) -> None:
        """Read the source, and finish the document here if there is nothing to index."""
        original = await read_source(task, self._renderer, self._stages)
        try:
            if original.unchanged and task.item.live_content is not None:
                content = VersionContent(task.item.live_content, task.item.size_bytes or 0)
                await self._finish_unchanged(task, content, *await self._load_findings(content))
                return
            inspected = self._transcripts.choose_reader(await self._read_stage.inspect(original, task))
            inspected = self._choose_reader(task, original, inspected)
            content = VersionContent(inspected.digest, inspected.size)
            if task.is_unchanged(content.digest):
                findings = ((), ()) if inspected.is_plain else await self._load_findings(content)
                if not _must_redescribe_images(task, findings[1]):
                    await self._finish_unchanged(task, content, *findings)
                    return
            if await self._hand_to_converter(task, content, inspected):
                return
            if task.item.type == "url":
                blob = await self._read_stage.store_page(task.base.org_id, inspected.original.data)
                validators = {**inspected.original.metadata, "reader": inspected.reader}
                content = replace(content, page_blob=blob, validators=validators)
            if await self._transcripts.ensure_transcript(task, content, inspected):
                await self._read_windows(task, content, inspected, stage)
            else:
                task.completion.finish()
        finally:
            _remove_temporary(original)

    async def _read_windows(
        self, task: IndexTask, content: VersionContent, inspected: InspectedOriginal, stage: EmbedStage
    ) -> None:
        """Hand the document to the embed and write stages, window by window, as fast as they take it."""
        written = await self._discard_other_attempt(task, content)
        await task.embedder.load()
        await self._write_stage.begin(task, content)
        count = 0
        async with aclosing(self._windows(task, inspected)) as windows:
            async for window in windows:
                if window.end is not None:
                    _refuse_without_text(task, window.end)
                    filed = await self._attachments.file(task, content.digest, window.end.attachments)
                    if filed.postponed is not None:
                        task.completion.finish(filed.postponed)
                        return
                    window = _with_warnings(window, self._warnings(content, filed.left_out))
                    first = count + len(window.chunks)
                    written = await self._discard_image_chunks(task, first, written)
                    window = await self._add_image_chunks(task, window, first)
                count += len(window.chunks)
                chunks = [chunk for chunk in window.chunks if chunk.index not in written]
                window = replace(window, chunks=chunks, resumed=len(window.chunks) - len(chunks))
                self._write_stage.add(task, window)
                stage.add(task, chunks, is_last=window.end is not None)
                await faults.point("index.window")
                await stage.wait_for_room(task)
                await self._write_stage.wait_for_engine(task)
                if task.completion.is_done:
                    return
        await faults.point("index.read")

    async def _windows(self, task: IndexTask, inspected: InspectedOriginal) -> AsyncGenerator[ReadWindow]:
        """The document's windows. Without text it ends with a warning, if its base wants that."""
        try:
            async with aclosing(await self._read_stage.windows(task, inspected)) as windows:
                async for window in windows:
                    yield window
        except NoText:
            if task.base.empty_documents == "fail":
                raise
            yield ReadWindow([], [], 1.0, end=EndOfContent(warnings=[NoText.code]))

    async def _finish_unchanged(
        self,
        task: IndexTask,
        content: VersionContent,
        attachments: Sequence[ContentAttachment],
        assets: Sequence[ContentAsset],
    ) -> None:
        """Leave the live version as it is, and file its attachments."""
        filed = await self._attachments.file(task, content.digest, attachments)
        if filed.postponed is not None:
            task.completion.finish(filed.postponed)
            return
        warnings = self._warnings(content, filed.left_out)
        await self._write_stage.finish_unchanged(
            UnchangedDocument(task, content, warnings, bool(attachments), bool(assets))
        )

    def _warnings(self, content: VersionContent, left_out: int) -> list[str]:
        """What the item shows besides the warnings of its reader."""
        warnings = [f"embedded_left_out:{left_out}"] if left_out > 0 else []
        if content.size >= self._large_document:
            warnings.append(f"large:{content.size >> 20}")
        return warnings

    async def _load_findings(
        self, content: VersionContent
    ) -> tuple[Sequence[ContentAttachment], Sequence[ContentAsset]]:
        return await self._read_stage.load_findings(content.digest)

    def _choose_reader(
        self, task: IndexTask, original: Original, inspected: InspectedOriginal
    ) -> InspectedOriginal:
        """Let the base's file processor read the document, if it accepts such files."""
        name = task.base.file_processor
        if task.item.type not in ("file", "url"):
            return inspected
        match choose_reader(original.name, name, self._processors):
            case "invalid":
                raise Permanent(
                    f"The base's file processor {name!r} is not configured. Configure it, or choose another one for the "
                    "base.",
                    code="unknown_file_processor",
                )
            case "process":
                return replace(inspected, reader=self._processors[name or ""].identity, format_name="")
            case "direct":
                return inspected

    async def _hand_to_converter(
        self, task: IndexTask, content: VersionContent, inspected: InspectedOriginal
    ) -> bool:
        """Whether a file processor has to convert the document first. If so, this job is completed, and the conversion
        enqueued."""
        name = task.base.file_processor or ""
        if name not in self._processors or inspected.reader != self._processors[name].identity:
            return False
        async with self._db.transaction() as tx:
            if await contents.find_complete_content(tx, content.digest) is not None:
                return False
            await catalog.lock_base_shared(tx, task.base.id)
            await jobs.fence(tx, task.job)
            if await catalog.is_wanted(tx, task.item.id, task.version):
                work = CheckFileProcessing(task.item.id, task.version, name, content.digest.hex())
                await jobs.enqueue(tx, NewJob(work, lane=task.base.lane, workload=float(content.size)))
            await jobs.complete(tx, task.job)
            await faults.point("convert.handed_over")
        task.completion.finish()
        return True

    # ── what an earlier attempt wrote ────────────────────────────────────────────────────────────────────

    async def _discard_other_attempt(self, task: IndexTask, content: VersionContent) -> frozenset[int]:
        """Delete the chunks of an earlier attempt if it had other content or another recipe. Returns the chunks that stay."""
        item = task.item
        if item.begun_content is None or (item.begun_content, item.begun_recipe) == (
            content.digest,
            task.recipe,
        ):
            return task.written
        async with self._db.transaction() as tx:
            await catalog.lock_base_shared(tx, task.base.id)
            await jobs.fence(tx, task.job)
            await publish.discard_version(tx, task.base.chunk_set, item.id, task.version)
        return frozenset()

    async def _discard_image_chunks(
        self, task: IndexTask, first: int, written: frozenset[int]
    ) -> frozenset[int]:
        """Delete an earlier attempt's image chunks, from index `first` on: other descriptions may be known by now."""
        remaining = frozenset(index for index in written if index < first)
        if remaining != written:
            async with self._db.transaction() as tx:
                await catalog.lock_base_shared(tx, task.base.id)
                await jobs.fence(tx, task.job)
                await publish.discard_from_index(tx, task.base.chunk_set, task.item.id, task.version, first)
        return remaining

    async def _add_image_chunks(self, task: IndexTask, window: ReadWindow, first: int) -> ReadWindow:
        """The last window, followed by the chunks of image descriptions that are known already."""
        end = window.end
        if self._describer is None or end is None or not end.assets:
            return window
        images, chunks = await images_with_descriptions(self._db, task, end, self._describer)
        numbered = [replace(chunk, index=first + number) for number, chunk in enumerate(chunks)]
        return replace(window, chunks=[*window.chunks, *numbered], end=replace(end, images=images))

    # ── embed ────────────────────────────────────────────────────────────────────────────────────────────

    def _embed_stage_for(self, embedder: Embedder) -> EmbedStage:
        """By embedder and not by identity: two organisations may have a model in common, but each has its own address and
        key."""
        if embedder not in self._embed_stages:
            self._embed_stages[embedder] = EmbedStage(
                embedder, self._find_vectors, self._write_stage.write, embed_each, self._purse
            )
        return self._embed_stages[embedder]

    async def _find_vectors(self, identity: str, base: Base, hashes: Sequence[bytes]) -> dict[bytes, Vector]:
        """The vectors of texts that were embedded before: in the same base, then in others of the same embedder."""
        async with self._db.connection() as tx:
            vectors = await publish.reusable_vectors(tx, [base.chunk_set], hashes)
            if missing := [digest for digest in hashes if digest not in vectors]:
                others = await catalog.find_sets_by_embedder(tx, base.id, identity, REUSE_BASES)
                if others := [other for other in others if other != base.chunk_set]:
                    vectors |= await publish.reusable_vectors(tx, others, missing)
        return vectors

    # ── reporting ────────────────────────────────────────────────────────────────────────────────────────

    def _progress_of(self, task: IndexTask) -> DocumentProgress:
        return DocumentProgress(
            self._write_stage.percent(task),
            self._embed_stage_for(task.embedder).waiting_for(task) or self._write_stage.waiting_for(task),
            self._write_stage.has_chunks(task),
        )

    def _record_timings(self, task: IndexTask, stage: EmbedStage) -> None:
        read, write = self._write_stage.seconds(task)
        embed = stage.seconds(task)
        pipeline_metrics.observe_stage("read", read)
        pipeline_metrics.observe_stage("embed", embed)
        pipeline_metrics.observe_stage("write", write)
        pipeline_metrics.observe_stage("all", monotonic() - task.started)
        for name, seconds in (("read", read), ("embed", embed), ("write", write)):
            traces.record_past_span(f"stage {name}", seconds, {"item": str(task.item.id)})


def _refuse_without_text(task: IndexTask, end: EndOfContent) -> None:
    """Its content may have been stored for a base that accepts documents without text."""
    if NoText.code in end.warnings and task.base.empty_documents == "fail":
        raise NoText(f"{task.item.title} contains no text.")


def _must_redescribe_images(task: IndexTask, assets: Sequence[ContentAsset]) -> bool:
    """Whether the base wants its images described again though nothing changed."""
    return task.base.asset_reuse == "force" and any(asset.kind == "image" for asset in assets)


def _with_warnings(window: ReadWindow, warnings: Sequence[str]) -> ReadWindow:
    if window.end is None:
        return window
    return replace(
        window, end=replace(window.end, warnings=list(dict.fromkeys([*window.end.warnings, *warnings])))
    )


def _remove_temporary(original: Original) -> None:
    if original.temporary and original.path is not None:
        original.path.unlink(missing_ok=True)
