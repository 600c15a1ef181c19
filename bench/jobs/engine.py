"""What the benchmark asks of every engine, and our own behind it.

Engines are used as their documentation says, each with its best bulk insert and the worker it ships, over
psycopg and the same Unix socket, with default durability. Each declares how many jobs its worker runs at once
when it drains no-ops: of three or four values tried in turn, three times each, the one with the best median on the
machine this was written on. The values lay within each other's spread: tune again before making much of a few percent.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import LiteralString, Protocol

from gristmill import jobs
from gristmill.db import Database
from gristmill.db.listen import Listener
from gristmill.db.migrate import migrate
from gristmill.jobs import Done, Handler, Job, NewJob, Outcome, Work, Worker, WorkerLimits

# Is given the lane and the number of a job, and returns when the job is done.
RunJob = Callable[[str, int], Awaitable[None]]


class Producer(Protocol):
    """Adds jobs; returns when they are committed."""

    async def enqueue_one(self, lane: str, number: int) -> None:
        """One job, by the engine's call for one."""
        ...

    async def enqueue_many(self, lane: str, first: int, count: int) -> None:
        """`count` jobs, by the engine's best call for many."""
        ...


class JobEngine(Protocol):
    """A job engine on PostgreSQL."""

    name: str
    concurrency: int
    uvloop: bool  # whether its own command runs it on uvloop
    unfinished: LiteralString  # SQL: how many jobs wait or run

    async def install(self, url: str) -> None:
        """Make its tables."""
        ...

    def producer(self, url: str) -> AbstractAsyncContextManager[Producer]:
        """A connected client."""
        ...

    def worker(self, url: str, run: RunJob, concurrency: int) -> AbstractAsyncContextManager[None]:
        """Its worker, for as long as the block lasts; it knows the lanes `a` and `b`."""
        ...


@dataclass(frozen=True)
class NumberedWork(Work):
    """A job that is only a number."""

    kind = "numbered"

    number: int


class _GristmillProducer:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def enqueue_one(self, lane: str, number: int) -> None:
        async with self._db.transaction() as tx:
            await jobs.enqueue(tx, NewJob(NumberedWork(number), lane))

    async def enqueue_many(self, lane: str, first: int, count: int) -> None:
        async with self._db.transaction() as tx:
            await jobs.enqueue(
                tx, *(NewJob(NumberedWork(number), lane) for number in range(first, first + count))
            )


class GristmillEngine:
    """Ours: caps out of the way, so that one lane may fill the worker."""

    name = "gristmill"
    concurrency = 256
    uvloop = False
    unfinished: LiteralString = "select count(*)::int from job where state <> 'dead'"

    async def install(self, url: str) -> None:
        """Our migrations."""
        await migrate(url)

    @asynccontextmanager
    async def producer(self, url: str) -> AsyncGenerator[Producer]:
        """One transaction per call."""
        async with open_database(url) as db:
            yield _GristmillProducer(db)

    @asynccontextmanager
    async def worker(self, url: str, run: RunJob, concurrency: int) -> AsyncGenerator[None]:
        """The worker as `gristmill serve` builds it, with other limits."""

        async def handle(job: Job) -> Outcome:
            await run(job.lane, int(job.payload["number"]))
            return Done()

        limits = WorkerLimits(
            slots=concurrency, reserved=0, lane_cap=concurrency, stop_grace=timedelta(milliseconds=100)
        )
        async with open_database(url) as db, run_worker(db, {NumberedWork.kind: Handler(handle)}, limits):
            yield


@asynccontextmanager
async def open_database(url: str) -> AsyncGenerator[Database]:
    """Our pool, open."""
    db = Database(url)
    await db.open()
    try:
        yield db
    finally:
        await db.close()


@asynccontextmanager
async def run_worker(
    db: Database, handlers: dict[str, Handler], limits: WorkerLimits
) -> AsyncGenerator[Worker]:
    """One of our workers with its listener, for as long as the block lasts."""
    listener = Listener(db.url)
    worker = Worker(db, listener, handlers, limits)
    listener.start()
    await asyncio.wait_for(listener.connected.wait(), 10)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await task
        await listener.stop()
