"""One run of a connector: the job `sync_connector`.

    reading     first the documents that earlier runs could not read; then batch after batch, each saved with its
                checkpoint (batch_writer.py), until the connector has no more, the time budget is used up, or the tool
                asks us to wait; then documents that a listing named and that we don't have, whatever their date, or that
                have another mark than when they were read. Moved ones keep their records (moves.py). Streams that an
                earlier run was in the middle of are first read to their end, then once more like all others.
                Documents that got no response are read again (unanswered.py)
    pruning     documents that complete listings did not name are verified, then deleted (prune.py)
    indexing    the run waits, without holding a worker, until everything it stored is indexed. Completion is read from
                the items, never counted
    ended       success, or completed_with_errors when something could not be read or indexed

    when …                                   the run …
    9/10 of its time budget are used up      is partial, and continues from its checkpoints in a moment, at most 50 times
    the tool asks for a long wait            waits, shows `rateLimitedUntil`, and continues from its checkpoints
    the credentials are rejected             fails at once
    a base's queue is full                   waits until there is room, and continues from its checkpoints
    the tool does not respond                is retried from its checkpoints; fails after nine attempts without progress
    a stream with a host of its own does     reads the others, and is retried for it; completed_with_errors after nine attempts
    not respond
    the worker is killed                     is continued from its checkpoints by another worker
    someone changes settings, bases or the   stores nothing more by the old ones, and goes on with the new ones: streams are
    access list of the connector             read from their beginning if settings or bases are others
    the tool pushes meanwhile                is followed by another one (push.py)
    a user cancels it                        is cancelled; what it stored stays

Every write checks the job's lease, so that only one of two workers that run the same job writes.
"""

import logging
import time
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from gristmill import catalog, faults, jobs
from gristmill.connectors import audience_store, document_store, group_store, push, store, unanswered
from gristmill.connectors.batch_writer import BatchWriter
from gristmill.connectors.document_reader import DocumentReader
from gristmill.connectors.document_store import StreamRow
from gristmill.connectors.dry_run import MAX_RETRIED_FAILURES, dry_run
from gristmill.connectors.model import ConnectorId, ConnectorRow, ConnectorRun
from gristmill.connectors.moves import rename_moved
from gristmill.connectors.permissions import renew_older_answers, retry_unresolved
from gristmill.connectors.port import Batch, Connector, ConnectorKind, DocumentRef, Stream
from gristmill.connectors.prune import Pruner
from gristmill.connectors.registry import ConnectorRegistry
from gristmill.connectors.run_reports import (
    describe_hidden_documents,
    end_without_base,
    estimate_total,
    mass_deletion_error,
    report_problems,
)
from gristmill.connectors.store import ConnectorChanged
from gristmill.connectors.streams import closable, end_outages
from gristmill.connectors.transport import RateLimited
from gristmill.db import Database, Tx
from gristmill.errors import GristmillError
from gristmill.jobs import Activity, Done, Job, Outcome, QueueLimits, Snooze
from gristmill.operations.next_job import has_room
from gristmill.sources.blobs import BlobStore
from gristmill.stage_gate import StageGate
from gristmill.work import SyncConnector

log = logging.getLogger(__name__)

MAX_CONTINUATIONS = 50
_BUDGET_SHARE = 0.9  # the rest is for finishing the batch under way
_INDEXING_POLL = timedelta(milliseconds=300)
# The same wait that a client gets with "queue full".
_FULL_QUEUE_PAUSE = timedelta(seconds=30)
_BUSY_PAUSE = timedelta(seconds=1)  # until another run has ended, here or in another worker
_UNREAD_BATCH = 50


@dataclass(frozen=True)
class _CurrentRun:
    row: ConnectorRow
    run: ConnectorRun
    kind: ConnectorKind


class Synchroniser:
    """Handles `sync_connector`: runs connectors."""

    def __init__(
        self,
        db: Database,
        blobs: BlobStore,
        registry: ConnectorRegistry,
        budget: timedelta,
        queue_limits: QueueLimits | None = None,
        runs_at_once: int = 16,
    ) -> None:
        self._db, self._registry, self._budget = db, registry, budget.total_seconds() * _BUDGET_SHARE
        self._queue_limits, self._places = queue_limits, StageGate(runs_at_once)
        self._writer = BatchWriter(db, blobs, registry.limits.attachment_limit)
        self._reader = DocumentReader(db, self._writer)
        self._pruner = Pruner(db, self._writer)

    async def sync(self, job: Job) -> Outcome:
        """Run the job's connector, as far as the time budget goes. It waits for the tool most of the time, and uses no slot."""
        if self._places.free <= 0:
            return Snooze(_BUSY_PAUSE)
        async with self._places.place(jobs.requester(job)):
            with job.during(Activity.AWAY):
                return await self._sync(job)

    async def _sync(self, job: Job) -> Outcome:
        current = await self._open_run(job)
        if current is None:
            return Done()
        if current.run.stage == "indexing":
            return await self._finish(job, current)
        await faults.point("sync.opened")
        try:
            async with self._catch_rate_limit(job, current) as rate_limit:
                async with self._registry.open_connector(current.row) as connector:
                    if current.run.dry_run:
                        await dry_run(self._db, job, current.row, current.run, connector, current.kind)
                        return Done()
                    if (outcome := await self._read_and_prune(job, current, connector)) is not None:
                        return outcome
                return await self._finish(job, current)
            return Snooze(rate_limit.wait)
        except ConnectorChanged:
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                await store.add_log_line(
                    tx, current.run.id, "The connector was changed; the run goes on with its new settings."
                )
            return Snooze(timedelta(0))

    async def record_failure(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """The job is dead: end its run as failed."""
        connector_id = ConnectorId(SyncConnector.of(job).connector_id)
        await push.lock(tx, connector_id)
        await jobs.fence(tx, job)
        await push.forget(tx, connector_id)
        run = await store.find_open_run(tx, connector_id)
        if run is not None:
            await store.add_log_line(tx, run.id, f"{error.message} ({error.code})", "error")
            await store.end_run(tx, run.id, "failed", error.code, error.message)

    # ── open ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _open_run(self, job: Job) -> _CurrentRun | None:
        connector_id = ConnectorId(SyncConnector.of(job).connector_id)
        async with self._db.transaction() as tx:
            is_pushed = await push.lock(tx, connector_id)
            await jobs.fence(tx, job)
            row = await store.find_connector(tx, connector_id)
            if row is None:
                await jobs.complete(tx, job)
                return None
            if not row.base_ids:
                await end_without_base(tx, job, row)
                return None
            run = await store.find_open_run(tx, connector_id)
            if run is not None and run.job_id != job.id:
                # The job of that run is gone: otherwise this one could not have been queued.
                await store.end_run(
                    tx, run.id, "failed", code="interrupted", message="The run was interrupted."
                )
                run = None
            if run is None:
                trigger = "push" if is_pushed else "schedule"
                run = await store.begin_run(tx, connector_id, job.id, trigger)
                await push.forget(tx, connector_id)
                await store.add_log_line(tx, run.id, "Started.")
        row = replace(row, read_at=max(row.read_at, run.started_at))  # nothing was asked for in between
        return _CurrentRun(row, run, self._registry.kind(row.type))

    @asynccontextmanager
    async def _catch_rate_limit(self, job: Job, current: _CurrentRun) -> AsyncGenerator["_RateLimit"]:
        """A long rate limit ends the block: the run shows until when it lasts, and continues then."""
        rate_limit = _RateLimit()
        try:
            yield rate_limit
        except RateLimited as error:
            rate_limit.wait = error.wait
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                await store.record_rate_limit(tx, current.row.id, current.run.id, error.wait)
                await store.add_log_line(tx, current.run.id, error.message, "warning")
                await jobs.reset_attempts(tx, [job])

    # ── read ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _read_and_prune(self, job: Job, current: _CurrentRun, connector: Connector) -> Outcome | None:
        """Read and prune; an outcome when the run has to continue later."""
        row, run = current.row, current.run
        deadline = time.monotonic() + self._budget
        if run.stage == "reading":
            if (outcome := await self._read_batches(job, current, connector, deadline)) is not None:
                return outcome
            for _ in range(unanswered.MAX_ROUNDS):
                if not await unanswered.make_unread(self._db, self._registry, job, row, run):
                    break
                if (outcome := await self._read_unread(job, current, connector, deadline)) is not None:
                    return outcome
            await retry_unresolved(self._db, job, row, run, connector)
            await renew_older_answers(self._db, job, self._registry, row)
            problems = await connector.find_problems()
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                await store.require_unchanged(tx, row)
                if row.acl is None:
                    problems += await describe_hidden_documents(tx, row)
                await report_problems(tx, row, run, problems)
                await store.set_stage(tx, run.id, "pruning")
        await self._pruner.prune(job, row, run, connector)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await store.require_unchanged(tx, row)
            await document_store.delete_unfollowed_streams(tx, row.id, run.id)
            await audience_store.delete_unused_audiences(tx, row.id)
            if row.acl is None and await self._has_asked_all(tx, current):
                await audience_store.mark_access_resolved(tx, row.id, current.run.started_at)
            await store.set_stage(tx, run.id, "indexing")
        await group_store.delete_unused_groups(self._db, job, row.id)
        return None

    async def _has_asked_all(self, tx: Tx, current: _CurrentRun) -> bool:
        """Whether the run has asked for the permissions of all documents. One that reads only what changed has not."""
        row, run = current.row, current.run
        if await audience_store.audiences_asked_before(tx, row.id, run.started_at):
            return False
        if not current.kind.reports_changes:
            return True
        return all(stream.listed for stream in await document_store.find_streams(tx, row.id))

    async def _read_batches(
        self, job: Job, current: _CurrentRun, connector: Connector, deadline: float
    ) -> Outcome | None:
        run = current.run
        await self._retry_failures(job, current, connector)
        streams = await self._find_streams(current)
        checkpoints = document_store.checkpoints_of(streams, current.kind.checkpoint_version)
        if run.total_items is None and (total := await estimate_total(connector, checkpoints)) is not None:
            await faults.point("sync.estimated")
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                await store.set_estimate(tx, run.id, total)
        if interrupted := document_store.streams_interrupted_before(streams, run.id, current.kind):
            outcome = await self._read_streams(job, current, connector, deadline, interrupted)
            if outcome is not None:
                return outcome
        outcome = await self._read_streams(job, current, connector, deadline)
        return outcome or await self._read_unread(job, current, connector, deadline)

    async def _read_streams(
        self,
        job: Job,
        current: _CurrentRun,
        connector: Connector,
        deadline: float,
        interrupted: Collection[Stream] = (),
    ) -> Outcome | None:
        """Read every stream to its end; or only those that an earlier run was in the middle of, to where that run would have
        come. That says nothing about what changed since in the part before, so their listings don't count as complete."""
        row, run = current.row, current.run
        streams = await self._find_streams(current)
        checkpoints = document_store.checkpoints_of(streams, current.kind.checkpoint_version)
        finished = (
            {stream_row.stream for stream_row in streams} - set(interrupted)
            if interrupted
            else document_store.streams_listed_by(streams, run.id)
        )
        unavailable: list[Batch] = []
        async with aclosing(closable(connector.sync(checkpoints, finished))) as batches:
            async for batch in batches:
                if batch.unavailable is not None:
                    unavailable.append(batch)
                    continue
                is_rest = batch.stream in interrupted
                if is_rest and (batch.problem or batch.lost):
                    continue  # it is met again in a moment
                prepared = await self._writer.prepare(connector, row, batch)
                if not await self._writer.save(job, row, run, prepared, completes_earlier_run=is_rest):
                    return Done()  # the run was cancelled
                # Only after some progress: else every continuation would start at the same place.
                advanced = batch.checkpoint is not None and batch.checkpoint != checkpoints.get(batch.stream)
                if batch.documents and not await self._has_room(row):
                    return Snooze(_FULL_QUEUE_PAUSE)
                if time.monotonic() > deadline and (
                    advanced or batch.ends_stream or batch.is_listing_complete
                ):
                    return await self._continue_later(job, row, run)
        for batch in end_outages(unavailable, is_last_attempt=job.attempt >= job.max_attempts):
            await self._writer.save(job, row, run, await self._writer.prepare(connector, row, batch))
        return None

    async def _find_streams(self, current: _CurrentRun) -> list[StreamRow]:
        async with self._db.connection() as tx:
            return await document_store.find_streams(tx, current.row.id)

    async def _has_room(self, row: ConnectorRow) -> bool:
        """Whether the queue has room for every base that the connector feeds."""
        async with self._db.connection() as tx:
            bases = await catalog.find_bases(tx, row.base_ids)
            return all([await has_room(tx, base, self._queue_limits) for base in bases.values()])

    async def _retry_failures(self, job: Job, current: _CurrentRun, connector: Connector) -> None:
        """Try again to read documents that earlier runs could not read."""
        async with self._db.connection() as tx:
            refs = await document_store.find_earlier_failures(
                tx, current.row.id, current.run.id, MAX_RETRIED_FAILURES
            )
        await self._read_documents(job, current, connector, refs)

    async def _read_documents(
        self, job: Job, current: _CurrentRun, connector: Connector, refs: Sequence[DocumentRef]
    ) -> None:
        await self._reader.read(
            job, current.row, current.run, connector, refs, reports_changes=current.kind.reports_changes
        )

    async def _read_unread(
        self, job: Job, current: _CurrentRun, connector: Connector, deadline: float
    ) -> Outcome | None:
        """Read documents that a listing named and that we don't have in this state: they became visible, came with an old
        date, or have another mark than when they were read."""
        await rename_moved(self._db, job, current.row, current.run)
        while True:
            async with self._db.connection() as tx:
                refs = await document_store.find_unread(tx, current.row.id, _UNREAD_BATCH)
            if not refs:
                return None
            await self._read_documents(job, current, connector, refs)
            if not await self._has_room(current.row):
                return Snooze(_FULL_QUEUE_PAUSE)
            if time.monotonic() > deadline:
                return await self._continue_later(job, current.row, current.run)

    async def _continue_later(self, job: Job, row: ConnectorRow, run: ConnectorRun) -> Outcome:
        """The time budget is used up: continue behind the jobs that wait, up to a limit."""
        async with self._db.transaction() as tx:
            await push.lock(tx, row.id)
            await jobs.fence(tx, job)
            continuations = await store.count_continuation(tx, run.id)
            if continuations <= MAX_CONTINUATIONS:
                await store.add_log_line(
                    tx, run.id, f"The time budget is used up; continuing ({continuations})."
                )
                return Snooze(timedelta(0))
            message = f"Stopped after {MAX_CONTINUATIONS} continuations. The next run continues from here."
            await store.add_log_line(tx, run.id, message, "warning")
            await store.end_run(tx, run.id, "partial", code="continuation_limit", message=message)
            await jobs.complete(tx, job)
            await push.follow_up(tx, row)
        return Done()

    # ── finish ───────────────────────────────────────────────────────────────────────────────────────────

    async def _finish(self, job: Job, current: _CurrentRun) -> Outcome:
        """End the run once everything it stored is indexed; else look again in a moment."""
        row, run = current.row, current.run
        async with self._db.transaction() as tx:
            await push.lock(tx, row.id)
            await catalog.lock_bases_shared(tx, row.base_ids)
            await jobs.fence(tx, job)
            if await store.has_pending_items(tx, run.id):
                return Snooze(_INDEXING_POLL)
            latest = await store.find_run(tx, run.id)
            if latest is None or latest.completed_at is not None:
                await jobs.complete(tx, job)
                await push.follow_up(tx, row)
                return Done()
            failed_count = await store.count_failed_items(tx, row.id, run.id)
            if failed_count:
                await store.add_progress(tx, row.id, run.id, store.RunProgress(errors=failed_count))
                await store.add_log_line(
                    tx, run.id, f"{failed_count} documents could not be indexed.", "warning"
                )
            has_errors = failed_count or latest.item_errors or latest.deletions_held
            summary = (
                f"{latest.documents_processed} read, {latest.documents_ingested} new or changed, "
                f"{latest.documents_pruned} pruned, {latest.item_errors + failed_count} failed."
            )
            await store.add_log_line(tx, run.id, summary)
            await store.end_run(
                tx,
                run.id,
                "completed_with_errors" if has_errors else "success",
                **mass_deletion_error(latest),
            )
            await jobs.complete(tx, job)
            await push.follow_up(tx, row)
            await faults.point("sync.before_end")
        return Done()


@dataclass
class _RateLimit:
    wait: timedelta = timedelta(0)
