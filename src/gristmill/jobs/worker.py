"""One worker process's share of the engine: claim, run, settle, beat, tick, stop.

It claims only as many jobs as it has slots for. Two loops run side by side:

    cycle   settle what is finished and claim what there is room for, in one transaction; sleep until a
            notification, a finished job, or the poll interval (the fallback when notifications are lost)
    pulse   renew the lease, stop what was cancelled, tick (promote due jobs, return those of the gone)

When the database is away, both wait and try again; what finished meanwhile is settled when it is back,
unless the lease ran out first, in which case somebody else runs it and ours settles nothing. A worker that
was declared gone stops what it runs and joins again under a new id.
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
from gristmill.db import Database, Tx, Unavailable
from gristmill.db.listen import Listener
from gristmill.errors import GristmillError, LeaseLost, Permanent
from gristmill.jobs import retry, store
from gristmill.jobs.job import Band, Job, JobId, Outcome

log = logging.getLogger(__name__)

POLL = timedelta(seconds=1)
RECONNECT_WAIT = timedelta(milliseconds=250)
CLAIM_BATCH = 64


@dataclass(frozen=True)
class Handler:
    """How one kind of work is run; `buried` writes, in the burying transaction, what its end means."""

    run: Callable[[Job], Awaitable[Outcome]]
    buried: Callable[[Tx, Job, GristmillError], Awaitable[None]] | None = None


@dataclass(frozen=True)
class Limits:
    """How much one worker takes, and how long it may be silent."""

    slots: int = 4
    reserved: int = 1  # slots that only interactive jobs take
    lane_cap: int = 4
    global_cap: int | None = None
    lease: timedelta = timedelta(seconds=15)
    stop_grace: timedelta = timedelta(seconds=10)
    retention: timedelta = timedelta(days=7)

    @property
    def general(self) -> int:
        """Slots that any job takes; at least one, or nothing else would ever run."""
        return max(1, self.slots - self.reserved)


class Worker:
    """Runs jobs until it is stopped."""

    def __init__(
        self, db: Database, listener: Listener, handlers: Mapping[str, Handler], limits: Limits
    ) -> None:
        self._db, self._handlers, self._limits = db, handlers, limits
        self.id: UUID = uuid4()
        self._wake, self._stopping = asyncio.Event(), asyncio.Event()
        self._running: dict[JobId, tuple[Job, asyncio.Task[None]]] = {}
        self._cancelled: set[JobId] = set()
        self._finished: list[Job] = []
        self._more = True
        self._pulse_now = asyncio.Event()
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
        self._pulse_now.set()

    async def run(self) -> None:
        """Work until `stop`."""
        await self._enrol()
        pulse = asyncio.create_task(self._pulse(), name="worker pulse")
        try:
            while not self._stopping.is_set():
                await self._cycle()
        finally:
            await self._wind_down()
            pulse.cancel()
            await asyncio.gather(pulse, return_exceptions=True)

    # ── cycle ────────────────────────────────────────────────────────────────────────────────────────────

    async def _cycle(self) -> None:
        room = self._room()
        if not self._finished and (not self._more or room.limit <= 0):
            self._wake.clear()
            if not await clock.wait(self._wake, POLL):
                self._more = True
            return
        finished, self._finished = self._finished, []
        try:
            async with self._db.transaction() as tx:
                if finished:
                    await store.complete_all(tx, finished)
                jobs = (
                    await store.claim(
                        tx,
                        self.id,
                        limit=room.limit,
                        general=room.general,
                        lane_cap=self._limits.lane_cap,
                        global_cap=self._limits.global_cap,
                    )
                    if room.limit > 0
                    else []
                )
        except Unavailable as error:
            self._finished[:0] = finished
            log.warning("worker waits for the database", extra={"reason": error.message})
            await clock.pause(RECONNECT_WAIT * (1 + random.random()))  # noqa: S311
            return
        self._more = bool(jobs)
        if jobs:
            await faults.point("worker.claimed")
        for job in jobs:
            self._running[job.id] = (job, asyncio.create_task(self._execute(job), name=f"job {job.kind}"))

    def _room(self) -> "_Room":
        if self._stopping.is_set():
            return _Room(0, 0)
        general = sum(1 for job, _ in self._running.values() if job.band != Band.INTERACTIVE)
        limit = min(CLAIM_BATCH, self._limits.slots - len(self._running))
        return _Room(limit, max(0, min(limit, self._limits.general - general)))

    # ── one job ──────────────────────────────────────────────────────────────────────────────────────────

    async def _execute(self, job: Job) -> None:
        started = time.perf_counter()
        try:
            move = await self._attempt(job)
            await self._settle(job, move)
            log.debug(
                "job ended",
                extra={**_facts(job), "move": type(move).__name__, "took": time.perf_counter() - started},
            )
        except asyncio.CancelledError:
            if job.id in self._cancelled:
                async with self._db.transaction() as tx:
                    await store.withdraw(tx, job)
                log.info("job cancelled", extra=_facts(job))
        except (LeaseLost, Unavailable) as error:
            # Not settled: the lease runs out and the job runs again, here or elsewhere.
            log.warning("job not settled", extra={**_facts(job), "reason": error.message})
        finally:
            del self._running[job.id]
            self._cancelled.discard(job.id)
            self._more = True
            self._wake.set()

    async def _attempt(self, job: Job) -> retry.Move:
        try:
            if job.attempt > job.max_attempts:
                raise Permanent(
                    f"Given up: the worker was lost at each of {job.max_attempts} attempts.",
                    code="worker_lost",
                )
            handler = self._handlers.get(job.kind)
            if handler is None:
                raise Permanent(f"No handler for work of kind {job.kind!r}.", code="unknown_kind")
            return retry.after_outcome(await handler.run(job))
        except Exception as error:
            if not isinstance(error, GristmillError):
                log.exception("job raised a bug", extra=_facts(job))
            return retry.after_error(error, job, random.random())  # noqa: S311

    async def _settle(self, job: Job, move: retry.Move) -> None:
        match move:
            case retry.Complete():
                if not job.settled:
                    self._finished.append(job)
            case retry.Postpone(delay, counted, error):
                async with self._db.transaction() as tx:
                    await store.postpone(tx, job, delay, counted=counted, error=error)
                if error is not None:
                    log.warning("job postponed", extra={**_facts(job), "by": delay, "code": error.code})
            case retry.Bury(error):
                async with self._db.transaction() as tx:
                    await store.bury(tx, job, error)
                    handler = self._handlers.get(job.kind)
                    if handler is not None and handler.buried is not None:
                        await handler.buried(tx, job, error)
                log.error("job is dead", extra={**_facts(job), "code": error.code, "reason": error.message})
            case retry.Nothing():
                log.warning("job lost its lease", extra=_facts(job))

    # ── pulse ────────────────────────────────────────────────────────────────────────────────────────────

    async def _pulse(self) -> None:
        longest = min(POLL, self._limits.lease / 3)
        swept = time.monotonic()
        while True:
            wait = longest
            try:
                async with self._db.connection() as tx:
                    if not await store.beat(tx, self.id, self._limits.lease):
                        await self._rejoin()
                    for cancelled in await store.cancelling(tx, self.id):
                        self._stop_job(cancelled)
                    ticked = await store.tick(tx)
                    if ticked.expired:
                        log.warning(
                            "jobs of lost workers returned to the queue", extra={"count": ticked.expired}
                        )
                    if ticked.next_in is not None:
                        wait = min(longest, max(ticked.next_in, timedelta(milliseconds=5)))
                    if time.monotonic() - swept > 60:
                        swept = time.monotonic()
                        await store.sweep(tx, self._limits.retention)
            except Unavailable as error:
                log.warning("worker has no pulse", extra={"reason": error.message})
            self._pulse_now.clear()
            await clock.wait(self._pulse_now, wait)

    def _stop_job(self, job_id: JobId) -> None:
        if (entry := self._running.get(job_id)) is not None and job_id not in self._cancelled:
            self._cancelled.add(job_id)
            entry[1].cancel()

    async def _enrol(self) -> None:
        info = {"host": platform.node(), "pid": os.getpid()}
        async with self._db.connection() as tx:
            await store.enrol(tx, self.id, info, self._limits.lease)

    async def _rejoin(self) -> None:
        log.warning(
            "worker was declared gone and joins again",
            extra={"worker": self.id, "dropped": len(self._running)},
        )
        for _, task in list(self._running.values()):
            task.cancel()
        self.id = uuid4()
        await self._enrol()

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────

    async def _wind_down(self) -> None:
        tasks = [task for _, task in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=self._limits.stop_grace.total_seconds())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            async with self._db.transaction() as tx:
                await store.complete_all(tx, self._finished)
                released = await store.leave(tx, self.id)
            log.info("worker stopped", extra={"worker": self.id, "released": released})
        except Unavailable as error:
            log.warning(
                "worker could not say goodbye; its jobs wait for its lease", extra={"reason": error.message}
            )

    def _on_job(self, _payload: str | None) -> None:
        self._more = True
        self._wake.set()

    def _on_cancel(self, payload: str | None) -> None:
        if payload is None or payload == str(self.id):
            self._pulse_now.set()


@dataclass(frozen=True)
class _Room:
    limit: int
    general: int


def _facts(job: Job) -> dict[str, object]:
    return {"job": job.id, "kind": job.kind, "subject": job.subject, "attempt": job.attempt}
