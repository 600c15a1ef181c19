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
from gristmill.connectors.connector import Batch, Failure, Ref
from gristmill.connectors.dry import rehearse
from gristmill.connectors.filing import Filing
from gristmill.connectors.kind import Kind, OpenConnector
from gristmill.connectors.kinds import Tools
from gristmill.connectors.pruning import Pruning
from gristmill.connectors.reading import generator
from gristmill.connectors.transport import RateLimited, Unauthorized
from gristmill.db import Database, Tx
from gristmill.errors import Gone, GristmillError, Permanent, Unreadable
from gristmill.jobs import Done, Job, Outcome, QueueLimits, Snooze
from gristmill.operations import connection
from gristmill.operations.connection import Connector as Row
from gristmill.operations.connection import ConnectorId, Run
from gristmill.operations.schedule import has_room
from gristmill.sources.blobs import Blobs
from gristmill.work import SyncConnector

log = logging.getLogger(__name__)

MOST_CONTINUATIONS = 50
_SHARE = 0.9  # of the time: what is left is for what is under way
_LOOK = timedelta(milliseconds=300)
# As long as a caller who is refused is asked to wait.
_PAUSE = timedelta(seconds=30)
_RETRIES = 1000  # failures of earlier runs that one run asks for again


@dataclass(frozen=True)
class _Opened:
    row: Row
    run: Run
    kind: Kind


class Synchroniser:
    """Makes runs."""

    def __init__(
        self,
        db: Database,
        blobs: Blobs,
        tools: Tools,
        budget: timedelta,
        limits: QueueLimits | None = None,
    ) -> None:
        self._db, self._tools, self._budget = db, tools, budget.total_seconds() * _SHARE
        self._limits_of_queue = limits
        self._filing = Filing(db, blobs, tools.surroundings.attachment_limit)
        self._pruning = Pruning(db, self._filing)

    async def sync(self, job: Job) -> Outcome:
        """Bring the job's connector up to date, as far as the time goes."""
        opened = await self._open(job)
        if opened is None:
            return Done()
        if opened.run.stage == "indexing":
            return await self._finish(job, opened)
        await faults.point("sync.opened")
        async with self._limits(job, opened) as limited:
            async with self._tools.opened(opened.row) as connector:
                if opened.run.dry_run:
                    await rehearse(self._db, job, opened.row, opened.run, connector, opened.kind.mark_version)
                    return Done()
                if (outcome := await self._work(job, opened, connector)) is not None:
                    return outcome
            return await self._finish(job, opened)
        return Snooze(limited.wait)

    async def failed(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """The job is dead: so is the run."""
        await jobs.fence(tx, job)
        run = await connection.open_run(tx, ConnectorId(SyncConnector.of(job).connector_id))
        if run is not None:
            await connection.tell(tx, run.id, f"{error.message} ({error.code})", "error")
            await connection.end_run(tx, run.id, "failed", error.code, error.message)

    # ── open ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _open(self, job: Job) -> _Opened | None:
        connector_id = ConnectorId(SyncConnector.of(job).connector_id)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            row = await connection.find(tx, connector_id)
            if row is None:
                await jobs.complete(tx, job)
                return None
            run = await connection.open_run(tx, connector_id)
            if run is not None and run.job_id != job.id:
                # Its job is gone, or this one could not have been queued.
                await connection.end_run(
                    tx, run.id, "failed", code="interrupted", message="The run was interrupted."
                )
                run = None
            if run is None:
                run = await connection.begin_run(tx, connector_id, job.id, manual=False)
                await connection.tell(tx, run.id, "Started.")
        return _Opened(row, run, self._tools.kind(row.type))

    @asynccontextmanager
    async def _limits(self, job: Job, opened: _Opened) -> AsyncGenerator["_Limited"]:
        """A limit that is too long to wait for here ends the block: the run shows until when, and comes back then."""
        limited = _Limited()
        try:
            yield limited
        except RateLimited as error:
            limited.wait = error.wait
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                await store.limit(tx, opened.row.id, opened.run.id, error.wait)
                await connection.tell(tx, opened.run.id, error.message, "warning")
                await jobs.progressed(tx, [job])

    # ── read ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _work(self, job: Job, opened: _Opened, connector: OpenConnector) -> Outcome | None:
        """Read and prune; an outcome when that is not all for now."""
        row, run = opened.row, opened.run
        end = time.monotonic() + self._budget
        if run.stage == "reading":
            if (outcome := await self._read(job, opened, connector, end)) is not None:
                return outcome
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                await store.set_stage(tx, run.id, "pruning")
        await self._pruning.prune(job, row, run, connector)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await store.end_streams(tx, row.id, run.id)
            await store.queries.run(tx, "drop_audiences", connector=row.id)
            if row.acl is None:
                await store.queries.run(tx, "resolved", connector=row.id)
            await store.set_stage(tx, run.id, "indexing")
        return None

    async def _read(self, job: Job, opened: _Opened, connector: OpenConnector, end: float) -> Outcome | None:
        row, run = opened.row, opened.run
        await self._retry_failures(job, opened, connector)
        async with self._db.connection() as tx:
            rows = await store.streams(tx, row.id)
        marks = store.marks_of(rows, opened.kind.mark_version)
        done = {found.stream for found in rows if found.spoken == run.id and found.listed}
        if run.total_items is None and (total := await connector.estimate(marks)) is not None:
            async with self._db.connection() as tx:
                await store.queries.run(tx, "set_estimate", run=run.id, total=total)
        async with aclosing(generator(connector.sync(marks, done))) as batches:
            async for batch in batches:
                prepared = await self._filing.prepare(connector, row, batch)
                if not await self._filing.save(job, row, run, prepared):
                    return Done()  # cancelled meanwhile
                # Only once it came further than where it began: else it would begin there again and again.
                moved = batch.mark is not None and batch.mark != marks.get(batch.stream)
                if batch.documents and not await self._has_room(row):
                    return Snooze(_PAUSE)
                if time.monotonic() > end and (moved or batch.listing in ("whole", "at_once")):
                    return await self._continue(job, run)
        return None

    async def _has_room(self, row: Row) -> bool:
        """Whether the queue takes more of every base that is fed."""
        async with self._db.connection() as tx:
            found = await catalog.find_bases(tx, row.base_ids)
            return all([await has_room(tx, base, self._limits_of_queue) for base in found.values()])

    async def _retry_failures(self, job: Job, opened: _Opened, connector: OpenConnector) -> None:
        """Ask again for what earlier runs could not read."""
        async with self._db.connection() as tx:
            refs = await store.old_failures(tx, opened.row.id, opened.run.id, _RETRIES)
        for ref in refs:
            try:
                batch = Batch(ref.stream, documents=[await connector.fetch(ref)])
            except (RateLimited, Unauthorized):
                raise
            except Gone:
                await self._forget(job, opened, ref)
                continue
            except (Permanent, Unreadable) as error:
                batch = Batch(ref.stream, failures=[Failure(ref, error.code, error.message)])
            prepared = await self._filing.prepare(connector, opened.row, batch)
            await self._filing.save(job, opened.row, opened.run, prepared, counted=False)

    async def _forget(self, job: Job, opened: _Opened, ref: Ref) -> None:
        """It failed, and is gone now: no longer a failure. If it was filed, pruning will find it."""
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await store.queries.run(tx, "forget_failures", connector=opened.row.id, sources=[ref.source_id])

    async def _continue(self, job: Job, run: Run) -> Outcome:
        """The time is used up: go on in a moment, after whoever waits; not for ever."""
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            times = await store.continue_later(tx, run.id)
            if times <= MOST_CONTINUATIONS:
                await connection.tell(tx, run.id, f"The time is used up; going on ({times}).")
                return Snooze(timedelta(0))
            told = f"Stopped after {MOST_CONTINUATIONS} continuations; the next run goes on from here."
            await connection.tell(tx, run.id, told, "warning")
            await connection.end_run(tx, run.id, "partial", code="continuation_limit", message=told)
            await jobs.complete(tx, job)
        return Done()

    # ── finish ───────────────────────────────────────────────────────────────────────────────────────────

    async def _finish(self, job: Job, opened: _Opened) -> Outcome:
        """End the run once nothing that it filed is pending; else look again in a moment."""
        row, run = opened.row, opened.run
        async with self._db.transaction() as tx:
            await catalog.share_turns(tx, row.base_ids)
            await jobs.fence(tx, job)
            if await store.is_pending(tx, run.id):
                return Snooze(_LOOK)
            now = await connection.find_run(tx, run.id)
            if now is None or now.completed_at is not None:
                await jobs.complete(tx, job)
                return Done()
            failed = await store.failed_items(tx, row.id, run.id)
            if failed:
                await store.count(tx, row.id, run.id, store.Progress(errors=failed))
                await connection.tell(tx, run.id, f"{failed} documents could not be indexed.", "warning")
            bad = failed or now.item_errors or now.deletions_held
            told = (
                f"{now.documents_processed} read, {now.documents_ingested} new or changed, "
                f"{now.documents_pruned} pruned, {now.item_errors + failed} failed."
            )
            await connection.tell(tx, run.id, told)
            await connection.end_run(tx, run.id, "completed_with_errors" if bad else "success", **_held(now))
            await jobs.complete(tx, job)
            await faults.point("sync.before_end")
        return Done()


def _held(run: Run) -> dict[str, str]:
    """What a run says that was kept from deleting a mass."""
    if not run.deletions_held:
        return {}
    told = f"{run.deletions_held} documents seem to be gone from the tool. So many are deleted only when that is "
    return {"code": "mass_deletion_held", "message": f"{told}allowed: sync with allowDeletions."}


@dataclass
class _Limited:
    wait: timedelta = timedelta(0)
