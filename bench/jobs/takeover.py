"""What happens to the jobs of a worker that dies, or that only seems to be dead.

One worker process with a lease of two seconds runs eight jobs of three seconds; a second one is idle. The first is
killed with kill -9, or frozen (SIGSTOP) for longer than its lease and resumed: while the second runs the same jobs, or
after it has finished them. Timed on the database's clock, from just before the signal until the last of the jobs has
started elsewhere. Every job must have its effect exactly once, also where both workers finished it; and the frozen one
must have tried to write its effect, and been refused.
"""

import asyncio
import signal
import statistics
from collections.abc import Sequence

from bench.jobs.effects import Effect, EffectCounts, effects_database, enqueue_effects, wait_until_finished
from bench.jobs.engine import open_database
from bench.jobs.report import BenchReport, spread
from bench.jobs.server import BenchServer
from bench.jobs.worker_process import WorkerConfig, WorkerProcess, start_worker
from gristmill.db import Database

JOBS, SECONDS = 8, 3.0
LEASE = 2.0
LIMIT = LEASE + 2
TIMEOUT = 30.0

KILLED = "kill -9"
RESUMED_WHILE_RUNNING = "frozen, resumed while the other runs the jobs"
RESUMED_AFTER = "frozen, resumed after the other finished them"


async def measure_takeover(server: BenchServer, report: BenchReport, rounds: int) -> None:
    """Measure each case several times."""
    rows = list[list[str]]()
    for case in (KILLED, RESUMED_WHILE_RUNNING, RESUMED_AFTER):
        rounds_taken = [
            await _measure_round(server, case) for _ in range(rounds if case == KILLED else min(rounds, 2))
        ]
        waits, exact_rounds = (
            [wait for wait, _ in rounds_taken],
            sum(counts.exactly_once for _, counts in rounds_taken),
        )
        refused = sum(counts.refused for _, counts in rounds_taken)
        rows.append(
            [
                case,
                str(len(rounds_taken)),
                spread(waits, 2),
                f"{exact_rounds} of {len(rounds_taken)}",
                str(refused),
            ]
        )
        _check_requirements(report, case, waits, [counts for _, counts in rounds_taken])
    report.add(
        f"{JOBS} jobs of {SECONDS:.0f} s whose worker is lost, lease {LEASE:.0f} s",
        "seconds from the signal until the last job runs elsewhere, median (least–most)",
        ["case", "rounds", "s", "each effect exactly once", "writes refused"],
        rows,
    )


def _check_requirements(
    report: BenchReport, case: str, waits: Sequence[float], records: Sequence[EffectCounts]
) -> None:
    if case == KILLED:
        report.check(
            f"After kill -9 the jobs run elsewhere within the lease + 2 s = {LIMIT:.0f} s",
            f"at most {max(waits):.2f} s, median {statistics.median(waits):.2f} s",
            max(waits) <= LIMIT,
        )
    lost, duplicated = sum(r.lost + r.unfinished for r in records), sum(r.duplicated for r in records)
    refused = sum(r.refused for r in records)
    # A zombie that never tried to write proves nothing.
    was_tried = case == KILLED or refused > 0
    report.check(
        f"Each effect exactly once: {case}",
        f"{lost} lost, {duplicated} twice of {sum(r.requested for r in records)}, {refused} writes refused",
        all(r.exactly_once for r in records) and was_tried,
    )


async def _measure_round(server: BenchServer, case: str) -> tuple[float, EffectCounts]:
    config, log = WorkerConfig(slots=JOBS, lane_cap=JOBS, lease=LEASE), server.folder / "takeover.log"
    async with effects_database(server) as url, open_database(url) as db:
        await enqueue_effects(db, (("a", Effect(number, SECONDS)) for number in range(JOBS)))
        first = await start_worker(url, config, log)
        await _wait_until_all_started(db, first)
        second = await start_worker(url, config, log)
        try:
            signalled_at = await _database_time(db)
            first.signal(signal.SIGKILL if case == KILLED else signal.SIGSTOP)
            await _wait_until_all_started(db, second)
            if case == RESUMED_WHILE_RUNNING:
                first.signal(signal.SIGCONT)
            await wait_until_finished(db, TIMEOUT)
            first.signal(signal.SIGCONT)
            # Time for a late write of the resumed worker.
            await asyncio.sleep(1)
            counts = await wait_until_finished(db, TIMEOUT)
            return await _last_start_time(db, second) - signalled_at, counts
        finally:
            await asyncio.gather(first.end(), second.end())


async def _database_time(db: Database) -> float:
    async with db.connection() as tx:
        row = await (await tx.execute("select extract(epoch from clock_timestamp())::float8")).fetchone()
    assert row is not None
    return row[0]


async def _wait_until_all_started(db: Database, worker: WorkerProcess) -> None:
    async with asyncio.timeout(TIMEOUT), db.connection() as tx:
        while True:
            cursor = await tx.execute(
                "select count(distinct number)::int from begun where pid = %s", [worker.pid]
            )
            row = await cursor.fetchone()
            assert row is not None
            if row[0] == JOBS:
                return
            await asyncio.sleep(0.01)


async def _last_start_time(db: Database, worker: WorkerProcess) -> float:
    async with db.connection() as tx:
        cursor = await tx.execute(
            "select extract(epoch from max(at))::float8 from"
            " (select min(at) as at from begun where pid = %s group by number) firsts",
            [worker.pid],
        )
        row = await cursor.fetchone()
    assert row is not None
    return row[0]
