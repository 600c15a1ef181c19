"""All faults together under load: workers killed and frozen, connections cut, the server stopped and crashed.

Four worker processes run jobs that are added continuously; every effect is written in its job's completing transaction.
Faults are random, from a seed that is printed:

    kill       kill -9 of a worker process; another replaces it
    freeze     SIGSTOP, for up to twice the lease, so that it wakes as a zombie
    cut        pg_terminate_backend of some sessions
    restart    the server is stopped and started again         at 1/4 and 3/4 of the time
    crash      kill -9 of one backend: PostgreSQL ends them all and recovers      at 1/2

Then the faults end, and within two minutes every enqueued job must have had its effect exactly once.
"""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import psycopg

from bench.jobs.effects import (
    Effect,
    Sampler,
    effects_database,
    enqueue_effects,
    peak_concurrency,
    wait_until_finished,
)
from bench.jobs.engine import open_database
from bench.jobs.report import BenchReport
from bench.jobs.server import BenchServer
from bench.jobs.worker_process import WorkerConfig, WorkerProcess, start_worker, start_workers
from gristmill.db import Database, DatabaseUnavailable

WORKERS, LANES = 4, 12
CONFIG = WorkerConfig(slots=4, lane_cap=2, global_cap=10, lease=2.0)
DRAIN_TIMEOUT = 120.0


async def measure_chaos(server: BenchServer, report: BenchReport, seconds: float, seed: int | None) -> None:
    """Inject faults for `seconds`, then check the effects."""
    seed = random.randrange(10**6) if seed is None else seed
    log = server.folder / "chaos.log"
    async with effects_database(server) as url, open_database(url) as db:
        sampler = Sampler(url)
        async with start_workers(url, CONFIG, WORKERS, log) as workers, sampler.sampling():
            injector = _FaultInjector(server, url, workers, random.Random(seed), log)
            deadline = time.monotonic() + seconds
            feeding = asyncio.create_task(_enqueue_load(db, random.Random(seed + 1), deadline))
            await injector.inject(seconds)
            await feeding
            started = time.monotonic()
            effects = await wait_until_finished(db, DRAIN_TIMEOUT)
            drain_seconds = time.monotonic() - started
            exited = sum(worker.exit_code is not None for worker in workers)
        lane, total = await peak_concurrency(db)
    lane, total = max(lane, sampler.lane_peak), max(total, sampler.peak)
    fault_counts = injector.counts
    report.add(
        f"Chaos for {seconds:.0f} s, seed {seed}",
        ", ".join(f"{count} × {fault}" for fault, count in sorted(fault_counts.items())),
        [
            "jobs",
            "starts",
            "refused",
            "lost",
            "twice",
            "dead",
            "stuck",
            "lane peak",
            "global peak",
            "snapshots",
            "log lines",
            "settled in",
        ],
        [
            [
                *(
                    f"{value:,}"
                    for value in (
                        effects.requested,
                        effects.starts,
                        effects.refused,
                        effects.lost,
                        effects.duplicated + effects.unrequested,
                    )
                ),
                *(f"{value:,}" for value in (effects.dead, effects.unfinished, lane, total, sampler.samples)),
                f"{len(log.read_text().splitlines()):,}",
                f"{drain_seconds:.1f} s",
            ]
        ],
    )
    report.check(
        "Chaos: each effect exactly once, nothing lost, nothing stuck",
        f"{effects.requested:,} jobs, {effects.lost} lost, {effects.duplicated} twice, {effects.dead} dead, {effects.unfinished} stuck",
        effects.exactly_once,
    )
    report.check(
        "Chaos: no cap violated",
        f"at most {lane} a lane of {CONFIG.lane_cap}, {total} in all of {CONFIG.global_cap}",
        lane <= CONFIG.lane_cap and total <= (CONFIG.global_cap or 0),
    )
    report.check(
        "Chaos: no worker process exits by itself",
        f"{exited + injector.exited} did",
        exited + injector.exited == 0,
    )


async def _enqueue_load(db: Database, rng: random.Random, until: float) -> None:
    """Add jobs until the deadline: a large first batch, then a little less than the workers can do.

    A batch that fails is not retried: only committed batches count as requested.
    """
    number = 0
    while time.monotonic() < until:
        batch = [
            (f"lane {rng.randrange(LANES)}", Effect(number + n, rng.uniform(0, 0.15)))
            for n in range(1_000 if number == 0 else rng.randint(5, 35))
        ]
        number += len(batch)
        with contextlib.suppress(DatabaseUnavailable):
            await enqueue_effects(db, batch)
        await asyncio.sleep(0.2)


class _FaultInjector:
    """Injects the faults, and replaces worker processes that have exited."""

    def __init__(
        self, server: BenchServer, url: str, workers: list[WorkerProcess], rng: random.Random, log: Path
    ) -> None:
        self._server, self._url, self._workers, self._rng, self._log = server, url, workers, rng, log
        self._thaw_tasks = set[asyncio.Task[None]]()
        self.counts = Counter[str]()
        self.exited = 0

    async def inject(self, seconds: float) -> None:
        """Inject faults for `seconds`; at the end every worker process is running."""
        started = time.monotonic()
        scheduled = [(seconds / 4, "restart"), (seconds / 2, "crash"), (seconds * 3 / 4, "restart")]
        while (elapsed := time.monotonic() - started) < seconds:
            if scheduled and elapsed >= scheduled[0][0]:
                fault = scheduled.pop(0)[1]
            else:
                fault = self._rng.choices(("kill", "freeze", "cut"), (2, 2, 1))[0]
            self.counts[fault] += 1
            await {
                "kill": self._kill,
                "freeze": self._freeze,
                "cut": self._cut,
                "restart": self._restart,
                "crash": self._crash,
            }[fault]()
            await self._replace_exited()
            await asyncio.sleep(self._rng.uniform(0.2, 1.2))
        await asyncio.gather(*self._thaw_tasks)

    async def _kill(self) -> None:
        index = self._rng.randrange(len(self._workers))
        await self._workers[index].kill()
        self._workers[index] = await start_worker(self._url, CONFIG, self._log)

    async def _freeze(self) -> None:
        worker, seconds = self._rng.choice(self._workers), self._rng.uniform(0.2, 2 * CONFIG.lease)
        worker.signal(signal.SIGSTOP)

        async def thaw() -> None:
            await asyncio.sleep(seconds)
            worker.signal(signal.SIGCONT)

        task = asyncio.create_task(thaw())
        self._thaw_tasks.add(task)
        task.add_done_callback(self._thaw_tasks.discard)

    async def _cut(self) -> None:
        with contextlib.suppress(psycopg.Error):
            async with await self._server.admin() as admin:
                await admin.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where backend_type = 'client backend' and pid <> pg_backend_pid() and random() < 0.3"
                )

    async def _restart(self) -> None:
        await asyncio.to_thread(self._server.stop_server)
        await asyncio.sleep(self._rng.uniform(0, 2))
        await asyncio.to_thread(self._server.start_server)

    async def _crash(self) -> None:
        async with await self._server.admin() as admin:
            row = await (
                await admin.execute(
                    "select pid from pg_stat_activity where backend_type = 'client backend'"
                    " and pid <> pg_backend_pid() limit 1"
                )
            ).fetchone()
        if row is not None:
            os.kill(row[0], signal.SIGKILL)
        await self._server.wait_until_ready()

    async def _replace_exited(self) -> None:
        for index, worker in enumerate(self._workers):
            if worker.exit_code is not None:
                self.exited += 1
                self._workers[index] = await start_worker(self._url, CONFIG, self._log)
