"""What a claim costs, when little is queued and when very much is.

Jobs are spread over 1,000 lanes, 1,000 of them (one each) or 1,000,000, put there by `jobs.enqueue`, then
ANALYZEd. A claim is for 16 jobs. It is timed twice, on the client: alone, in a transaction that is rolled back,
so that each sees the same queue; and with its commit, while another connection finishes what was claimed and
adds as much again, so that the queue stays as long as it was. Last, every lane is filled to its cap and has more
to do: what a claim costs that finds nothing.

The commit of a claim that settles nothing is no fsync: `job_cycle` turns synchronous_commit off for it, because a
claim that a crash forgets was never made. "With its commit" is therefore not what a durable commit costs.
"""

import statistics
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from bench.jobs.engine import Gristmill, Numbered, opened
from bench.jobs.machine import Machine, backend_cpu
from bench.jobs.report import Report, percentile
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
class _Cost:
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


async def claiming(machine: Machine, report: Report, many: int) -> None:
    """The short queue, the long one, and the full lanes."""
    rows = list[list[str]]()
    alone, kept = dict[int, _Cost](), dict[int, _Cost]()
    for queued in (LANES, many):
        async with _queue(machine, queued) as (db, worker):
            alone[queued] = await _rolled_back(db, worker)
            kept[queued] = await _committed(db, worker)
        rows.append([f"{queued:,} queued, rolled back", *alone[queued].cells()])
        rows.append([f"{queued:,} queued, with its commit", *kept[queued].cells()])
    async with _queue(machine, 10 * LANES) as (db, worker):
        rows.append(["every lane at its cap", *(await _saturated(db, worker)).cells()])
    report.add(
        f"A claim of {BATCH} over {LANES:,} lanes",
        f"{CLAIMS} claims each, in milliseconds; a claim that settles nothing commits without waiting for the disk",
        ["case", "median", "p95", "backend CPU"],
        rows,
    )
    for name, costs in (("rolled back", alone), ("with its commit", kept)):
        ratio = costs[many].median / costs[LANES].median
        report.require(
            f"A claim with {many:,} queued takes at most {LIMIT:.0f} × one with {LANES:,} ({name})",
            f"{ratio:.2f} ×",
            ratio <= LIMIT,
        )


@asynccontextmanager
async def _queue(machine: Machine, queued: int) -> AsyncGenerator[tuple[Database, UUID]]:
    engine = Gristmill()
    async with machine.database(engine.name, engine.install) as url, opened(url) as db:
        for first in range(0, queued, CHUNK):
            await _add(db, [f"lane {n % LANES}" for n in range(first, min(first + CHUNK, queued))])
        worker = uuid4()
        async with db.connection() as tx:
            await tx.execute("analyze")
            await tx.execute("checkpoint")
            await store.enrol(tx, worker, {}, timedelta(hours=1))
        yield db, worker


async def _add(db: Database, lanes: Sequence[str]) -> None:
    async with db.transaction() as tx:
        await jobs.enqueue(tx, *(NewJob(Numbered(number), lane) for number, lane in enumerate(lanes)))


async def _claim(tx: Tx, worker: UUID, limit: int, cap: int) -> list[Job]:
    """The worker's statement, with nothing to settle: the one place that knows how a claim is made."""
    return await store.cycle(tx, worker, [], limit=limit, general=limit, lane_cap=cap, global_cap=None)


async def _rolled_back(db: Database, worker: UUID) -> _Cost:
    async with db.connection() as tx:
        meter = _Meter(tx)
        for _ in range(WARM_UP + CLAIMS):
            async with tx.transaction(force_rollback=True):
                with meter:
                    claimed = await _claim(tx, worker, BATCH, cap=4)
            assert len(claimed) == BATCH
    return meter.cost()


async def _committed(db: Database, worker: UUID) -> _Cost:
    async with db.connection() as tx:
        meter = _Meter(tx)
        for _ in range(WARM_UP + CLAIMS):
            with meter:
                async with tx.transaction():
                    claimed = await _claim(tx, worker, BATCH, cap=4)
            assert len(claimed) == BATCH
            async with db.transaction() as other:
                for job in claimed:
                    await jobs.complete(other, job)
            await _add(db, [job.lane for job in claimed])
    return meter.cost()


async def _saturated(db: Database, worker: UUID) -> _Cost:
    async with db.connection() as tx:
        running = 0
        while claimed := await _claim(tx, worker, LANES, cap=1):
            running += len(claimed)
        assert running == LANES
        meter = _Meter(tx)
        for _ in range(WARM_UP + CLAIMS):
            with meter:
                assert not await _claim(tx, worker, BATCH, cap=1)
    return meter.cost()


class _Meter:
    """Times what is done inside it; the first few times are forgotten."""

    def __init__(self, tx: Tx) -> None:
        self._pid = tx.info.backend_pid
        self._taken = list[tuple[float, float]]()
        self._began = (0.0, 0.0)

    def __enter__(self) -> None:
        self._began = (backend_cpu(self._pid), time.perf_counter())

    def __exit__(self, *_: object) -> None:
        ended = time.perf_counter()
        cpu, began = self._began
        self._taken.append((ended - began, backend_cpu(self._pid) - cpu))

    def cost(self) -> _Cost:
        taken = self._taken[WARM_UP:]
        return _Cost([wait for wait, _ in taken], statistics.fmean(cpu for _, cpu in taken))
