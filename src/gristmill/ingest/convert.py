"""Convert documents with the base's file processor: the job `check_file_processing_result`.

    hand over   `index_document` finds that the base's processor accepts the file and that these bytes have not been
                converted before. One transaction completes it and enqueues this job
    start       record the start → upload → store the remote id
    poll        check the state and snooze; no slot is occupied between two checks (processors/conversion.py)
    done        one fenced transaction stores the markdown as the content of these bytes and enqueues `index_document`

    killed …                                   the next attempt
    before the start was recorded              starts
    before the remote id was stored            fails with `conversion_uncertain`: it may have started, and may cost again
    later                                      polls the same remote id
    (if the version is no longer wanted)       cancels the remote conversion

If the item is deleted or the job is cancelled, a separate job (`cancel_conversion`) cancels the remote conversion.
"""

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gristmill import catalog, contents, events, faults, jobs
from gristmill.contents import ConversionRow, NewContentPart, NewVersion
from gristmill.db import Database, Tx
from gristmill.errors import GristmillError, LeaseLost, NoText, Permanent, Transient, WorkError
from gristmill.events import ItemFailed
from gristmill.identity import LOCAL_ORG, scoped_digest
from gristmill.ingest.inspect_original import PART, content_digest, inspect_original
from gristmill.ingest.processors import Conversion, Processor, check_conversion, pause_before_check
from gristmill.ingest.stages import Stages
from gristmill.ingest.task import base_of
from gristmill.jobs import Activity, Done, Job, NewJob, Outcome, Snooze
from gristmill.operations.cancel import cancel_conversions
from gristmill.operations.source_factory import SourceFactory
from gristmill.sources import Source
from gristmill.work import CancelConversion, CheckFileProcessing, IndexDocument

Processors = Mapping[str, Processor]
# After these errors the remote conversion has ended, and there is nothing to cancel.
_REMOTE_ENDED = frozenset({"conversion_failed", "conversion_timeout"})


class Converter:
    """Converts documents with file processors."""

    def __init__(
        self, db: Database, originals: SourceFactory, processors: Processors, stages: Stages | None = None
    ) -> None:
        self._db, self._originals, self._processors = db, originals, processors
        self._stages = stages or Stages()

    async def check(self, job: Job) -> Outcome:
        """Start the conversion, or check its state."""
        with job.during(Activity.AWAY):
            async with self._stages.sources.place(jobs.requester(job)):
                return await self._check(job)

    async def _check(self, job: Job) -> Outcome:
        work = CheckFileProcessing.of(job)
        processor = self._processors.get(work.processor)
        if processor is None:
            raise Permanent(
                f"The file processor {work.processor!r} is no longer configured. Configure it, or choose another one for "
                "the base.",
                code="unknown_file_processor",
            )
        opened = await self._open(job)
        if opened is None:
            return await self._abandon(job, processor)
        row, source = opened
        if source is not None:
            return await self._start(job, processor, source)
        if row.remote_id is None:
            raise Permanent(
                "Starting the conversion was interrupted, and it may have started. Re-index the item to start it again.",
                code="conversion_uncertain",
            )
        result = await check_conversion(processor, _conversion(row, row.remote_id))
        if isinstance(result, str):
            await self._store_markdown(job, result)
            return Done()
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await contents.save_conversion(tx, _row(work, result))
        return _wait_for(work, result)

    async def cancel(self, job: Job) -> Outcome:
        """Cancel a remote conversion that is no longer wanted."""
        work = CancelConversion.of(job)
        if (processor := self._processors.get(work.processor)) is not None:
            with job.during(Activity.AWAY):
                await processor.cancel(work.remote_id)
        return Done()

    async def record_failure(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """Mark the item as failed and cancel the conversion, in the transaction that buries the job."""
        work, base_id = CheckFileProcessing.of(job), base_of(job)
        await catalog.lock_base_shared(tx, base_id)
        await cancel_conversions(tx, [work.item_id], notify=error.code not in _REMOTE_ENDED)
        if await catalog.fail_version(tx, work.item_id, work.version, error.code, error.message):
            event = ItemFailed(base_id, work.item_id, work.version, error.code, error.message)
            await events.record(tx, event)
        await events.announce_ready(tx, [base_id])

    # ── steps ────────────────────────────────────────────────────────────────────────────────────────────

    async def _open(self, job: Job) -> tuple[ConversionRow, Source | None] | None:
        """The conversion, with its source if it has to be started. None if the version is no longer wanted."""
        work = CheckFileProcessing.of(job)
        async with self._db.transaction() as tx:
            await catalog.lock_base_shared(tx, base_of(job))
            await jobs.fence(tx, job)
            base = await catalog.find_base(tx, base_of(job))
            item = await catalog.find_item(tx, work.item_id)
            if base is None or item is None or not await catalog.is_wanted(tx, item.id, work.version):
                return None
            if job.interrupted and base.on_restart == "park":
                raise Permanent(
                    "Converting was interrupted, and this base does not resume automatically. Recover the base to "
                    "continue.",
                    code="interrupted",
                )
            row = await contents.find_conversion(tx, work.item_id, work.version)
            if row is not None:
                return row, None
            row = ConversionRow(work.item_id, work.version, work.processor)
            await contents.save_conversion(tx, row)
            return row, self._originals.for_item(item, blob=await contents.item_blob_name(tx, item.id))

    async def _start(self, job: Job, processor: Processor, source: Source) -> Outcome:
        work = CheckFileProcessing.of(job)
        try:
            await faults.point("convert.starting")
            remote_id = await self._upload(job, processor, source)
        except WorkError:
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                await contents.drop_conversions(tx, [work.item_id])
            raise
        if remote_id is None:  # the bytes have changed: index them again from the start
            await self._requeue_indexing(job)
            return Done()
        conversion = Conversion(remote_id)
        try:
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                await contents.save_conversion(tx, _row(work, conversion))
        except LeaseLost:
            await processor.cancel(remote_id)
            raise
        return _wait_for(work, conversion)

    async def _upload(self, job: Job, processor: Processor, source: Source) -> str | None:
        async with self._db.connection() as tx:
            org = await jobs.lane_owner(tx, job.lane) or LOCAL_ORG
        original = await source.read()
        try:
            inspected = await asyncio.to_thread(inspect_original, original)
            digest = scoped_digest(org, content_digest(processor.identity, inspected.input_hash))
            if digest.hex() != CheckFileProcessing.of(job).content:
                return None
            with tempfile.TemporaryDirectory(dir=self._originals.scratch, prefix="gristmill-send-") as folder:
                path = original.path or Path(folder) / "original"
                if original.path is None:
                    await asyncio.to_thread(path.write_bytes, original.data)
                return await processor.start(path, original.name)
        finally:
            if original.temporary and original.path is not None:
                original.path.unlink(missing_ok=True)

    async def _store_markdown(self, job: Job, markdown: str) -> None:
        """Store the markdown as the content of these bytes, also for other items with the same bytes. A file without text
        fails, unless its base wants a warning."""
        work = CheckFileProcessing.of(job)
        text = markdown.replace("\0", "").replace("\r\n", "\n")
        text, warnings = (text, []) if text.strip() else ("", [NoText.code])
        digest = bytes.fromhex(work.content)
        async with self._db.transaction() as tx:
            await catalog.lock_base_shared(tx, base_of(job))
            await jobs.fence(tx, job)
            base = await catalog.find_base(tx, base_of(job))
            if warnings and (base is None or base.empty_documents == "fail"):
                raise NoText("The file processor found no text in the file.")
            if await catalog.is_wanted(tx, work.item_id, work.version):
                complete = await contents.ensure_contents(tx, [digest])
                await contents.save_versions(tx, [NewVersion(work.item_id, work.version, digest, "")])
                if digest not in complete:
                    starts = range(0, len(text), PART)
                    await contents.insert_content_parts(
                        tx,
                        [NewContentPart(digest, at, text[at : at + PART], None) for at in starts],
                    )
                    await contents.mark_contents_complete(tx, {digest: (len(text), warnings)})
                await self._enqueue_indexing(tx, job)
            await contents.drop_conversions(tx, [work.item_id])
            await jobs.complete(tx, job)
            await faults.point("convert.before_commit")

    async def _requeue_indexing(self, job: Job) -> None:
        work = CheckFileProcessing.of(job)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await contents.drop_conversions(tx, [work.item_id])
            await self._enqueue_indexing(tx, job)
            await jobs.complete(tx, job)

    async def _enqueue_indexing(self, tx: Tx, job: Job) -> None:
        work = CheckFileProcessing.of(job)
        await jobs.enqueue(tx, NewJob(IndexDocument(work.item_id, work.version), lane=job.lane))

    async def _abandon(self, job: Job, processor: Processor) -> Outcome:
        """Cancel the remote conversion and delete its row, because the version is no longer wanted."""
        work = CheckFileProcessing.of(job)
        async with self._db.connection() as tx:
            row = await contents.find_conversion(tx, work.item_id, work.version)
        if row is not None and row.remote_id is not None:
            await processor.cancel(row.remote_id)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await contents.drop_conversions(tx, [work.item_id], version=work.version)
            await jobs.complete(tx, job)
        return Done()


def _wait_for(work: CheckFileProcessing, conversion: Conversion) -> Snooze:
    """Check again after a pause, and say meanwhile what the item waits for."""
    state = f"The file processor {work.processor!r} is converting the file."
    if conversion.position:
        state = (
            f"The file is number {conversion.position} in the queue of the file processor {work.processor!r}."
        )
    return Snooze(pause_before_check(conversion), Transient(state, code="conversion_running"))


def _conversion(row: ConversionRow, remote_id: str) -> Conversion:
    return Conversion(remote_id, row.checks, row.waited, row.progress, row.position)


def _row(work: CheckFileProcessing, conversion: Conversion) -> ConversionRow:
    return ConversionRow(
        work.item_id,
        work.version,
        work.processor,
        conversion.remote_id,
        conversion.checks,
        conversion.waited,
        conversion.progress,
        conversion.position,
    )
