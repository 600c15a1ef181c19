"""A worker process of ours whose jobs leave effects; the benchmarks kill and freeze it.

It prints `ready` when it runs, and stops when its input ends. It logs to stderr.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bench.jobs.agent_client import spawn, stop_process
from bench.jobs.effects import Effect
from bench.jobs.engine import open_database, run_worker
from gristmill import jobs
from gristmill.db import Database
from gristmill.errors import LeaseLost
from gristmill.jobs import Done, Handler, Job, Outcome, WorkerLimits


@dataclass(frozen=True)
class WorkerConfig:
    """The limits of a worker process."""

    slots: int
    lane_cap: int
    global_cap: int | None = None
    lease: float = 15.0

    def limits(self) -> WorkerLimits:
        """The same as the worker's own type. No slot is reserved for interactive jobs, which are not used here."""
        return WorkerLimits(
            slots=self.slots,
            reserved=0,
            share=1.0,
            prefetch=self.slots,
            lane_cap=self.lane_cap,
            global_cap=self.global_cap,
            lease=timedelta(seconds=self.lease),
            stop_grace=timedelta(seconds=2),
        )


class WorkerProcess:
    """A running worker process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.returncode

    def signal(self, signal_number: signal.Signals) -> None:
        """Send a signal, unless the process has exited."""
        if self._process.returncode is None:
            self._process.send_signal(signal_number)

    async def kill(self) -> None:
        """kill -9."""
        self.signal(signal.SIGKILL)
        await self._process.wait()

    async def end(self) -> None:
        """Ask it to stop, and wait for it."""
        self.signal(signal.SIGCONT)
        await stop_process(self._process)


async def start_worker(url: str, config: WorkerConfig, log: Path) -> WorkerProcess:
    """Start a worker process, and return when it runs."""
    process = await spawn("bench.jobs.worker_process", url, json.dumps(vars(config)), log=log)
    assert process.stdout is not None
    if (await process.stdout.readline()).strip() != b"ready":
        raise RuntimeError(f"a worker process did not start; see {log}")
    return WorkerProcess(process)


@asynccontextmanager
async def start_workers(
    url: str, config: WorkerConfig, count: int, log: Path
) -> AsyncGenerator[list[WorkerProcess]]:
    """Several worker processes, for the length of the block; the list may be changed."""
    workers = [await start_worker(url, config, log) for _ in range(count)]
    try:
        yield workers
    finally:
        await asyncio.gather(*(worker.end() for worker in workers))


class _UncancellableHandler:
    """A handler that ignores cancellation, like one whose work runs in a thread.

    A worker that lost its lease cancels its jobs. If that worked here, a zombie would rarely get to write anything, and
    the benchmark would not show that its writes are refused.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._tasks = set[asyncio.Task[None]]()

    async def __call__(self, job: Job) -> Outcome:
        task = asyncio.create_task(self._work(job))
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        await asyncio.shield(task)
        return Done()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the worker has seen it already, unless it has stopped

    async def _work(self, job: Job) -> None:
        effect, pid = Effect.of(job), os.getpid()
        async with self._db.connection() as tx:
            cursor = await tx.execute(
                "insert into begun (number, pid) values (%s, %s) returning at", [effect.number, pid]
            )
            row = await cursor.fetchone()
        assert row is not None
        await asyncio.sleep(effect.seconds)
        try:
            async with self._db.transaction() as tx:
                await tx.execute(
                    "insert into effect (number, pid, lane, began) values (%s, %s, %s, %s)",
                    [effect.number, pid, job.lane, row[0]],
                )
                await jobs.complete(tx, job)
        except LeaseLost:
            async with self._db.connection() as tx:
                await tx.execute("insert into refused (number, pid) values (%s, %s)", [effect.number, pid])
            raise


async def main() -> None:
    """`worker_process.py URL CONFIG`."""
    url, config = sys.argv[1], WorkerConfig(**json.loads(sys.argv[2]))
    logging.basicConfig(level=logging.WARNING, format=f"%(asctime)s {os.getpid()} %(levelname)s %(message)s")
    async with (
        open_database(url) as db,
        run_worker(db, {Effect.kind: Handler(_UncancellableHandler(db))}, config.limits()),
    ):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
