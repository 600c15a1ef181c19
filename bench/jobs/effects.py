"""The effects of the jobs of worker processes, and what they prove.

    feed      the requested jobs, written in the transaction that enqueued them
    begun     every start of a handler, committed at once
    effect    the effect of a job, written in one transaction with `jobs.complete`; nothing else keeps it unique
    refused   every attempt to write an effect that failed because the lease was lost

`began` is read after the claim has committed and `ended` before the completion commits, on the database's clock, so the
span between them lies within the time in which the job ran: overlapping spans are jobs that ran at once. The sampler
checks the same independently, by counting running jobs in snapshots.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg

from bench.jobs.engine import GristmillEngine
from bench.jobs.server import BenchServer
from gristmill import jobs
from gristmill.db import Database
from gristmill.jobs import NewJob, Work

_SCHEMA = """
create table feed (number bigint primary key);
create table begun (number bigint not null, pid int not null, at timestamptz not null default clock_timestamp());
create table effect (number bigint not null, pid int not null, lane text not null, began timestamptz not null,
                     ended timestamptz not null default clock_timestamp());
create table refused (number bigint not null, pid int not null);
"""
_EFFECT_COUNTS = """
select (select count(*) from feed) as requested,
       (select count(*) from feed f where not exists (select from effect e where e.number = f.number)) as lost,
       (select count(*) from (select from effect group by number having count(*) > 1) e) as duplicated,
       (select count(*) from effect e where not exists (select from feed f where f.number = e.number)) as unrequested,
       (select count(*) from job where state = 'dead') as dead,
       (select count(*) from job where state <> 'dead') as unfinished,
       (select count(*) from begun) as starts,
       (select count(*) from refused) as refused
"""
_LANE_PEAK = """
select coalesce(max(level), 0) from (
    select sum(step) over (partition by lane order by at, step) as level from (
        select lane, began as at, 1 as step from effect union all select lane, ended, -1 from effect) e) levels
"""
_PEAK = """
select coalesce(max(level), 0) from (
    select sum(step) over (order by at, step) as level from (
        select began as at, 1 as step from effect union all select ended, -1 from effect) e) levels
"""


@dataclass(frozen=True)
class Effect(Work):
    """Sleeps, then records its number; retried however often its worker dies."""

    kind = "effect"
    attempts = 10_000

    number: int
    seconds: float


@dataclass(frozen=True)
class EffectCounts:
    """Counts of requested jobs and their effects."""

    requested: int
    lost: int
    duplicated: int
    unrequested: int
    dead: int
    unfinished: int
    starts: int
    refused: int

    @property
    def exactly_once(self) -> bool:
        """Whether every job had its effect exactly once, and nothing is left over."""
        return not (self.lost or self.duplicated or self.unrequested or self.dead or self.unfinished)


@asynccontextmanager
async def effects_database(server: BenchServer) -> AsyncGenerator[str]:
    """A fresh database of ours with the tables above."""
    engine = GristmillEngine()
    async with server.database(engine.name, engine.install) as url:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute(_SCHEMA)
        yield url


async def enqueue_effects(db: Database, effects: Iterable[tuple[str, Effect]]) -> None:
    """Enqueue jobs and record the request, in one transaction."""
    effects = list(effects)
    async with db.transaction() as tx:
        await tx.execute(
            "insert into feed select unnest(%s::bigint[])", [[effect.number for _, effect in effects]]
        )
        await jobs.enqueue(tx, *(NewJob(effect, lane) for lane, effect in effects))


async def count_effects(db: Database) -> EffectCounts:
    """Count the effects so far."""
    async with db.connection() as tx:
        row = await (await tx.execute(_EFFECT_COUNTS)).fetchone()
    assert row is not None
    return EffectCounts(*(int(value) for value in row))


async def wait_until_finished(db: Database, timeout: float) -> EffectCounts:
    """Wait until no job waits or runs, or until the timeout."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            while True:
                counts = await count_effects(db)
                if not counts.unfinished:
                    return counts
                await asyncio.sleep(0.1)
    return await count_effects(db)


async def peak_concurrency(db: Database) -> tuple[int, int]:
    """The most jobs that ran at once, in any lane and in all, by the spans of the effects."""
    async with db.connection() as tx:
        lane = await (await tx.execute(_LANE_PEAK)).fetchone()
        total = await (await tx.execute(_PEAK)).fetchone()
    assert lane is not None
    assert total is not None
    return int(lane[0]), int(total[0])


async def effects_per_worker(db: Database) -> list[int]:
    """How many effects each worker process wrote."""
    async with db.connection() as tx:
        cursor = await tx.execute("select count(*)::int from effect group by pid order by 1 desc")
        return [int(row[0]) for row in await cursor.fetchall()]


class Sampler:
    """Counts the running jobs again and again, and survives lost connections."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.samples, self.lane_peak, self.peak = 0, 0, 0

    @asynccontextmanager
    async def sampling(self) -> AsyncGenerator[None]:
        """Take samples for the length of the block."""
        task = asyncio.create_task(self._run(), name="sampler")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(psycopg.Error):
                async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
                    await self._sample(connection)
            await asyncio.sleep(0.1)

    async def _sample(self, connection: psycopg.AsyncConnection) -> None:
        while True:
            cursor = await connection.execute(
                "select count(*)::int from job where state = 'running' group by lane"
            )
            counts = [int(row[0]) for row in await cursor.fetchall()]
            self.samples += 1
            self.lane_peak, self.peak = max(self.lane_peak, *counts, 0), max(self.peak, sum(counts))
            await asyncio.sleep(0.003)
