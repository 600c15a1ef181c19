"""What happens to the jobs of a worker that dies, and to one that only seemed to.

One worker process with a lease of two seconds runs eight jobs of three seconds; a second one idles. The first is
killed with -9, or frozen (SIGSTOP) for longer than its lease and let go again: while the second runs the same
jobs, or after it has finished them. Timed on the database's clock from just before the signal until the last of
the jobs has started elsewhere. Every job must have its effect exactly once, also where both workers came to
the end of it; and the frozen one must have tried to write its own, and been refused.
"""

import asyncio
import signal
import statistics
from collections.abc import Sequence

from bench.jobs.crew import Member, Terms, hire
from bench.jobs.effects import Effect, Record, ask, database, until_finished
from bench.jobs.engine import opened
from bench.jobs.machine import Machine
from bench.jobs.report import Report, spread
from gristmill.db import Database

JOBS, SECONDS = 8, 3.0
LEASE = 2.0
LIMIT = LEASE + 2
PATIENCE = 30.0

KILLED = "kill -9"
RESUMED = "frozen, let go while the other runs the jobs"
LATE = "frozen, let go after the other finished them"


async def takeover(machine: Machine, report: Report, rounds: int) -> None:
    """Each case, again and again."""
    rows = list[list[str]]()
    for case in (KILLED, RESUMED, LATE):
        taken = [await _round(machine, case) for _ in range(rounds if case == KILLED else min(rounds, 2))]
        waits, once = [wait for wait, _ in taken], sum(done.exactly_once for _, done in taken)
        refused = sum(done.refused for _, done in taken)
        rows.append([case, str(len(taken)), spread(waits, 2), f"{once} of {len(taken)}", str(refused)])
        _judge(report, case, waits, [done for _, done in taken])
    report.add(
        f"{JOBS} jobs of {SECONDS:.0f} s whose worker is lost, lease {LEASE:.0f} s",
        "seconds from the signal until the last job runs elsewhere, median (least–most)",
        ["case", "rounds", "s", "each effect exactly once", "writes refused"],
        rows,
    )


def _judge(report: Report, case: str, waits: Sequence[float], records: Sequence[Record]) -> None:
    if case == KILLED:
        report.require(
            f"After kill -9 the jobs run elsewhere within the lease + 2 s = {LIMIT:.0f} s",
            f"at most {max(waits):.2f} s, median {statistics.median(waits):.2f} s",
            max(waits) <= LIMIT,
        )
    lost, doubled = sum(r.lost + r.unfinished for r in records), sum(r.doubled for r in records)
    refused = sum(r.refused for r in records)
    # A zombie that never tried to write proves nothing.
    tried = case == KILLED or refused > 0
    report.require(
        f"Each effect exactly once: {case}",
        f"{lost} lost, {doubled} twice of {sum(r.asked for r in records)}, {refused} writes refused",
        all(r.exactly_once for r in records) and tried,
    )


async def _round(machine: Machine, case: str) -> tuple[float, Record]:
    terms, log = Terms(slots=JOBS, lane_cap=JOBS, lease=LEASE), machine.folder / "takeover.log"
    async with database(machine) as url, opened(url) as db:
        await ask(db, (("a", Effect(number, SECONDS)) for number in range(JOBS)))
        first = await hire(url, terms, log)
        await _all_begun(db, first)
        second = await hire(url, terms, log)
        try:
            signalled = await _now(db)
            first.signal(signal.SIGKILL if case == KILLED else signal.SIGSTOP)
            await _all_begun(db, second)
            if case == RESUMED:
                first.signal(signal.SIGCONT)
            await until_finished(db, PATIENCE)
            first.signal(signal.SIGCONT)
            # Time for one that comes too late to do its worst.
            await asyncio.sleep(1)
            done = await until_finished(db, PATIENCE)
            return await _last_start(db, second) - signalled, done
        finally:
            await asyncio.gather(first.end(), second.end())


async def _now(db: Database) -> float:
    async with db.connection() as tx:
        row = await (await tx.execute("select extract(epoch from clock_timestamp())::float8")).fetchone()
    assert row is not None
    return row[0]


async def _all_begun(db: Database, member: Member) -> None:
    async with asyncio.timeout(PATIENCE), db.connection() as tx:
        while True:
            cursor = await tx.execute(
                "select count(distinct number)::int from begun where pid = %s", [member.pid]
            )
            row = await cursor.fetchone()
            assert row is not None
            if row[0] == JOBS:
                return
            await asyncio.sleep(0.01)


async def _last_start(db: Database, member: Member) -> float:
    async with db.connection() as tx:
        cursor = await tx.execute(
            "select extract(epoch from max(at))::float8 from"
            " (select min(at) as at from begun where pid = %s group by number) firsts",
            [member.pid],
        )
        row = await cursor.fetchone()
    assert row is not None
    return row[0]
