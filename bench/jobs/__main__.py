"""`python -m bench.jobs`: run all measurements, print the figures, and exit with 1 when a requirement does not hold."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from bench.jobs import peers
from bench.jobs.caps import measure_caps
from bench.jobs.chaos import measure_chaos
from bench.jobs.claims import measure_claims
from bench.jobs.engine import GristmillEngine, JobEngine
from bench.jobs.fairness import measure_fairness
from bench.jobs.pickup import measure_pickup
from bench.jobs.report import BenchReport
from bench.jobs.server import BenchServer
from bench.jobs.takeover import measure_takeover
from bench.jobs.throughput import measure_drain, measure_enqueue

Measurement = Callable[[BenchServer, BenchReport], Awaitable[None]]


def main() -> None:
    """Parse the arguments, and run the measurements."""
    options = _parser().parse_args()
    measurements = _measurements(options)
    chosen = list(measurements) if options.only is None else str(options.only).split(",")
    if unknown := set(chosen) - set(measurements):
        sys.exit(f"No such measurement: {', '.join(sorted(unknown))}. There are: {', '.join(measurements)}.")
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # chaos stops the server on purpose
    report = asyncio.run(_run({name: measurements[name] for name in chosen}))
    print(report.markdown() if options.markdown else report.text())
    sys.exit(0 if report.holds else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs", description=__doc__)
    parser.add_argument("--only", help="measurements, separated by commas; the default is all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=20_000, help="number of jobs to enqueue and drain")
    parser.add_argument("--queued", type=int, default=1_000_000, help="length of the long queue for claims")
    parser.add_argument("--seconds", type=float, default=60, help="duration of chaos")
    parser.add_argument("--seed", type=int, help="for chaos; random by default")
    parser.add_argument("--peers", default="pgqueuer,pgqueuer-asyncpg,procrastinate,dbos", help="'' for none")
    parser.add_argument("--markdown", action="store_true", help="for docs/benchmarks.md")
    return parser


def _measurements(options: argparse.Namespace) -> dict[str, Measurement]:
    engines = _engines([name for name in str(options.peers).split(",") if name])
    rounds, jobs = int(options.rounds), int(options.jobs)
    return {
        "enqueue": partial(measure_enqueue, engines=engines, rounds=rounds, count=jobs),
        "drain": partial(measure_drain, engines=engines, rounds=rounds, count=jobs),
        "fairness": partial(measure_fairness, engines=engines, rounds=rounds),
        "pickup": partial(measure_pickup, engines=engines, rounds=rounds),
        "claim": partial(measure_claims, long_queue=int(options.queued)),
        "caps": measure_caps,
        "takeover": partial(measure_takeover, rounds=rounds),
        "chaos": partial(measure_chaos, seconds=float(options.seconds), seed=options.seed),
    }


def _engines(names: Sequence[str]) -> list[JobEngine]:
    engines: list[JobEngine] = [GristmillEngine()]
    for name in names:
        if peers.is_installed(name):
            engines.append(peers.engine_by_name(name))
        else:
            print(f"{name} is not installed, and is skipped: uv run --group bench …", file=sys.stderr)
    return engines


async def _run(measurements: dict[str, Measurement]) -> BenchReport:
    server = await asyncio.to_thread(BenchServer)
    try:
        report = BenchReport(await server.describe())
        for name, measurement in measurements.items():
            print(f"… {name}", file=sys.stderr)
            before = len(report.tables)
            await measurement(server, report)
            # Printed now, and again at the end: an interrupted long run keeps its results.
            for table in report.tables[before:]:
                print(table.text(), file=sys.stderr)
        return report
    finally:
        await asyncio.to_thread(server.close)


if __name__ == "__main__":
    main()
