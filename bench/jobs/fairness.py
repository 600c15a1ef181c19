"""Whether a small lane waits behind somebody's bulk import.

5,000 jobs of 5 ms are in lane A, and one worker is at them, eight at a time; then 10 come into lane B. B's time
is from the call that adds its jobs until the last of them is done, A's from the start of its first job until the
end of its last. No engine is given a cap on A, so that A may use the whole worker while it is alone. Who is not
through in a minute is shown as that, and left out of the rounds that follow.

Lanes are what each engine has for the purpose. Of DBOS that is a queue each, which has eight places of its own: B
does not share A's there, as it does with the others.
"""

import asyncio
import statistics
from collections import defaultdict
from collections.abc import Sequence

from bench.jobs.engine import Engine
from bench.jobs.machine import Machine
from bench.jobs.remote import agent
from bench.jobs.report import Report, spread

MANY, FEW = 5_000, 10
SECONDS = 0.005
AT_ONCE = 8
PATIENCE = 60
LIMIT = 0.03


async def fairness(machine: Machine, report: Report, engines: Sequence[Engine], rounds: int) -> None:
    """Engines take turns."""
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    late = set[str]()
    for _ in range(rounds):
        for engine in engines:
            if engine.name in late:
                continue
            try:
                async with asyncio.timeout(PATIENCE):
                    times[engine.name].append(await _round(machine, engine))
            except TimeoutError:
                late.add(engine.name)
    rows = [[engine.name, *_cells(times[engine.name])] for engine in engines]
    report.add(
        f"{MANY:,} jobs of 5 ms in lane A, then {FEW} in lane B",
        f"one worker, {AT_ONCE} jobs at once; median (least–most)",
        ["engine", "B done, s", "A done, s", "B / A, %"],
        rows,
    )
    share = statistics.median(b / a for b, a in times["gristmill"])
    report.require(f"B done within {LIMIT:.0%} of the time A takes", f"{share:.1%}", share <= LIMIT)


def _cells(taken: Sequence[tuple[float, float]]) -> list[str]:
    if not taken:
        return [f"> {PATIENCE}", f"> {PATIENCE}", "–"]
    return [
        spread([b for b, _ in taken], 3),
        spread([a for _, a in taken], 2),
        spread([b / a * 100 for b, a in taken], 1),
    ]


async def _round(machine: Machine, engine: Engine) -> tuple[float, float]:
    async with (
        machine.database(engine.name, engine.install) as url,
        agent(engine.name, url, machine.postmaster) as client,
        agent(engine.name, url, machine.postmaster) as worker,
    ):
        await client.ask("open")
        await client.ask("add", lane="a", first=0, count=MANY)
        await worker.ask("work", concurrency=AT_ONCE, seconds=SECONDS, expect=MANY + FEW)
        while True:
            ran = await worker.ask("ran")
            if ran["count"] >= 100:
                break
            await asyncio.sleep(0.02)
        added = await client.ask("add", lane="b", first=0, count=FEW)
        await worker.ask("settle")
        marks = (await worker.ask("marks"))["marks"]
    ends = {lane: max(mark[3] for mark in marks if mark[0] == lane) for lane in ("a", "b")}
    return ends["b"] - added["began"], ends["a"] - min(mark[2] for mark in marks)
