"""Whether caps hold across worker processes, by the database's own record.

Three worker processes with more slots than the caps allow, eight lanes with many short jobs each, a cap of two a
lane; then the same under a cap of five over all, with two slots each: with eight, one
worker was seen to run all the jobs. A cap that is never reached proves nothing, nor does one worker
that did everything, so these are looked at as well.
"""

import random

from bench.jobs.crew import Terms, crew
from bench.jobs.effects import Effect, Sampler, ask, database, peaks, shares_of_workers, until_finished
from bench.jobs.engine import opened
from bench.jobs.machine import Machine
from bench.jobs.report import Report

LANES, JOBS = 8, 1_200
WORKERS, SLOTS = 3, 8
FEW_SLOTS = 2  # so that it takes all three workers to reach the global cap
LANE_CAP, GLOBAL_CAP = 2, 5


async def caps(machine: Machine, report: Report) -> None:
    """Once with a cap per lane, once with one over all besides."""
    rows = list[list[str]]()
    for cap in (None, GLOBAL_CAP):
        terms = Terms(slots=SLOTS if cap is None else FEW_SLOTS, lane_cap=LANE_CAP, global_cap=cap)
        log = machine.folder / "caps.log"
        async with database(machine) as url, opened(url) as db:
            sampler, dice = Sampler(url), random.Random(3)
            effects = [Effect(number, dice.uniform(0.002, 0.02)) for number in range(JOBS)]
            async with sampler.looking(), crew(url, terms, WORKERS, log):
                # Only now, or the first worker would be through before the last has started.
                await ask(db, ((f"lane {effect.number % LANES}", effect) for effect in effects))
                done = await until_finished(db, patience=120)
            lane, total = await peaks(db)
            shares = await shares_of_workers(db)
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
        report.require(
            f"{WORKERS} workers, cap {LANE_CAP} a lane{'' if cap is None else f' and {cap} in all'}:"
            " never more at once, and all done",
            f"at most {lane} a lane, {total} in all; {done.lost + done.unfinished} of {done.asked:,} not done",
            lane == LANE_CAP
            and (cap is None or total == cap)
            and done.exactly_once
            and len(shares) == WORKERS
            and sampler.samples > 0,
        )
    report.add(
        f"{JOBS:,} short jobs in {LANES} lanes, {WORKERS} worker processes",
        "the most that ran at once, by the effects' spans and by snapshots of the running jobs",
        ["caps", "of a lane", "of all", "snapshots", "jobs of each worker"],
        rows,
    )
