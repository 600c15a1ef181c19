"""The cost of a claim with a short queue and with a very long one.

1,000 or 1,000,000 jobs are spread over 1,000 lanes by `jobs.enqueue`, then ANALYZEd. A claim is for 16 jobs. It is
timed twice on the client: in a transaction that is rolled back, so that each claim sees the same queue; and with its
commit, while another connection finishes the claimed jobs and adds as many, so that the queue keeps its length. Last,
every lane is at its cap and has more jobs: the cost of a claim that finds nothing.

The commit of a claim that records no outcome does not wait for the disk: `job_complete_and_claim` turns
synchronous_commit off, because losing an uncommitted claim in a crash does no harm. "With its commit" is therefore not the cost of a
durable commit.
"""

import statistics
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from bench.jobs.engine import GristmillEngine, NumberedWork, open_database
from bench.jobs.report import BenchReport, percentile
from bench.jobs.server import BenchServer, backend_cpu
from gristmill import jobs
from gristmill.db import Database, Tx
from gristmill.jobs import Job, NewJob, store

LANES = 1_000
BATCH = 16
CLAIMS = 200
WARM_UP = 20
CHUNK = 20_000
LIMIT = 3.0


@dataclass(frozen=True)
class _ClaimCost:
    waits: list[float]
    cpu: float

    @property
    def median(self) -> float:
        return statistics.median(self.waits)

    def cells(self) -> list[str]:
        return [
            f"{self.median * 1000:.2f}",
            f"{percentile(self.waits, 0.95) * 1000:.2f}",
            f"{self.cpu * 1000:.2f}",
        ]


async def measure_claims(server: BenchServer, report: BenchReport, long_queue: int) -> None:
    """Measure the short queue, the long queue, and full lanes."""
    rows = list[list[str]]()
    rolled_back, committed = dict[int, _ClaimCost](), dict[int, _ClaimCost]()
    for queue_length in (LANES, long_queue):
        async with _fill_queue(server, queue_length) as (db, worker):
            rolled_back[queue_length] = await _measure_rolled_back(db, worker)
            committed[queue_length] = await _measure_committed(db, worker)
        rows.append([f"{queue_length:,} queued, rolled back", *rolled_back[queue_length].cells()])
        rows.append([f"{queue_length:,} queued, with its commit", *committed[queue_length].cells()])
    async with _fill_queue(server, 10 * LANES) as (db, worker):
        rows.append(["every lane at its cap", *(await _measure_saturated(db, worker)).cells()])
    report.add(
        f"A claim of {BATCH} over {LANES:,} lanes",
        f"{CLAIMS} claims each, in milliseconds; a claim that records no outcome commits without waiting for the disk",
        ["case", "median", "p95", "backend CPU"],
        rows,
    )
    for name, costs in (("rolled back", rolled_back), ("with its commit", committed)):
        ratio = costs[long_queue].median / costs[LANES].median
        report.check(
            f"A claim with {long_queue:,} queued takes at most {LIMIT:.0f} × one with {LANES:,} ({name})",
            f"{ratio:.2f} ×",
            ratio <= LIMIT,
        )


@asynccontextmanager
async def _fill_queue(server: BenchServer, queue_length: int) -> AsyncGenerator[tuple[Database, UUID]]:
    engine = GristmillEngine()
    async with server.database(engine.name, engine.install) as url, open_database(url) as db:
        for first in range(0, queue_length, CHUNK):
            await _enqueue(db, [f"lane {n % LANES}" for n in range(first, min(first + CHUNK, queue_length))])
        worker = uuid4()
        async with db.connection() as tx:
            await tx.execute("analyze")
            await tx.execute("checkpoint")
            await store.register_worker(tx, worker, {}, timedelta(hours=1))
        yield db, worker


async def _enqueue(db: Database, lanes: Sequence[str]) -> None:
    async with db.transaction() as tx:
        await jobs.enqueue(tx, *(NewJob(NumberedWork(number), lane) for number, lane in enumerate(lanes)))


async def _claim(tx: Tx, worker: UUID, limit: int, cap: int) -> list[Job]:
    """Run the worker's statement without outcomes: the only place that knows how to claim."""
    return await store.complete_and_claim(
        tx, worker, [], limit=limit, non_interactive_limit=limit, lane_cap=cap, global_cap=None
    )


async def _measure_rolled_back(db: Database, worker: UUID) -> _ClaimCost:
    async with db.connection() as tx:
        timer = _ClaimTimer(tx)
        for _ in range(WARM_UP + CLAIMS):
            async with tx.transaction(force_rollback=True):
                with timer:
                    claimed = await _claim(tx, worker, BATCH, cap=4)
            assert len(claimed) == BATCH
    return timer.cost()


async def _measure_committed(db: Database, worker: UUID) -> _ClaimCost:
    async with db.connection() as tx:
        timer = _ClaimTimer(tx)
        for _ in range(WARM_UP + CLAIMS):
            with timer:
                async with tx.transaction():
                    claimed = await _claim(tx, worker, BATCH, cap=4)
            assert len(claimed) == BATCH
            async with db.transaction() as other:
                for job in claimed:
                    await jobs.complete(other, job)
            await _enqueue(db, [job.lane for job in claimed])
    return timer.cost()


async def _measure_saturated(db: Database, worker: UUID) -> _ClaimCost:
    async with db.connection() as tx:
        running = 0
        while claimed := await _claim(tx, worker, LANES, cap=1):
            running += len(claimed)
        assert running == LANES
        timer = _ClaimTimer(tx)
        for _ in range(WARM_UP + CLAIMS):
            with timer:
                assert not await _claim(tx, worker, BATCH, cap=1)
    return timer.cost()


class _ClaimTimer:
    """Times its block; the first few samples are dropped."""

    def __init__(self, tx: Tx) -> None:
        self._pid = tx.info.backend_pid
        self._samples = list[tuple[float, float]]()
        self._started = (0.0, 0.0)

    def __enter__(self) -> None:
        self._started = (backend_cpu(self._pid), time.perf_counter())

    def __exit__(self, *_: object) -> None:
        finished = time.perf_counter()
        cpu, started = self._started
        self._samples.append((finished - started, backend_cpu(self._pid) - cpu))

    def cost(self) -> _ClaimCost:
        samples = self._samples[WARM_UP:]
        return _ClaimCost([wait for wait, _ in samples], statistics.fmean(cpu for _, cpu in samples))
