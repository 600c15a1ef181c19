"""Jobs enqueued a second, and jobs that one worker process finishes a second, compared with the peers.

Engines run in turn, round by round, each in a fresh database, so that other load affects all of them alike. The 20,000
jobs are in one lane (queue, entrypoint), have a small payload and do nothing, so that only the engine is measured. Client
processor time is that of the worker process; the server's is that of all its processes, with writers and vacuum.
"""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.jobs.agent_client import start_agent
from bench.jobs.engine import JobEngine
from bench.jobs.report import BenchReport, spread
from bench.jobs.server import BenchServer


@dataclass
class _Figures:
    rate: list[float] = field(default_factory=list[float])
    client: list[float] = field(default_factory=list[float])  # µs per job
    server: list[float] = field(default_factory=list[float])


async def measure_enqueue(
    server: BenchServer, report: BenchReport, engines: Sequence[JobEngine], rounds: int, count: int
) -> None:
    """Measure bulk inserts."""
    figures: dict[str, _Figures] = defaultdict(_Figures)
    for _ in range(rounds):
        for engine in engines:
            async with (
                server.database(engine.name, engine.install) as url,
                start_agent(engine.name, url, server.postmaster) as client,
            ):
                await client.request("open")
                # The first call prepares statements and runs lazy imports.
                await client.request("add", lane="a", first=0, count=100)
                timing = await client.request("add", lane="a", first=100, count=count)
                engine_figures = figures[engine.name]
                engine_figures.rate.append(count / (timing["ended"] - timing["began"]))
                engine_figures.client.append(timing["cpu"] / count * 1e6)
    report.add(
        f"Enqueue {count:,} jobs",
        "each engine's best bulk call, one transaction; jobs per second, median (least–most); client CPU",
        ["engine", "jobs/s", "client µs/job"],
        [
            [name, spread(engine_figures.rate), spread(engine_figures.client)]
            for name, engine_figures in figures.items()
        ],
    )
    for peer in ("pgqueuer", "pgqueuer-asyncpg"):
        _check_ratio(report, figures, f"Enqueue {count:,}", peer, 2)


async def measure_drain(
    server: BenchServer, report: BenchReport, engines: Sequence[JobEngine], rounds: int, count: int
) -> None:
    """Measure one worker process with no-op jobs."""
    figures: dict[str, _Figures] = defaultdict(_Figures)
    for _ in range(rounds):
        for engine in engines:
            async with server.database(engine.name, engine.install) as url:
                async with start_agent(engine.name, url, server.postmaster) as client:
                    await client.request("open")
                    await client.request("add", lane="a", first=0, count=count)
                async with start_agent(engine.name, url, server.postmaster) as worker:
                    await worker.request("work", concurrency=engine.concurrency, seconds=0, expect=count)
                    timing = await worker.request("drain")
            engine_figures = figures[engine.name]
            engine_figures.rate.append(count / (timing["ended"] - timing["began"]))
            engine_figures.client.append(timing["client"] / count * 1e6)
            engine_figures.server.append(timing["server"] / count * 1e6)
    at_once = {engine.name: str(engine.concurrency) for engine in engines}
    report.add(
        f"Drain {count:,} no-op jobs with one worker",
        "jobs per second, median (least–most); processor time per job",
        ["engine", "jobs at once", "jobs/s", "client µs/job", "server µs/job"],
        [
            [
                name,
                at_once[name],
                spread(engine_figures.rate),
                spread(engine_figures.client),
                spread(engine_figures.server),
            ]
            for name, engine_figures in figures.items()
        ],
    )
    for peer, times in (("pgqueuer", 1), ("pgqueuer-asyncpg", 1), ("procrastinate", 20)):
        _check_ratio(report, figures, f"Drain {count:,}", peer, times)


def _check_ratio(
    report: BenchReport, figures: dict[str, _Figures], label: str, peer: str, times: int
) -> None:
    if peer not in figures:
        return
    gristmill_rate, peer_rate = (statistics.median(figures[name].rate) for name in ("gristmill", peer))
    report.check(
        f"{label}: at least {times} × {peer}",
        f"{gristmill_rate:,.0f} / {peer_rate:,.0f} = {gristmill_rate / peer_rate:.2f} ×",
        gristmill_rate >= times * peer_rate,
    )
