"""One worker process's share of the engine: claim, run, settle, beat, tick, stop.

It claims only as many jobs as it has slots for. Two loops run side by side:

    cycle   settle what is finished and claim what there is room for, in one statement; sleep until a
            notification, a finished job, or the poll interval, which grows while there is nothing (the fallback
            when notifications are lost, or another claims from the same lane)
    pulse   renew the lease, stop what was cancelled, tick (promote due jobs, return those of the gone),
            fire due schedules, sweep

What the worker knows and what the database knows can come apart where a connection dies under a statement:

    a claim was made, and its answer lost     the pulse sees jobs that nobody here runs, and gives them back
    a settling was lost                       it is repeated until it is answered; a second time finds nothing
    the lease ran out meanwhile               another runs the job, and ours settles nothing
    the worker was declared gone              it stops what it runs, and joins again under a new id

A worker that is lost may have been killed by one of its jobs; which one, nobody knows. A job that was lost twice already is
a suspect. A worker runs one suspect at a time, and gives the others back uncounted: so whatever kills its workers is soon
found out, and takes few others with it.
"""

import asyncio
import logging
import os
import platform
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from gristmill import clock, faults
from gristmill.db import Database, DatabaseUnavailable, Tx
from gristmill.db.listen import Listener
from gristmill.db.outage import Outage
from gristmill.errors import GristmillError, LeaseLost, Permanent
from gristmill.jobs import retry, schedule, store
from gristmill.jobs.job import Job, JobId, Outcome, Priority
from gristmill.telemetry import traces

log = logging.getLogger(__name__)

MAX_POLL = timedelta(seconds=1)
MIN_POLL = timedelta(milliseconds=10)
CLAIM_BATCH = 256
_SWEEP_EVERY = 60.0
SUSPECT_ATTEMPTS = 3  # attempts, of which the last was lost
# A job may be lost more often than it may fail: a worker that is killed again and again, or has no memory, is seldom the fault of
# one of the many jobs that it ran.
LOST_FACTOR = 3
_SUSPECT_DELAY = timedelta(milliseconds=200)


@dataclass(frozen=True)
class Handler:
    """How one kind of work is run; `buried` writes, in the burying transaction, what its end means."""

    run: Callable[[Job], Awaitable[Outcome]]
    on_dead: Callable[[Tx, Job, GristmillError], Awaitable[None]] | None = None


@dataclass(frozen=True)
class WorkerLimits:
    """How much one worker takes, and how long it may be silent."""

    slots: int = 4
    reserved: int = 1  # slots that only interactive jobs take
    lane_cap: int = 4
    global_cap: int | None = None
    lease: timedelta = timedelta(seconds=15)
    stop_grace: timedelta = timedelta(seconds=10)
    retention: timedelta = timedelta(days=7)

    @property
    def general_slots(self) -> int:
        """Slots that any job takes; at least one, or nothing else would ever run."""
        return max(1, self.slots - self.reserved)


class Worker:
    """Runs jobs until it is stopped."""

    def __init__(
        self, db: Database, listener: Listener, handlers: Mapping[str, Handler], limits: WorkerLimits
    ) -> None:
        self._db, self._handlers, self._limits = db, handlers, limits
        self.id: UUID = uuid4()
        self._wake, self._heartbeat_now, self._stopping = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._running: dict[JobId, tuple[Job, asyncio.Task[None]]] = {}
        self._cancelled: set[JobId] = set()
        self._suspect: JobId | None = None
        self._recording: set[JobId] = set()
        self._finished: list[Job] = []
        self._pending_outcomes: list[tuple[Job, retry.Transition]] = []
        self._unknown_jobs: set[JobId] = set()
        self._may_find_work, self._claiming = True, False
        self._poll_interval = MIN_POLL
        self._swept_at = time.monotonic()
        self._outage = Outage(log, "the database")
        self._lock_key = random.getrandbits(31)
        listener.hold_lock(store.LOCK_SPACE, self._lock_key)
        listener.subscribe("job", self._on_job)
        listener.subscribe("job_cancel", self._on_cancel)

    @property
    def running(self) -> int:
        """How many jobs it runs at the moment."""
        return len(self._running)

    def stop(self) -> None:
        """Claim nothing more and come to an end; `run` returns when that is done."""
        self._stopping.set()
        self._wake.set()

    async def run(self) -> None:
        """Work until `stop`."""
        await self._register()
        heartbeat = asyncio.create_task(self._heartbeat_loop(), name="worker pulse")
        try:
            while not self._stopping.is_set():
                await self._cycle()
        finally:
            await self._wind_down()
            await clock.cancel_tasks([heartbeat])

    # ── cycle ────────────────────────────────────────────────────────────────────────────────────────────

    async def _cycle(self) -> None:
        limit, general_limit = self._capacity()
        if not self._finished and not self._pending_outcomes and (not self._may_find_work or limit <= 0):
            self._wake.clear()
            if await clock.wait(self._wake, self._poll_interval):
                self._poll_interval = MIN_POLL
            else:
                # Nothing told us: look more seldom the longer that is so, and soon after there was something, for
                # a lane that another was claiming from may have more.
                self._poll_interval = min(self._poll_interval * 2, MAX_POLL)
                self._may_find_work = True
            return
        try:
            await self._record_pending_outcomes()
            jobs = await self._complete_and_claim(limit, general_limit)
        except DatabaseUnavailable as error:
            await self._outage.wait(error.message)
            return
        self._outage.clear()
        self._may_find_work = bool(jobs)
        if jobs:
            self._poll_interval = MIN_POLL
        for job in jobs:
            self._running[job.id] = (job, asyncio.create_task(self._execute(job)))
        if jobs:
            await faults.point("worker.claimed")

    def _capacity(self) -> tuple[int, int]:
        """How many jobs may be claimed, and how many of them not interactive."""
        if self._stopping.is_set():
            return 0, 0
        general_running = sum(1 for job, _ in self._running.values() if job.priority != Priority.INTERACTIVE)
        limit = min(CLAIM_BATCH, self._limits.slots - len(self._running))
        return limit, max(0, min(limit, self._limits.general_slots - general_running))

    async def _complete_and_claim(self, limit: int, general_limit: int) -> list[Job]:
        finished = self._finished[:]
        self._claiming = True
        try:
            async with self._db.connection() as tx:
                jobs = await store.complete_and_claim(
                    tx,
                    self.id,
                    finished,
                    limit=limit,
                    non_interactive_limit=general_limit,
                    lane_cap=self._limits.lane_cap,
                    global_cap=self._limits.global_cap,
                )
        finally:
            self._claiming = False
        del self._finished[: len(finished)]
        return jobs

    # ── one job ──────────────────────────────────────────────────────────────────────────────────────────

    async def _execute(self, job: Job) -> None:
        started = time.perf_counter()
        try:
            transition = await self._attempt(job)
            if isinstance(transition, retry.Complete):
                self._complete(job)
            else:
                # From here on it has an end: a cancel that comes now is met by whoever moves the job next.
                self._recording.add(job.id)
                await self._record_outcome(job, transition)
                await faults.point("worker.settled")
        finally:
            self._recording.discard(job.id)
            # What was postponed by a moment may have been claimed again by now: then it runs under another lease.
            if job.id in self._running and self._running[job.id][0] is job:
                del self._running[job.id]
                self._cancelled.discard(job.id)
            self._suspect = None if self._suspect == job.id else self._suspect
            self._may_find_work = True
            self._wake.set()
        if log.isEnabledFor(logging.DEBUG):
            seconds = time.perf_counter() - started
            log.debug(
                "job ended", extra={**_log_fields(job), "move": type(transition).__name__, "took": seconds}
            )

    async def _attempt(self, job: Job) -> retry.Transition:
        try:
            if job.attempt > LOST_FACTOR * job.max_attempts:
                raise Permanent(
                    f"Given up: the worker was lost at most of {job.attempt - 1} attempts.",
                    code="worker_lost",
                )
            if job.interrupted and job.attempt >= SUSPECT_ATTEMPTS:
                if self._suspect is not None:
                    return retry.Postpone(_SUSPECT_DELAY, counted=False)
                self._suspect = job.id
            handler = self._handlers.get(job.kind)
            if handler is None:
                raise Permanent(f"No handler for work of kind {job.kind!r}.", code="unknown_kind")
            attributes = {"job": str(job.id), "lane": job.lane, "attempt": job.attempt}
            with traces.span(f"job {job.kind}", attributes):
                return retry.after_outcome(await handler.run(job))
        except asyncio.CancelledError:
            # By a cancel; else by the end of this worker, which gives back what it holds.
            return retry.FinishCancel() if job.id in self._cancelled else retry.Ignore()
        except Exception as error:
            if not isinstance(error, GristmillError):
                log.exception("job raised a bug", extra=_log_fields(job))
            return retry.after_error(error, job, random.random())  # noqa: S311

    def _complete(self, job: Job) -> None:
        """Leave it to the next cycle, unless its handler has completed it with its results."""
        if not job.completed:
            self._finished.append(job)

    async def _record_outcome(self, job: Job, transition: retry.Transition) -> None:
        """Make the move now, or when the database is back."""
        try:
            await self._apply(job, transition)
        except LeaseLost:
            log.warning("job was lost to another worker", extra=_log_fields(job))
        except DatabaseUnavailable:
            self._pending_outcomes.append((job, transition))

    async def _record_pending_outcomes(self) -> None:
        while self._pending_outcomes:
            job, transition = self._pending_outcomes[0]
            try:
                await self._apply(job, transition)
            except LeaseLost:
                log.warning("job was lost to another worker", extra=_log_fields(job))
            del self._pending_outcomes[0]

    async def _apply(self, job: Job, transition: retry.Transition) -> None:
        match transition:
            case retry.Complete():
                self._complete(job)
            case retry.Postpone(delay, counted, error):
                async with self._db.transaction() as tx:
                    await store.postpone(tx, job, delay, counted=counted, error=error)
                if error is not None:
                    log.warning("job postponed", extra={**_log_fields(job), "by": delay, "code": error.code})
            case retry.Bury(error):
                async with self._db.transaction() as tx:
                    # Its end first: what handlers lock is locked before a job's row, here as everywhere.
                    handler = self._handlers.get(job.kind)
                    if handler is not None and handler.on_dead is not None:
                        await handler.on_dead(tx, job, error)
                    await store.bury(tx, job, error)
                log.warning(
                    "job is dead", extra={**_log_fields(job), "code": error.code, "reason": error.message}
                )
            case retry.FinishCancel():
                async with self._db.transaction() as tx:
                    await store.finish_cancel(tx, job)
                log.info("job cancelled", extra=_log_fields(job))
            case retry.Ignore():
                pass

    # ── pulse ────────────────────────────────────────────────────────────────────────────────────────────

    async def _heartbeat_loop(self) -> None:
        max_wait = min(MAX_POLL, self._limits.lease / 3)
        while True:
            wait = max_wait
            try:
                async with self._db.connection() as tx:
                    wait = min(max_wait, await self._heartbeat(tx))
                async with self._db.connection() as tx:
                    await schedule.fire_due(tx)
            except DatabaseUnavailable as error:
                await self._outage.wait(error.message)
            self._heartbeat_now.clear()
            await clock.wait(self._heartbeat_now, wait)

    async def _heartbeat(self, tx: Tx) -> timedelta:
        """Everything that a worker does about once a second; how soon it has to be done again."""
        if not await store.renew_lease(tx, self.id, self._limits.lease):
            await self._rejoin()
        running_jobs = await store.running_jobs(tx, self.id)
        for job in running_jobs:
            if job.cancelling:
                self._stop_job(job.id)
        await self._requeue_unknown_jobs(tx, {job.id for job in running_jobs})
        tick = await store.tick(tx)
        if tick.expired:
            log.warning("jobs of lost workers returned to the queue", extra={"count": tick.expired})
        if time.monotonic() - self._swept_at > _SWEEP_EVERY:
            self._swept_at = time.monotonic()
            await store.sweep(tx, self._limits.retention)
        return MAX_POLL if tick.next_in is None else max(tick.next_in, timedelta(milliseconds=5))

    async def _requeue_unknown_jobs(self, tx: Tx, held_ids: set[JobId]) -> None:
        """Give back what the database says we run and we don't: seen twice, and not just being claimed."""
        known = {
            *self._running,
            *(job.id for job in self._finished),
            *(job.id for job, _ in self._pending_outcomes),
        }
        unknown = set[JobId]() if self._claiming else held_ids - known
        if confirmed := unknown & self._unknown_jobs:
            await store.requeue_unknown(tx, self.id, confirmed)
            log.warning(
                "jobs whose claim was never answered returned to the queue", extra={"count": len(confirmed)}
            )
        self._unknown_jobs = unknown - confirmed

    def _stop_job(self, job_id: JobId) -> None:
        # At every pulse until it ends, for a cancel can be lost: see `clock.stop`.
        if job_id in self._running and job_id not in self._recording:
            self._cancelled.add(job_id)
            self._running[job_id][1].cancel()

    async def _register(self) -> None:
        info = {"host": platform.node(), "pid": os.getpid()}
        async with self._db.connection() as tx:
            await store.register_worker(tx, self.id, info, self._limits.lease, lock_key=self._lock_key)

    async def _rejoin(self) -> None:
        log.warning(
            "worker was declared gone and joins again",
            extra={"worker": self.id, "dropped": len(self._running)},
        )
        for _, task in list(self._running.values()):
            task.cancel()
        self.id = uuid4()
        await self._register()

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────

    async def _wind_down(self) -> None:
        tasks = [task for _, task in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=self._limits.stop_grace.total_seconds())
        await clock.cancel_tasks(tasks)
        try:
            await self._record_pending_outcomes()
            await self._complete_and_claim(0, 0)
            async with self._db.transaction() as tx:
                released = await store.unregister_worker(tx, self.id)
            log.info("worker stopped", extra={"worker": self.id, "released": released})
        except DatabaseUnavailable as error:
            log.warning(
                "worker could not say goodbye; its jobs wait for its lease to run out",
                extra={"reason": error.message},
            )

    def _on_job(self, _payload: str | None) -> None:
        self._may_find_work = True
        self._wake.set()

    def _on_cancel(self, payload: str | None) -> None:
        if payload is None or payload == str(self.id):
            self._heartbeat_now.set()


def _log_fields(job: Job) -> dict[str, object]:
    return {"job": job.id, "kind": job.kind, "subject": job.subject, "attempt": job.attempt}
