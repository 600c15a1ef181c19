"""How many jobs a second go in, and how many one worker process gets done, beside the peers.

Engines take turns, round by round, each in a fresh database: what else the machine does hits all of them. The
20,000 jobs are in one lane (queue, entrypoint), carry a small payload and do nothing, so that only the engine
is measured. Client processor time is the worker process's own; the server's is that of all its processes,
writers and vacuum included.
"""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.jobs.engine import Engine
from bench.jobs.machine import Machine
from bench.jobs.remote import agent
from bench.jobs.report import Report, spread


@dataclass
class _Figures:
    rate: list[float] = field(default_factory=list[float])
    client: list[float] = field(default_factory=list[float])  # µs per job
    server: list[float] = field(default_factory=list[float])


async def enqueue(
    machine: Machine, report: Report, engines: Sequence[Engine], rounds: int, count: int
) -> None:
    """Bulk insert."""
    figures: dict[str, _Figures] = defaultdict(_Figures)
    for _ in range(rounds):
        for engine in engines:
            async with (
                machine.database(engine.name, engine.install) as url,
                agent(engine.name, url, machine.postmaster) as client,
            ):
                await client.ask("open")
                # The first call prepares statements and imports what is imported late.
                await client.ask("add", lane="a", first=0, count=100)
                took = await client.ask("add", lane="a", first=100, count=count)
                here = figures[engine.name]
                here.rate.append(count / (took["ended"] - took["began"]))
                here.client.append(took["cpu"] / count * 1e6)
    report.add(
        f"Enqueue {count:,} jobs",
        "each engine's best bulk call, one transaction; jobs per second, median (least–most); client CPU",
        ["engine", "jobs/s", "client µs/job"],
        [[name, spread(here.rate), spread(here.client)] for name, here in figures.items()],
    )
    for peer in ("pgqueuer", "pgqueuer-asyncpg"):
        _at_least(report, figures, f"Enqueue {count:,}", peer, 2)


async def drain(machine: Machine, report: Report, engines: Sequence[Engine], rounds: int, count: int) -> None:
    """One worker process, no-op jobs."""
    figures: dict[str, _Figures] = defaultdict(_Figures)
    for _ in range(rounds):
        for engine in engines:
            async with machine.database(engine.name, engine.install) as url:
                async with agent(engine.name, url, machine.postmaster) as client:
                    await client.ask("open")
                    await client.ask("add", lane="a", first=0, count=count)
                async with agent(engine.name, url, machine.postmaster) as worker:
                    await worker.ask("work", concurrency=engine.concurrency, seconds=0, expect=count)
                    took = await worker.ask("settle")
            here = figures[engine.name]
            here.rate.append(count / (took["ended"] - took["began"]))
            here.client.append(took["client"] / count * 1e6)
            here.server.append(took["server"] / count * 1e6)
    at_once = {engine.name: str(engine.concurrency) for engine in engines}
    report.add(
        f"Drain {count:,} no-op jobs with one worker",
        "jobs per second, median (least–most); processor time per job",
        ["engine", "jobs at once", "jobs/s", "client µs/job", "server µs/job"],
        [
            [name, at_once[name], spread(here.rate), spread(here.client), spread(here.server)]
            for name, here in figures.items()
        ],
    )
    for peer, times in (("pgqueuer", 1), ("pgqueuer-asyncpg", 1), ("procrastinate", 20)):
        _at_least(report, figures, f"Drain {count:,}", peer, times)


def _at_least(report: Report, figures: dict[str, _Figures], what: str, peer: str, times: int) -> None:
    if peer not in figures:
        return
    ours, theirs = (statistics.median(figures[name].rate) for name in ("gristmill", peer))
    report.require(
        f"{what}: at least {times} × {peer}",
        f"{ours:,.0f} / {theirs:,.0f} = {ours / theirs:.2f} ×",
        ours >= times * theirs,
    )
