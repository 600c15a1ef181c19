"""A worker process of ours whose jobs leave effects; killed, stopped and starved by those who start it.

It says `ready` when it works, and comes to an end when its input does. What it logs goes to its errors.
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
    """How a member of the crew works."""

    slots: int
    lane_cap: int
    global_cap: int | None = None
    lease: float = 15.0

    def limits(self) -> WorkerLimits:
        """The same, as the worker takes it; no slot is kept for the interactive band, which is not used here."""
        return WorkerLimits(
            slots=self.slots,
            reserved=0,
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
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, if it did."""
        return self._process.returncode

    def signal(self, signal_number: signal.Signals) -> None:
        """Send it a signal; nothing when it is gone."""
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
    """Start a worker process, and return when it works."""
    process = await spawn("bench.jobs.worker_process", url, json.dumps(vars(config)), log=log)
    assert process.stdout is not None
    if (await process.stdout.readline()).strip() != b"ready":
        raise RuntimeError(f"a worker process did not start; see {log}")
    return WorkerProcess(process)


@asynccontextmanager
async def start_workers(
    url: str, config: WorkerConfig, count: int, log: Path
) -> AsyncGenerator[list[WorkerProcess]]:
    """Several, for as long as the block lasts; the list may be changed."""
    workers = [await start_worker(url, config, log) for _ in range(count)]
    try:
        yield workers
    finally:
        await asyncio.gather(*(worker.end() for worker in workers))


class _UncancellableHandler:
    """A handler that no cancel reaches, like one whose work is done in a thread.

    A worker that finds itself declared gone cancels what it runs. Were that heeded here, a zombie would seldom
    come to write anything, and nothing would be shown about what happens when it does.
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
            task.exception()  # told to the worker already, unless it no longer listens

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
    """`crew.py URL TERMS`."""
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
