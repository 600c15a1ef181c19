"""How fast an idle worker starts a job.

One process adds a job with the engine's call for one job, another runs the worker. Jobs are 100 to 150 ms apart, at
random, so that the worker has finished the previous one and does not fall into step. "From commit" counts from the return
of the call, and may be negative: the worker is sometimes faster than the response to the client. An idle worker of ours
claims without waiting for the disk (see claims.py), by design; the peers' claims are as they ship.
"""

import asyncio
import random
import statistics
from collections import defaultdict
from collections.abc import Sequence

from bench.jobs.agent_client import start_agent
from bench.jobs.engine import JobEngine
from bench.jobs.report import BenchReport, percentile
from bench.jobs.server import BenchServer

JOBS = 200
WARM_UP = 5
LIMIT = 0.020


async def measure_pickup(
    server: BenchServer, report: BenchReport, engines: Sequence[JobEngine], rounds: int
) -> None:
    """Measure all engines, in turn; the 200 jobs are spread over the rounds."""
    waits: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(rounds):
        for engine in engines:
            waits[engine.name] += await _measure_round(server, engine, -(-JOBS // rounds))
    rows = [
        [name, *_figures([call for call, _ in w]), *_figures([commit for _, commit in w])]
        for name, w in waits.items()
    ]
    report.add(
        "An idle worker picks a job up",
        f"{JOBS} jobs, one at a time; milliseconds until its handler starts",
        ["engine", "from call, median", "p95", "from commit, median", "p95"],
        rows,
    )
    median = statistics.median(call for call, _ in waits["gristmill"])
    report.check(
        f"Idle pickup under {LIMIT * 1000:.0f} ms, from the call", f"{median * 1000:.1f} ms", median < LIMIT
    )


async def _measure_round(server: BenchServer, engine: JobEngine, jobs: int) -> list[tuple[float, float]]:
    jobs += WARM_UP
    async with (
        server.database(engine.name, engine.install) as url,
        start_agent(engine.name, url, server.postmaster) as client,
        start_agent(engine.name, url, server.postmaster) as worker,
    ):
        await client.request("open")
        await worker.request("work", concurrency=engine.concurrency, seconds=0, expect=jobs)
        await asyncio.sleep(2)  # past the start-up of the engine
        calls = list[dict[str, float]]()
        for number in range(jobs):
            await asyncio.sleep(random.uniform(0.10, 0.15))
            calls.append(await client.request("add", lane="a", first=number, count=1))
        await worker.request("drain")
        marks = (await worker.request("marks"))["marks"]
    started = {mark[1]: mark[2] for mark in marks}
    return [
        (started[number] - call["began"], started[number] - call["ended"])
        for number, call in enumerate(calls)
        if number >= WARM_UP
    ]


def _figures(waits: Sequence[float]) -> list[str]:
    return [f"{statistics.median(waits) * 1000:.1f}", f"{percentile(waits, 0.95) * 1000:.1f}"]
