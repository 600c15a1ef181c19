"""One run of a connector: the job `sync_connector`.

    reading     what earlier runs could not read is asked for again; then batch after batch, each saved with its mark
                (filing.py), until the connector has no more, the time is used up, or the tool asks to wait
    pruning     what complete listings did not name is asked for once more, then hidden and removed (pruning.py)
    indexing    the run waits, without holding a worker, until nothing that it filed is pending: completion is read from
                the items, never counted
    ended       success; completed_with_errors when something could not be read or indexed

    what happens …                               the run
    9/10 of its time are used up                 partial; goes on from its marks in a moment, at most 50 times
    the tool asks to wait longer than a moment   waits, shows `rateLimitedUntil`, and goes on from its marks
    the credentials are refused                  failed, at once
    too many jobs of a base wait already         waits until they are done, and goes on from its marks
    the tool does not answer                     is tried again from its marks; failed after five attempts without progress
    kill -9, anywhere                            is taken up from its marks by another worker
    a cancel                                     cancelled; what is filed stays

Every write proves the job's lease, so of two workers that hold a run for theirs, one writes.
"""

import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from gristmill import catalog, faults, jobs
from gristmill.connectors import store
from gristmill.connectors.batch_writer import BatchWriter
from gristmill.connectors.dry_run import dry_run
from gristmill.connectors.kind import ConnectorKind, OpenConnector
from gristmill.connectors.port import Batch, DocumentRef, ReadFailure
from gristmill.connectors.prune import Pruner
from gristmill.connectors.reading import closable
from gristmill.connectors.registry import ConnectorRegistry
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.db import Database, Tx
from gristmill.errors import GristmillError, Permanent, SourceGone, Unreadable
from gristmill.jobs import Done, Job, Outcome, QueueLimits, Snooze
from gristmill.operations import connection
from gristmill.operations.connection import ConnectorId, ConnectorRun
from gristmill.operations.connection import ConnectorRow as Row
from gristmill.operations.next_job import has_room
from gristmill.sources.blobs import BlobStore
from gristmill.work import SyncConnector

log = logging.getLogger(__name__)

MAX_CONTINUATIONS = 50
_BUDGET_SHARE = 0.9  # of the time: what is left is for what is under way
_INDEXING_POLL = timedelta(milliseconds=300)
# As long as a caller who is refused is asked to wait.
_FULL_QUEUE_PAUSE = timedelta(seconds=30)
_MAX_RETRIED_FAILURES = 1000  # failures of earlier runs that one run asks for again


@dataclass(frozen=True)
class _CurrentRun:
    row: Row
    run: ConnectorRun
    kind: ConnectorKind


class Synchroniser:
    """Makes runs."""

    def __init__(
        self,
        db: Database,
        blobs: BlobStore,
        registry: ConnectorRegistry,
        budget: timedelta,
        queue_limits: QueueLimits | None = None,
    ) -> None:
        self._db, self._registry, self._budget = db, registry, budget.total_seconds() * _BUDGET_SHARE
        self._queue_limits = queue_limits
        self._writer = BatchWriter(db, blobs, registry.limits.attachment_limit)
        self._pruner = Pruner(db, self._writer)

    async def sync(self, job: Job) -> Outcome:
        """Bring the job's connector up to date, as far as the time goes."""
        current = await self._open_run(job)
        if current is None:
            return Done()
        if current.run.stage == "indexing":
            return await self._finish(job, current)
        await faults.point("sync.opened")
        async with self._catch_rate_limit(job, current) as rate_limit:
            async with self._registry.open_connector(current.row) as connector:
                if current.run.dry_run:
                    await dry_run(
                        self._db, job, current.row, current.run, connector, current.kind.checkpoint_version
                    )
                    return Done()
                if (outcome := await self._read_and_prune(job, current, connector)) is not None:
                    return outcome
            return await self._finish(job, current)
        return Snooze(rate_limit.wait)

    async def record_failure(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """The job is dead: so is the run."""
        await jobs.fence(tx, job)
        run = await connection.find_open_run(tx, ConnectorId(SyncConnector.of(job).connector_id))
        if run is not None:
            await connection.add_log_line(tx, run.id, f"{error.message} ({error.code})", "error")
            await connection.end_run(tx, run.id, "failed", error.code, error.message)

    # ── open ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _open_run(self, job: Job) -> _CurrentRun | None:
        connector_id = ConnectorId(SyncConnector.of(job).connector_id)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            row = await connection.find_connector(tx, connector_id)
            if row is None:
                await jobs.complete(tx, job)
                return None
            run = await connection.find_open_run(tx, connector_id)
            if run is not None and run.job_id != job.id:
                # Its job is gone, or this one could not have been queued.
                await connection.end_run(
                    tx, run.id, "failed", code="interrupted", message="The run was interrupted."
                )
                run = None
            if run is None:
                run = await connection.begin_run(tx, connector_id, job.id, manual=False)
                await connection.add_log_line(tx, run.id, "Started.")
        return _CurrentRun(row, run, self._registry.kind(row.type))

    @asynccontextmanager
    async def _catch_rate_limit(self, job: Job, current: _CurrentRun) -> AsyncGenerator["_RateLimit"]:
        """A limit that is too long to wait for here ends the block: the run shows until when, and comes back then."""
        rate_limit = _RateLimit()
        try:
            yield rate_limit
        except RateLimited as error:
            rate_limit.wait = error.wait
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                await store.record_rate_limit(tx, current.row.id, current.run.id, error.wait)
                await connection.add_log_line(tx, current.run.id, error.message, "warning")
                await jobs.reset_attempts(tx, [job])

    # ── read ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _read_and_prune(
        self, job: Job, current: _CurrentRun, connector: OpenConnector
    ) -> Outcome | None:
        """Read and prune; an outcome when that is not all for now."""
        row, run = current.row, current.run
        deadline = time.monotonic() + self._budget
        if run.stage == "reading":
            if (outcome := await self._read_batches(job, current, connector, deadline)) is not None:
                return outcome
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                await store.set_stage(tx, run.id, "pruning")
        await self._pruner.prune(job, row, run, connector)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await store.delete_unfollowed_streams(tx, row.id, run.id)
            await store.queries.run(tx, "drop_audiences", connector=row.id)
            if row.acl is None:
                await store.queries.run(tx, "resolved", connector=row.id)
            await store.set_stage(tx, run.id, "indexing")
        return None

    async def _read_batches(
        self, job: Job, current: _CurrentRun, connector: OpenConnector, deadline: float
    ) -> Outcome | None:
        row, run = current.row, current.run
        await self._retry_failures(job, current, connector)
        async with self._db.connection() as tx:
            stream_rows = await store.streams(tx, row.id)
        checkpoints = store.checkpoints_of(stream_rows, current.kind.checkpoint_version)
        finished = {
            stream_row.stream
            for stream_row in stream_rows
            if stream_row.last_run_id == run.id and stream_row.listed
        }
        if run.total_items is None and (total := await connector.estimate(checkpoints)) is not None:
            async with self._db.connection() as tx:
                await store.queries.run(tx, "set_estimate", run=run.id, total=total)
        async with aclosing(closable(connector.sync(checkpoints, finished))) as batches:
            async for batch in batches:
                prepared = await self._writer.prepare(connector, row, batch)
                if not await self._writer.save(job, row, run, prepared):
                    return Done()  # cancelled meanwhile
                # Only once it came further than where it began: else it would begin there again and again.
                advanced = batch.checkpoint is not None and batch.checkpoint != checkpoints.get(batch.stream)
                if batch.documents and not await self._has_room(row):
                    return Snooze(_FULL_QUEUE_PAUSE)
                if time.monotonic() > deadline and (advanced or batch.listing in ("whole", "at_once")):
                    return await self._continue_later(job, run)
        return None

    async def _has_room(self, row: Row) -> bool:
        """Whether the queue takes more of every base that is fed."""
        async with self._db.connection() as tx:
            bases = await catalog.find_bases(tx, row.base_ids)
            return all([await has_room(tx, base, self._queue_limits) for base in bases.values()])

    async def _retry_failures(self, job: Job, current: _CurrentRun, connector: OpenConnector) -> None:
        """Ask again for what earlier runs could not read."""
        async with self._db.connection() as tx:
            refs = await store.find_earlier_failures(
                tx, current.row.id, current.run.id, _MAX_RETRIED_FAILURES
            )
        for ref in refs:
            try:
                batch = Batch(ref.stream, documents=[await connector.fetch(ref)])
            except (RateLimited, CredentialsRejected):
                raise
            except SourceGone:
                await self._forget_failure(job, current, ref)
                continue
            except (Permanent, Unreadable) as error:
                batch = Batch(ref.stream, failures=[ReadFailure(ref, error.code, error.message)])
            prepared = await self._writer.prepare(connector, current.row, batch)
            await self._writer.save(job, current.row, current.run, prepared, advance_stream=False)

    async def _forget_failure(self, job: Job, current: _CurrentRun, ref: DocumentRef) -> None:
        """It failed, and is gone now: no longer a failure. If it was filed, pruning will find it."""
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await store.queries.run(tx, "forget_failures", connector=current.row.id, sources=[ref.source_id])

    async def _continue_later(self, job: Job, run: ConnectorRun) -> Outcome:
        """The time is used up: go on in a moment, after whoever waits; not for ever."""
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            continuations = await store.count_continuation(tx, run.id)
            if continuations <= MAX_CONTINUATIONS:
                await connection.add_log_line(tx, run.id, f"The time is used up; going on ({continuations}).")
                return Snooze(timedelta(0))
            message = f"Stopped after {MAX_CONTINUATIONS} continuations; the next run goes on from here."
            await connection.add_log_line(tx, run.id, message, "warning")
            await connection.end_run(tx, run.id, "partial", code="continuation_limit", message=message)
            await jobs.complete(tx, job)
        return Done()

    # ── finish ───────────────────────────────────────────────────────────────────────────────────────────

    async def _finish(self, job: Job, current: _CurrentRun) -> Outcome:
        """End the run once nothing that it filed is pending; else look again in a moment."""
        row, run = current.row, current.run
        async with self._db.transaction() as tx:
            await catalog.lock_bases_shared(tx, row.base_ids)
            await jobs.fence(tx, job)
            if await store.has_pending_items(tx, run.id):
                return Snooze(_INDEXING_POLL)
            latest = await connection.find_run(tx, run.id)
            if latest is None or latest.completed_at is not None:
                await jobs.complete(tx, job)
                return Done()
            failed_count = await store.count_failed_items(tx, row.id, run.id)
            if failed_count:
                await store.add_progress(tx, row.id, run.id, store.RunProgress(errors=failed_count))
                await connection.add_log_line(
                    tx, run.id, f"{failed_count} documents could not be indexed.", "warning"
                )
            has_errors = failed_count or latest.item_errors or latest.deletions_held
            summary = (
                f"{latest.documents_processed} read, {latest.documents_ingested} new or changed, "
                f"{latest.documents_pruned} pruned, {latest.item_errors + failed_count} failed."
            )
            await connection.add_log_line(tx, run.id, summary)
            await connection.end_run(
                tx,
                run.id,
                "completed_with_errors" if has_errors else "success",
                **_held_deletions_error(latest),
            )
            await jobs.complete(tx, job)
            await faults.point("sync.before_end")
        return Done()


def _held_deletions_error(run: ConnectorRun) -> dict[str, str]:
    """What a run says that was kept from deleting a mass."""
    if not run.deletions_held:
        return {}
    message = f"{run.deletions_held} documents seem to be gone from the tool. So many are deleted only when that is "
    return {"code": "mass_deletion_held", "message": f"{message}allowed: sync with allowDeletions."}


@dataclass
class _RateLimit:
    wait: timedelta = timedelta(0)
