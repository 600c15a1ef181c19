"""Whether concurrency caps hold across worker processes, checked in the database.

Three worker processes with more slots than the caps allow, eight lanes with many short jobs each, and a cap of two per
lane; then the same with a global cap of five, and two slots each: with eight slots, one worker sometimes ran all jobs.
A cap that is never reached proves nothing, nor does a single worker that ran everything, so both are checked as well.
"""

import random

from bench.jobs.effects import (
    Effect,
    Sampler,
    effects_database,
    effects_per_worker,
    enqueue_effects,
    peak_concurrency,
    wait_until_finished,
)
from bench.jobs.engine import open_database
from bench.jobs.report import BenchReport
from bench.jobs.server import BenchServer
from bench.jobs.worker_process import WorkerConfig, start_workers

LANES, JOBS = 8, 1_200
WORKERS, SLOTS = 3, 8
FEW_SLOTS = 2  # so that it takes all three workers to reach the global cap
LANE_CAP, GLOBAL_CAP = 2, 5


async def measure_caps(server: BenchServer, report: BenchReport) -> None:
    """Measure once with a cap per lane, and once with a global cap as well."""
    rows = list[list[str]]()
    for cap in (None, GLOBAL_CAP):
        config = WorkerConfig(slots=SLOTS if cap is None else FEW_SLOTS, lane_cap=LANE_CAP, global_cap=cap)
        log = server.folder / "caps.log"
        async with effects_database(server) as url, open_database(url) as db:
            sampler, rng = Sampler(url), random.Random(3)
            effects = [Effect(number, rng.uniform(0.002, 0.02)) for number in range(JOBS)]
            async with sampler.sampling(), start_workers(url, config, WORKERS, log):
                # Only now, or the first worker would finish before the last has started.
                await enqueue_effects(db, ((f"lane {effect.number % LANES}", effect) for effect in effects))
                counts = await wait_until_finished(db, timeout=120)
            lane, total = await peak_concurrency(db)
            shares = await effects_per_worker(db)
        lane, total = max(lane, sampler.lane_peak), max(total, sampler.peak)
        rows.append(
            [
                "lane" if cap is None else "lane and global",
                str(lane),
                str(total),
                f"{sampler.samples:,}",
                " + ".join(map(str, shares)),
            ]
        )
        report.check(
            f"{WORKERS} workers, cap {LANE_CAP} a lane{'' if cap is None else f' and {cap} in all'}:"
            " never more at once, and all done",
            f"at most {lane} a lane, {total} in all; {counts.lost + counts.unfinished} of {counts.requested:,} not done",
            lane == LANE_CAP
            and (cap is None or total == cap)
            and counts.exactly_once
            and len(shares) == WORKERS
            and sampler.samples > 0,
        )
    report.add(
        f"{JOBS:,} short jobs in {LANES} lanes, {WORKERS} worker processes",
        "the most that ran at once, by the effects' spans and by snapshots of the running jobs",
        ["caps", "of a lane", "of all", "snapshots", "jobs of each worker"],
        rows,
    )
