"""Whether a small lane waits behind a bulk import in another.

5,000 jobs of 5 ms are in lane A, and one worker runs eight of them at a time; then 10 jobs are added to lane B. B's time
is from the call that adds its jobs until the last of them is done, A's from the start of its first job until the end of
its last. No engine has a cap on A, so that A may use the whole worker while it is alone. An engine that takes more than a
minute is shown as such, and skipped in later rounds.

Lanes are what each engine offers for the purpose. For DBOS that is a queue each, with eight slots of its own: there, B
does not share A's slots, as it does with the others.
"""

import asyncio
import statistics
from collections import defaultdict
from collections.abc import Sequence

from bench.jobs.agent_client import start_agent
from bench.jobs.engine import JobEngine
from bench.jobs.report import BenchReport, spread
from bench.jobs.server import BenchServer

MANY, FEW = 5_000, 10
SECONDS = 0.005
AT_ONCE = 8
ROUND_TIMEOUT = 60
LIMIT = 0.03


async def measure_fairness(
    server: BenchServer, report: BenchReport, engines: Sequence[JobEngine], rounds: int
) -> None:
    """Measure all engines, in turn."""
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    timed_out = set[str]()
    for _ in range(rounds):
        for engine in engines:
            if engine.name in timed_out:
                continue
            try:
                async with asyncio.timeout(ROUND_TIMEOUT):
                    times[engine.name].append(await _measure_round(server, engine))
            except TimeoutError:
                timed_out.add(engine.name)
    rows = [[engine.name, *_cells(times[engine.name])] for engine in engines]
    report.add(
        f"{MANY:,} jobs of 5 ms in lane A, then {FEW} in lane B",
        f"one worker, {AT_ONCE} jobs at once; median (least–most)",
        ["engine", "B done, s", "A done, s", "B / A, %"],
        rows,
    )
    share = statistics.median(b / a for b, a in times["gristmill"])
    report.check(f"B done within {LIMIT:.0%} of the time A takes", f"{share:.1%}", share <= LIMIT)


def _cells(samples: Sequence[tuple[float, float]]) -> list[str]:
    if not samples:
        return [f"> {ROUND_TIMEOUT}", f"> {ROUND_TIMEOUT}", "–"]
    return [
        spread([b for b, _ in samples], 3),
        spread([a for _, a in samples], 2),
        spread([b / a * 100 for b, a in samples], 1),
    ]


async def _measure_round(server: BenchServer, engine: JobEngine) -> tuple[float, float]:
    async with (
        server.database(engine.name, engine.install) as url,
        start_agent(engine.name, url, server.postmaster) as client,
        start_agent(engine.name, url, server.postmaster) as worker,
    ):
        await client.request("open")
        await client.request("add", lane="a", first=0, count=MANY)
        await worker.request("work", concurrency=AT_ONCE, seconds=SECONDS, expect=MANY + FEW)
        while True:
            ran = await worker.request("ran")
            if ran["count"] >= 100:
                break
            await asyncio.sleep(0.02)
        call = await client.request("add", lane="b", first=0, count=FEW)
        await worker.request("drain")
        marks = (await worker.request("marks"))["marks"]
    ends = {lane: max(mark[3] for mark in marks if mark[0] == lane) for lane in ("a", "b")}
    return ends["b"] - call["began"], ends["a"] - min(mark[2] for mark in marks)
