"""The write stage: the chunks of many documents in one transaction, and the publication of those that are complete.

    before        a batch is lexed (offload.py) while the batch before is written: never inside a transaction
    transaction   lock the bases shared → prove the leases → check that the versions are still wanted → store contents,
                  versions and parts → copy the chunks in → publish complete versions with their jobs and events
    after         each document's state is updated, and documents that ended are completed

The versions of a base in a search engine are not published by that transaction: their chunks are put into the engine first,
and a second transaction publishes them (engine_put.py).

If some documents turn out to be unwanted or lost to another worker, the transaction writes nothing; the rest of the batch
is lexed again outside, and written by the next transaction.

Killed before the commit: only the chunks of this transaction are embedded again. Killed after: the next attempt skips
them. When a transaction fails, its documents are written one by one, so that only the one at fault fails.
"""

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from gristmill import catalog, contents, events, faults, jobs, usage
from gristmill.catalog import BaseId
from gristmill.db import Database, DatabaseUnavailable, Tx
from gristmill.errors import LeaseLost
from gristmill.events import DocumentContentExtracted
from gristmill.ingest.base_changes import end_outdated_attempts
from gristmill.ingest.batcher import Batcher
from gristmill.ingest.engine_put import EnginePut, EngineStage, PutQueue
from gristmill.ingest.offload import CpuOffload
from gristmill.ingest.task import (
    EmbeddedChunks,
    IndexTask,
    ReadWindow,
    UnchangedDocument,
    VersionContent,
    WaitReason,
)
from gristmill.ingest.write_state import (
    DocumentState,
    PlannedWrite,
    has_undescribed_images,
    item_spending,
    new_version,
    plan_writes,
    same_version,
    version_to_save,
)
from gristmill.jobs import Activity, NewJob, Outcome
from gristmill.search import publish, segment
from gristmill.search.index import tasks as index_tasks
from gristmill.search.index.engine_indexes import NO_ENGINE, EngineIndexes
from gristmill.search.index.pending_put import LexedChunks, PendingPut
from gristmill.search.publish import PreparedWrite, VersionChunks
from gristmill.telemetry import pipeline_metrics
from gristmill.work import AnalyseAssets

BATCHES_PER_TRANSACTION = 2
DOCUMENTS_PER_TRANSACTION = 64  # unchanged ones


@dataclass(frozen=True)
class _LexedBatch:
    embedded: Sequence[EmbeddedChunks]
    prepared: Mapping[BaseId, PreparedWrite]


class WriteStage:
    """Writes for all documents of a process, one transaction at a time. It alone changes their write states."""

    def __init__(self, db: Database, offload: CpuOffload, indexes: EngineIndexes = NO_ENGINE) -> None:
        self._db, self._offload = db, offload
        self._states: dict[IndexTask, DocumentState] = {}
        self._batches: Batcher[_LexedBatch, None] = Batcher(self._write_batches, size=BATCHES_PER_TRANSACTION)
        self._unchanged: Batcher[UnchangedDocument, None] = Batcher(
            self._finish_unchanged_batch, size=DOCUMENTS_PER_TRANSACTION
        )
        self._queues: dict[IndexTask, PutQueue] = {}  # of documents in a search engine
        self._indexed: Batcher[EnginePut, None] = Batcher(self._mark_indexed, size=DOCUMENTS_PER_TRANSACTION)
        self._engine = EngineStage(
            db,
            indexes,
            self._indexed.submit,
            lambda: any(not queue.is_written for queue in self._queues.values()),
        )

    async def begin(self, task: IndexTask, content: VersionContent) -> None:
        """Prepare to write a document with this content. What an earlier attempt wrote and the engine lacks is put now."""
        self._states[task] = DocumentState(task, content)
        if task.base.is_in_engine:
            self._queues[task] = PutQueue(task)
            await self._resume_puts(task)

    def add(self, task: IndexTask, window: ReadWindow) -> None:
        """Note the next parts of a document. They are written with its next batch of chunks."""
        self._states[task].add(window)

    def forget(self, task: IndexTask) -> None:
        """Drop the state of a document that has ended. What a batch in flight still has of it is not written."""
        self._states.pop(task, None)
        self._queues.pop(task, None)

    def percent(self, task: IndexTask) -> float:
        """How much of the document is done, below 100."""
        state = self._states.get(task)
        return state.percent if state else 0.0

    def has_chunks(self, task: IndexTask) -> bool:
        """Whether chunks of the document have been read."""
        state = self._states.get(task)
        return state is not None and state.chunk_count > 0

    def seconds(self, task: IndexTask) -> tuple[float, float]:
        """How long the document took to read and to write."""
        state = self._states.get(task)
        return (state.read_totals.seconds, state.seconds) if state else (0.0, 0.0)

    async def wait_for_engine(self, task: IndexTask) -> None:
        """Wait until the engine has taken enough of the document's chunks for more to be read; no slot is used."""
        queue = self._queues.get(task)
        if queue is not None and queue.is_full:
            with task.job.during(Activity.AWAY):
                await queue.wait_for_room()

    async def wait_for_end(self, task: IndexTask) -> Outcome:
        """Wait until the document has ended; once only the engine is waited for, no slot is used."""
        queue = self._queues.get(task)
        if queue is not None:
            await task.completion.wait_for_either(queue.written)
            with task.job.during(Activity.AWAY):
                return await task.completion.wait()
        return await task.completion.wait()

    def waiting_for(self, task: IndexTask) -> WaitReason | None:
        """What the document waits for, if the engine is down."""
        queue = self._queues.get(task)
        return queue.waiting_for if queue else None

    async def write(self, embedded: Sequence[EmbeddedChunks]) -> None:
        """Write these chunks. Errors fail their documents."""
        if not embedded:
            return
        try:
            await self._batches.submit(await self._lex(embedded))
        except Exception as error:
            if len(embedded) == 1 or isinstance(error, DatabaseUnavailable):
                for message in embedded:
                    message.task.completion.fail(error)
            else:
                for message in embedded:
                    await self.write([message])

    async def finish_unchanged(self, document: UnchangedDocument) -> None:
        """Complete a document whose live version stays as it is. Errors fail the document."""
        try:
            await self._unchanged.submit(document)
        except Exception as error:
            document.task.completion.fail(error)

    # ── one transaction ──────────────────────────────────────────────────────────────────────────────────

    async def _write_batches(self, batches: Sequence[_LexedBatch]) -> list[None]:
        count, started = len(batches), time.monotonic()
        batches = await self._keep(batches, self._states.keys())
        while any(batch.embedded for batch in batches):
            planned = plan_writes(
                [
                    (message, self._states[message.task])
                    for batch in batches
                    for message in batch.embedded
                    if message.task in self._states
                ]
            )
            async with self._db.transaction() as tx:
                wanted = await self._lock_wanted(tx, [write.task for write in planned])
                if all(write.task in wanted for write in planned):
                    await faults.point("write.begun")
                    pending = await self._write_planned(tx, batches, planned)
                    break
            batches = await self._keep(batches, wanted)
        else:
            return [None] * count
        took = time.monotonic() - started
        pipeline_metrics.observe_batch("write", len(planned))
        for write in planned:
            write.state.record(write, took)
            if write.is_last and write.task not in self._queues:
                write.task.completion.finish()
        self._hand_to_engine(planned, pending)
        await faults.point("index.batch_written")
        return [None] * count

    async def _write_planned(
        self, tx: Tx, batches: Sequence[_LexedBatch], planned: Sequence[PlannedWrite]
    ) -> list[PendingPut]:
        """Write all of it; returns what is to be put into an engine."""
        marked = await self._store_contents(tx, planned)
        prepared = [entry for batch in batches for entry in batch.prepared.items()]
        bases = {write.task.base.id: write.task.base for write in planned}
        pending: list[PendingPut] = []
        for base_id, chunks in sorted(prepared, key=itemgetter(0)):
            base = bases[base_id]
            if base.is_in_engine:
                pending += await publish.write_unindexed(tx, base, chunks, with_segment=base.has_segments)
            else:
                await publish.write(tx, base.chunk_set, chunks)
        await jobs.reset_attempts(
            tx, [write.task.job for write in planned if write.chunks and not write.is_last]
        )
        last = [write.state for write in planned if write.is_last]
        await _mark_complete(tx, [state for state in last if state not in marked])
        await self._publish(tx, [state for state in last if not state.task.base.is_in_engine])
        await usage.settle(tx, [entry for batch in batches for entry in item_spending(batch.embedded)])
        return pending

    # ── bases in a search engine ─────────────────────────────────────────────────────────────────────────

    def _hand_to_engine(self, planned: Sequence[PlannedWrite], pending: Sequence[PendingPut]) -> None:
        tasks = {write.task.item.id: write.task for write in planned if write.task in self._queues}
        for write in planned:
            if write.is_last and write.task in self._queues:
                queue = self._queues[write.task]
                queue.is_written = True
                queue.written.set()
                if all(put.task.item_id != write.task.item.id for put in pending):
                    self._engine.start(queue, EnginePut(write.task, None))
        for put in pending:
            task = tasks[put.task.item_id]
            self._engine.start(self._queues[task], EnginePut(task, put))

    async def _resume_puts(self, task: IndexTask) -> None:
        """Put the chunks that an earlier attempt wrote, and of which it is not known whether the engine has them."""
        queue = self._queues[task]
        async with self._db.connection() as tx:
            opened = await index_tasks.puts_of_version(tx, task.item.id, task.version)
        for put in opened:
            async with self._db.connection() as tx:
                texts, vectors = await index_tasks.chunks_of_put(tx, put)
            lexed = LexedChunks(await self._offload.build_segment(texts, segment.pack_signs(vectors)))
            pending = PendingPut(task.base.id, put, [text.no for text in texts], vectors, lexed)
            self._engine.start(queue, EnginePut(task, pending))
            await self.wait_for_engine(task)

    async def _mark_indexed(self, puts: Sequence[EnginePut]) -> list[None]:
        """Close the tasks of chunks that the engine has, and publish the documents that have no open one left."""
        tasks = list(dict.fromkeys(put.task for put in puts))
        async with self._db.transaction() as tx:
            wanted = await self._lock_wanted(tx, [task for task in tasks if task in self._queues])
            marked = [put for put in puts if put.task in wanted and put.task in self._queues]
            complete = [
                self._states[task]
                for task in dict.fromkeys(put.task for put in marked)
                if self._queues[task].is_complete_with(marked)
            ]
            await index_tasks.close(tx, [put.pending.task.id for put in marked if put.pending is not None])
            await self._publish(tx, complete)
        for put in puts:
            if put.task in self._queues:
                self._queues[put.task].remove(put)
        for state in complete:
            state.task.completion.finish()
        return [None] * len(puts)

    # ── before and within a transaction ──────────────────────────────────────────────────────────────────

    async def _keep(self, batches: Sequence[_LexedBatch], tasks: Set[IndexTask]) -> Sequence[_LexedBatch]:
        """The batches with the chunks of these tasks alone, as far as they have not ended meanwhile."""

        def is_kept(message: EmbeddedChunks) -> bool:
            return message.task in tasks and message.task in self._states

        while not all(is_kept(message) for batch in batches for message in batch.embedded):
            batches = [await self._lex(list(filter(is_kept, batch.embedded))) for batch in batches]
        return batches

    async def _lex(self, embedded: Sequence[EmbeddedChunks]) -> _LexedBatch:
        """Lex the chunks of each base, which will share a segment."""
        versions: dict[BaseId, list[VersionChunks]] = {}
        for message in embedded:
            if message.chunks:
                task, state = message.task, self._states.get(message.task)
                document: Mapping[str, Any] = state.document if state else {}
                title = catalog.index_title(task.title_with(document), document)
                versions.setdefault(task.base.id, []).append(
                    VersionChunks(task.item.id, title, task.version, message.chunks)
                )
        prepared = {
            base_id: PreparedWrite(chunks, await self._offload.build_segment(*publish.segment_input(chunks)))
            for base_id, chunks in versions.items()
        }
        return _LexedBatch(embedded, prepared)

    async def _lock_wanted(self, tx: Tx, tasks: Sequence[IndexTask]) -> set[IndexTask]:
        """The tasks that may be written: they have not failed, this worker holds their jobs, and their versions are wanted
        and locked. The others are completed."""
        await catalog.lock_bases_shared(tx, [task.base.id for task in tasks])
        fenced = await jobs.fence_all(tx, [task.job for task in tasks])
        await end_outdated_attempts(tx, tasks)
        owned = [task for task in tasks if task.job.id in fenced]
        wanted = await catalog.lock_wanted_versions(tx, [task.key for task in owned])
        for task in tasks:
            if task.job.id not in fenced:
                task.completion.fail(
                    LeaseLost(f"This worker no longer holds the lease of job {task.job.id}.")
                )
            elif task.item.id not in wanted:
                task.completion.finish()
        # The rest of a document that failed must not be published: its job is about to be tried again.
        return {task for task in owned if task.item.id in wanted and not task.completion.is_done}

    async def _store_contents(self, tx: Tx, planned: Sequence[PlannedWrite]) -> list[DocumentState]:
        """Contents first, because versions refer to them. The parts of contents that are complete are not stored again.
        Returns the documents whose contents are complete by this."""
        complete = await contents.ensure_contents(tx, [write.content.digest for write in planned])
        await contents.save_versions(
            tx, [version_to_save(write) for write in planned if not write.state.is_version_saved]
        )
        # Two equal documents in one transaction have the same parts.
        parts = {(part.content, part.start): part for write in planned for part in write.parts}
        await contents.insert_content_parts(
            tx, [part for part in parts.values() if part.content not in complete]
        )
        await contents.insert_attachments(
            tx,
            [(write.content.digest, attachment) for write in planned for attachment in write.attachments],
        )
        await contents.insert_content_assets(
            tx, [(write.content.digest, asset) for write in planned for asset in write.assets]
        )
        marked = [write.state for write in planned if write.is_read and write.parts]
        await _mark_complete(tx, marked)
        return marked

    async def _publish(self, tx: Tx, states: Sequence[DocumentState]) -> None:
        if not states:
            return
        for state in states:
            await contents.mark_assets_inline(tx, state.content.digest, list(state.ended.inline))
        await publish.publish(
            tx,
            [(state.task.base.id, state.task.job, new_version(state)) for state in states],
            [_extraction_event(state.task, state.characters) for state in states],
        )
        await jobs.enqueue(tx, *map(_image_analysis_job, filter(has_undescribed_images, states)))
        await events.announce_ready(tx, [state.task.base.id for state in states])
        await faults.point("publish.before_commit")

    async def _finish_unchanged_batch(self, documents: Sequence[UnchangedDocument]) -> list[None]:
        async with self._db.transaction() as tx:
            wanted = await self._lock_wanted(tx, [document.task for document in documents])
            finished = [document for document in documents if document.task in wanted]
            if finished:
                tasks = [document.task for document in finished]
                await publish.finish_unchanged(
                    tx,
                    [
                        (document.task.base.id, document.task.job, same_version(document))
                        for document in finished
                    ],
                    [_extraction_event(task, 0) for task in tasks],
                )
                await _retry_failed_images(
                    tx, [document.task for document in finished if document.has_assets]
                )
                await events.announce_ready(tx, [task.base.id for task in tasks])
        for document in finished:
            document.task.completion.finish()
        return [None] * len(documents)


async def _mark_complete(tx: Tx, states: Sequence[DocumentState]) -> None:
    """Record contents whose parts are all stored."""
    if not states:
        return
    await contents.mark_contents_complete(
        tx,
        {state.content.digest: (state.characters, list(state.ended.warnings)) for state in states},
        {state.content.digest: state.document for state in states},
    )


async def _retry_failed_images(tx: Tx, tasks: Sequence[IndexTask]) -> None:
    lanes = {task.item.id: task.base.lane for task in tasks}
    for reopened in await contents.retry_failed_assets(tx, list(lanes)):
        work = AnalyseAssets(reopened.id, reopened.version)
        await jobs.enqueue(tx, NewJob(work, lane=lanes[reopened.id]))


def _image_analysis_job(state: DocumentState) -> NewJob:
    work = AnalyseAssets(state.task.item.id, state.task.version)
    workload = float(sum(asset.size for asset in state.ended.assets))
    return NewJob(work, lane=state.task.base.lane, workload=workload)


def _extraction_event(task: IndexTask, characters: int) -> DocumentContentExtracted:
    return DocumentContentExtracted(task.base.id, task.item.id, task.version, characters)
