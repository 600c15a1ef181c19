"""The interface of every engine, and our own engine behind it.

Engines are used as their documentation says, each with its best bulk insert and its own worker, over psycopg and the
same Unix socket, with default durability. Each declares how many jobs its worker runs at once when it drains no-ops: the
value with the best median of three or four that were tried three times each, on one machine. The values lay within each
other's spread: tune again before trusting a difference of a few percent.
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

# Gets the lane and the number of a job, and returns when the job is done.
RunJob = Callable[[str, int], Awaitable[None]]


class Producer(Protocol):
    """Adds jobs; returns when they are committed."""

    async def enqueue_one(self, lane: str, number: int) -> None:
        """Enqueue one job, with the engine's call for one."""
        ...

    async def enqueue_many(self, lane: str, first: int, count: int) -> None:
        """Enqueue `count` jobs, with the engine's best call for many."""
        ...


class JobEngine(Protocol):
    """A job engine on PostgreSQL."""

    name: str
    concurrency: int
    uvloop: bool  # whether its own command runs it on uvloop
    unfinished: LiteralString  # SQL: the number of waiting and running jobs

    async def install(self, url: str) -> None:
        """Create its tables."""
        ...

    def producer(self, url: str) -> AbstractAsyncContextManager[Producer]:
        """A connected client."""
        ...

    def worker(self, url: str, run: RunJob, concurrency: int) -> AbstractAsyncContextManager[None]:
        """Its worker, for the length of the block; it knows the lanes `a` and `b`."""
        ...


@dataclass(frozen=True)
class NumberedWork(Work):
    """A job that has only a number."""

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
    """Our engine, without caps, so that one lane can fill the worker."""

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
            slots=concurrency,
            reserved=0,
            share=1.0,
            prefetch=concurrency,
            lane_cap=concurrency,
            stop_grace=timedelta(milliseconds=100),
        )
        async with open_database(url) as db, run_worker(db, {NumberedWork.kind: Handler(handle)}, limits):
            yield


@asynccontextmanager
async def open_database(url: str) -> AsyncGenerator[Database]:
    """Our connection pool, open for the length of the block."""
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
    """One of our workers with its listener, for the length of the block."""
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
