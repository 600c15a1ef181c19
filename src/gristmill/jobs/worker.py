"""One worker process's share of the engine: claim, run, record, heartbeat, tick, stop.

A worker claims only as many jobs as it has free slots and its first stages can take (`slots.py`). Work that mostly waits for
other servers (a pool, such as webhooks) has slots apart, so that it takes none from the others. Two loops run side by side:

    claim loop       completes what is finished and claims what there is room for, in one statement; sleeps until a
                     notification, a finished job, or the poll interval, which grows while there is nothing to do (the
                     fallback when notifications are lost, or another worker has locked the lane)
    heartbeat loop   renews the lease, stops what was cancelled, fires due schedules, sweeps: about once a second;
                     ticks (queues due jobs, requeues those of workers that are gone): also whenever a job is due

Neither loop ends because of an error: it logs the traceback once, pauses and goes on.

The worker's state and the database's can diverge where a connection dies in the middle of a statement:

    a claim was committed, its answer lost     the heartbeat finds jobs that this worker does not run, and requeues them
    an outcome was committed, its answer lost  it is written again until that is confirmed; the second time changes nothing
    the lease expired meanwhile                another worker runs the job, and ours writes nothing
    the worker was declared gone               it stops what it runs, and registers again under a new id

A lost worker may have been killed by one of its jobs, but nothing says by which one. A job whose worker was lost twice is a
suspect. A worker runs one suspect at a time and requeues the others without counting the attempt: so the job that kills its
workers is found soon, and takes few others with it.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

from gristmill import clock, faults
from gristmill.db import Database, DatabaseUnavailable, Tx
from gristmill.db.listen import Listener
from gristmill.db.outage import Outage
from gristmill.errors import GristmillError, LeaseLost, Permanent
from gristmill.jobs import outcomes, retry, schedule, slots, store
from gristmill.jobs.job import Job, JobId
from gristmill.jobs.lanes import process_info
from gristmill.jobs.limits import WorkerLimits
from gristmill.jobs.outcomes import Handler, log_fields
from gristmill.telemetry import traces

log = logging.getLogger(__name__)

MAX_POLL = timedelta(seconds=1)
MIN_POLL = timedelta(milliseconds=20)
CLAIM_BATCH = 256
_SWEEP_EVERY = 60.0
_NOT_RELEASED = "worker could not release its jobs; they are requeued when its lease expires"
SUSPECT_ATTEMPTS = 3  # attempts, of which the last was lost
_SUSPECT_DELAY = timedelta(milliseconds=200)


class Worker:
    """Runs jobs until it is stopped."""

    def __init__(
        self, db: Database, listener: Listener, handlers: Mapping[str, Handler], limits: WorkerLimits
    ) -> None:
        self._db, self._handlers, self._limits = db, handlers, limits
        self.id: UUID = uuid4()
        self._wake, self._heartbeat_now, self._stopping = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._running: dict[JobId, tuple[Job, asyncio.Task[None]]] = {}
        self._suspect: JobId | None = None
        self._finished: list[Job] = []
        self._pending_outcomes: list[tuple[Job, retry.Transition]] = []
        self._cancelled, self._recording, self._unknown_jobs = set[JobId](), set[JobId](), set[JobId]()
        self._may_find_work, self._claiming, self._was_full = True, False, False
        self._short_lanes: set[str] = set()
        self._pools_claimed_at = -math.inf  # by the monotonic clock; -inf: pools may have work
        self._poll_interval = MIN_POLL
        self._swept_at, self._claimed_at = time.monotonic(), -math.inf
        self._outage = Outage(log, "the database")
        self._claim_failures = Outage(log, "the worker's claim loop")
        self._heartbeat_failures = Outage(log, "the worker's heartbeat loop")
        self._lock_key = random.getrandbits(31)
        listener.hold_lock(store.LOCK_SPACE, self._lock_key)
        listener.subscribe("job", self._on_job)
        listener.subscribe("job_cancel", self._on_cancel)

    @property
    def running(self) -> int:
        """How many jobs it runs at the moment."""
        return len(self._running)

    def stop(self) -> None:
        """Claim nothing more; `run` returns once the running jobs have ended or were requeued."""
        self._stopping.set()
        self._wake.set()

    async def run(self) -> None:
        """Work until `stop`."""
        await self._register()
        heartbeat = asyncio.create_task(self._heartbeat_loop(), name="worker heartbeat")
        try:
            while not self._stopping.is_set():
                try:
                    await self._cycle()
                except DatabaseUnavailable as error:
                    await self._outage.wait(error.message)
                except Exception as error:  # a bug: without this loop the process would work no more
                    await self._claim_failures.wait_unexpected(error)
        finally:
            try:
                await self._wind_down()
            finally:
                await clock.cancel_tasks([heartbeat])

    # ── the claim loop ───────────────────────────────────────────────────────────────────────────────────

    async def _cycle(self) -> None:
        capacity = self._capacity()
        may_find_work = self._may_find_work or slots.has_room_for_any(
            capacity, self._short_lanes, time.monotonic() - self._claimed_at
        )
        must_claim = may_find_work and not (
            capacity.is_full and all(self._pool_capacity(pool) <= 0 for pool in self._limits.pools)
        )
        if not self._finished and not self._pending_outcomes and not must_claim:
            self._was_full, self._short_lanes = capacity.is_full, slots.short_lanes(capacity)
            self._wake.clear()
            if await clock.wait(self._wake, self._poll_interval):
                self._poll_interval = min(self._poll_interval, slots.CLAIM_INTERVAL)
            else:
                # No notification: poll less often the longer that lasts, but soon after there was work, because a
                # lane that another worker had locked may have more.
                self._poll_interval = min(self._poll_interval * 2, MAX_POLL)
                self._may_find_work = True
            return
        await self._record_pending_outcomes()
        self._may_find_work = False  # before the claim: a notification that arrives during it sets this again
        try:
            claimed = await self._complete_and_claim(capacity)
            self._short_lanes = slots.exhausted_lanes(capacity, claimed)
            self._may_find_work = self._may_find_work or slots.may_have_left_jobs(capacity, claimed)
            await self._start(claimed)
            if time.monotonic() - self._pools_claimed_at > MAX_POLL.total_seconds():
                await self._start(await self._claim_pools())
        except BaseException:
            self._expect_work()
            raise
        self._outage.clear()
        self._claim_failures.clear()

    def _capacity(self) -> slots.ClaimRoom:
        if self._stopping.is_set():
            return slots.NO_ROOM
        limits = self._limits
        capacity = slots.claim_room(
            [job for job, _ in self._running.values() if job.pool not in limits.pools],
            slots.SlotLimits(limits.slots, limits.reserved, limits.away, limits.share, limits.prefetch),
        )
        return replace(capacity, limit=min(CLAIM_BATCH, capacity.limit))

    def _pool_capacity(self, pool: str) -> int:
        """How many jobs of a pool may be claimed."""
        return 0 if self._stopping.is_set() else self._limits.pools[pool].slots - len(self._pool_lanes(pool))

    def _pool_lanes(self, pool: str) -> list[str]:
        """The lanes of the jobs that run in a pool's slots."""
        return [job.lane for job, _ in self._running.values() if job.pool == pool]

    async def _complete_and_claim(self, capacity: slots.ClaimRoom) -> list[Job]:
        finished = self._finished[:]
        self._claiming, self._claimed_at = True, time.monotonic()
        try:
            async with self._db.connection() as tx:
                jobs = await store.complete_and_claim(
                    tx,
                    self.id,
                    finished,
                    limit=capacity.limit,
                    non_interactive_limit=capacity.non_interactive_limit,
                    lane_cap=self._limits.effective_lane_cap,
                    global_cap=self._limits.global_cap,
                    lane_room=capacity.by_lane,
                    interactive_room=capacity.interactive_by_lane,
                    new_lane_room=capacity.new_lane,
                )
        finally:
            self._claiming = False
        del self._finished[: len(finished)]
        return jobs

    async def _claim_pools(self) -> list[Job]:
        """Claim jobs for the slots of pools, one per lane."""
        jobs: list[Job] = []
        self._claiming = True
        self._pools_claimed_at = time.monotonic()  # a notification that arrives meanwhile resets this
        try:
            for pool, limits in self._limits.pools.items():
                if (free := self._pool_capacity(pool)) > 0:
                    lanes = self._pool_lanes(pool)
                    async with self._db.connection() as tx:
                        jobs += await store.claim_pool(
                            tx, self.id, pool, limit=free, share=limits.share, running=lanes
                        )
        finally:
            self._claiming = False
        if jobs:
            self._expect_work()
        return jobs

    def _expect_work(self, *, pools: bool = True) -> None:
        """Claim again as soon as there is room; with `pools`, also for their slots."""
        self._may_find_work, self._poll_interval = True, MIN_POLL
        self._pools_claimed_at = -math.inf if pools else self._pools_claimed_at

    async def _start(self, jobs: Sequence[Job]) -> None:
        if not jobs:
            return
        self._poll_interval = MIN_POLL
        for job in jobs:
            job.on_activity = self._on_activity
            self._running[job.id] = (job, asyncio.create_task(self._execute(job)))
        await asyncio.sleep(0)  # they begin, and say what they do, before the next claim
        await faults.point("worker.claimed")

    # ── one job ──────────────────────────────────────────────────────────────────────────────────────────

    async def _execute(self, job: Job) -> None:
        started = time.perf_counter()
        try:
            transition = await self._attempt(job)
            if isinstance(transition, retry.Complete):
                self._complete(job)
            else:
                # Its outcome is decided: a cancel that arrives now applies to the next attempt, if there is one.
                self._recording.add(job.id)
                await self._record_outcome(job, transition)
                await faults.point("worker.settled")
        finally:
            self._recording.discard(job.id)
            # A job that was postponed for an instant may be claimed again by now: then it runs under another lease.
            if job.id in self._running and self._running[job.id][0] is job:
                del self._running[job.id]
                self._cancelled.discard(job.id)
            self._suspect = None if self._suspect == job.id else self._suspect
            # Where its lane has more jobs than room here, `_cycle` claims when there is room for some of them.
            if self._was_full or self._limits.has_caps or job.lane not in self._short_lanes:
                self._expect_work(pools=job.pool in self._limits.pools)
            self._wake.set()
        if log.isEnabledFor(logging.DEBUG):
            fields = {"transition": type(transition).__name__, "seconds": time.perf_counter() - started}
            log.debug("job ended", extra=log_fields(job) | fields)

    async def _attempt(self, job: Job) -> retry.Transition:
        try:
            retry.check_lost_attempts(job)
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
            # By a cancel of the job, or by the end of this worker, which requeues what it runs.
            return retry.FinishCancel() if job.id in self._cancelled else retry.Ignore()
        except Exception as error:
            if not isinstance(error, GristmillError):
                log.exception("job raised an unexpected error", extra=log_fields(job))
            return retry.after_error(error, job, random.random())  # noqa: S311

    def _complete(self, job: Job) -> None:
        """Leave it to the next cycle, unless its handler has completed it with its results."""
        if not job.completed:
            self._finished.append(job)

    async def _record_outcome(self, job: Job, transition: retry.Transition) -> None:
        """Write the transition now, or when the database is back."""
        try:
            await self._write_outcome(job, transition)
        except DatabaseUnavailable:
            self._pending_outcomes.append((job, transition))

    async def _record_pending_outcomes(self) -> None:
        while self._pending_outcomes:
            await self._write_outcome(*self._pending_outcomes[0])
            del self._pending_outcomes[0]

    async def _write_outcome(self, job: Job, transition: retry.Transition) -> None:
        try:
            await outcomes.write(self._db, self._handlers.get(job.kind), job, transition)
        except LeaseLost:
            log.warning("job was lost to another worker", extra=log_fields(job))
        except DatabaseUnavailable:
            raise
        except Exception:  # the heartbeat requeues it, as a job that this worker does not run
            log.exception("outcome of a job could not be written", extra=log_fields(job))

    # ── the heartbeat loop ───────────────────────────────────────────────────────────────────────────────

    async def _heartbeat_loop(self) -> None:
        interval, heartbeat_at = min(MAX_POLL, self._limits.lease / 3).total_seconds(), -math.inf
        while True:
            wait = interval
            try:
                async with self._db.connection() as tx:
                    if self._heartbeat_now.is_set() or time.monotonic() >= heartbeat_at:
                        self._heartbeat_now.clear()
                        await self._heartbeat(tx)
                        await schedule.fire_due(tx)
                        heartbeat_at = time.monotonic() + interval
                    wait = min((await self._tick(tx)).total_seconds(), heartbeat_at - time.monotonic())
                self._heartbeat_failures.clear()
            except DatabaseUnavailable as error:
                await self._outage.wait(error.message)
            except Exception as error:  # a bug: without heartbeats the lease expires, and no job becomes due
                await self._heartbeat_failures.wait_unexpected(error)
            await clock.wait(self._heartbeat_now, timedelta(seconds=max(wait, 0)))

    async def _heartbeat(self, tx: Tx) -> None:
        """Renew the lease, and do what a worker does about once a second."""
        if not await store.renew_lease(tx, self.id, self._limits.lease):
            await self._rejoin()
        running_jobs = await store.running_jobs(tx, self.id)
        for job in [job for job in running_jobs if job.cancelling]:
            self._stop_job(job.id)
        await self._requeue_unknown_jobs(tx, {job.id for job in running_jobs})
        if time.monotonic() - self._swept_at > _SWEEP_EVERY:
            self._swept_at = time.monotonic()
            await store.sweep(tx, self._limits.retention)

    async def _tick(self, tx: Tx) -> timedelta:
        """Queue due jobs; how soon the next one is due, or has to be looked for."""
        tick = await store.tick(tx)
        if tick.expired:
            log.warning("jobs of lost workers returned to the queue", extra={"count": tick.expired})
        return MAX_POLL if tick.next_in is None else max(tick.next_in, timedelta(milliseconds=5))

    async def _requeue_unknown_jobs(self, tx: Tx, held_ids: set[JobId]) -> None:
        """Requeue jobs that we run according to the database only: found twice, and not while a claim is under way."""
        known = {*self._running, *(job.id for job in self._finished)}
        known |= {job.id for job, _ in self._pending_outcomes}
        unknown = set[JobId]() if self._claiming else held_ids - known
        if confirmed := unknown & self._unknown_jobs:
            await store.requeue_unknown(tx, self.id, confirmed)
            log.warning("jobs that this worker does not run were requeued", extra={"count": len(confirmed)})
        self._unknown_jobs = unknown - confirmed

    def _stop_job(self, job_id: JobId) -> None:
        # At every heartbeat until it ends, because a cancel can be lost: see `clock.cancel_tasks`.
        if job_id in self._running and job_id not in self._recording:
            self._cancelled.add(job_id)
            self._running[job_id][1].cancel()

    async def _register(self) -> None:
        info = process_info()
        async with self._db.connection() as tx:
            await store.register_worker(tx, self.id, info, self._limits.lease, lock_key=self._lock_key)

    async def _rejoin(self) -> None:
        facts = {"worker": self.id, "dropped": len(self._running)}
        log.warning("worker was declared gone and registers again", extra=facts)
        for _, task in list(self._running.values()):
            task.cancel()
        self.id = uuid4()
        await self._register()

    # ── shutdown ─────────────────────────────────────────────────────────────────────────────────────────

    async def _wind_down(self) -> None:
        tasks = [task for _, task in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=self._limits.stop_grace.total_seconds())
        await clock.cancel_tasks(tasks)
        try:
            await self._record_pending_outcomes()
            await self._complete_and_claim(slots.NO_ROOM)
            async with self._db.transaction() as tx:
                released = await store.unregister_worker(tx, self.id)
            log.info("worker stopped", extra={"worker": self.id, "jobs_back_in_the_queue": released})
        except DatabaseUnavailable as error:
            log.warning(_NOT_RELEASED, extra={"reason": error.message})
        except Exception:
            log.exception(_NOT_RELEASED)

    def _on_activity(self, job: Job) -> None:
        self._may_find_work |= self._was_full
        running = (other for other, _ in self._running.values())
        if self._was_full or (job.lane in self._short_lanes and slots.has_room_again(job, running)):
            self._wake.set()

    def _on_job(self, _payload: str | None) -> None:
        self._expect_work()
        self._wake.set()

    def _on_cancel(self, payload: str | None) -> None:
        if payload is None or payload == str(self.id):
            self._heartbeat_now.set()
