"""Everything at once: workers killed and frozen, connections cut, the server stopped and crashed, under load.

Four worker processes work off what is being added all the while; every effect is written in its job's completing
transaction. Faults come by chance, from a seed that is told:

    kill       kill -9 of a worker process; another takes its place
    freeze     SIGSTOP, for up to twice the lease, so that it wakes as a zombie
    cut        pg_terminate_backend of some sessions
    restart    the server is stopped and started again         at 1/4 and 3/4 of the time
    crash      kill -9 of one backend: PostgreSQL ends them all and recovers      at 1/2

Then the faults end, and within two minutes every job that was asked for must have had its effect, exactly once.
"""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import psycopg

from bench.jobs.crew import Member, Terms, crew, hire
from bench.jobs.effects import Effect, Sampler, ask, database, peaks, until_finished
from bench.jobs.engine import opened
from bench.jobs.machine import Machine
from bench.jobs.report import Report
from gristmill.db import Database, Unavailable

WORKERS, LANES = 4, 12
TERMS = Terms(slots=4, lane_cap=2, global_cap=10, lease=2.0)
PATIENCE = 120.0


async def chaos(machine: Machine, report: Report, seconds: float, seed: int | None) -> None:
    """`seconds` of faults, then the reckoning."""
    seed = random.randrange(10**6) if seed is None else seed
    log = machine.folder / "chaos.log"
    async with database(machine) as url, opened(url) as db:
        sampler = Sampler(url)
        async with crew(url, TERMS, WORKERS, log) as members, sampler.looking():
            trouble = _Trouble(machine, url, members, random.Random(seed), log)
            ended = time.monotonic() + seconds
            feeding = asyncio.create_task(_feed(db, random.Random(seed + 1), ended))
            await trouble.make(seconds)
            await feeding
            began = time.monotonic()
            done = await until_finished(db, PATIENCE)
            settled = time.monotonic() - began
            alone = sum(member.exit_code is not None for member in members)
        lane, total = await peaks(db)
    lane, total = max(lane, sampler.lane_peak), max(total, sampler.peak)
    counts = trouble.counts
    report.add(
        f"Chaos for {seconds:.0f} s, seed {seed}",
        ", ".join(f"{count} × {fault}" for fault, count in sorted(counts.items())),
        [
            "jobs",
            "starts",
            "refused",
            "lost",
            "twice",
            "dead",
            "stuck",
            "lane peak",
            "global peak",
            "snapshots",
            "log lines",
            "settled in",
        ],
        [
            [
                *(
                    f"{value:,}"
                    for value in (
                        done.asked,
                        done.starts,
                        done.refused,
                        done.lost,
                        done.doubled + done.unasked,
                    )
                ),
                *(f"{value:,}" for value in (done.dead, done.unfinished, lane, total, sampler.samples)),
                f"{len(log.read_text().splitlines()):,}",
                f"{settled:.1f} s",
            ]
        ],
    )
    report.require(
        "Chaos: each effect exactly once, nothing lost, nothing stuck",
        f"{done.asked:,} jobs, {done.lost} lost, {done.doubled} twice, {done.dead} dead, {done.unfinished} stuck",
        done.exactly_once,
    )
    report.require(
        "Chaos: no cap violated",
        f"at most {lane} a lane of {TERMS.lane_cap}, {total} in all of {TERMS.global_cap}",
        lane <= TERMS.lane_cap and total <= (TERMS.global_cap or 0),
    )
    report.require(
        "Chaos: no worker process ends by itself",
        f"{alone + trouble.fallen} did",
        alone + trouble.fallen == 0,
    )


async def _feed(db: Database, dice: random.Random, until: float) -> None:
    """Add jobs until the time is over, a little less than can be done after a start that is ahead of it.

    What fails is not tried again: only what committed was asked for.
    """
    number = 0
    while time.monotonic() < until:
        batch = [
            (f"lane {dice.randrange(LANES)}", Effect(number + n, dice.uniform(0, 0.15)))
            for n in range(1_000 if number == 0 else dice.randint(5, 35))
        ]
        number += len(batch)
        with contextlib.suppress(Unavailable):
            await ask(db, batch)
        await asyncio.sleep(0.2)


class _Trouble:
    """Makes the faults, and puts right what does not come right by itself."""

    def __init__(
        self, machine: Machine, url: str, members: list[Member], dice: random.Random, log: Path
    ) -> None:
        self._machine, self._url, self._members, self._dice, self._log = machine, url, members, dice, log
        self._thaws = set[asyncio.Task[None]]()
        self.counts = Counter[str]()
        self.fallen = 0

    async def make(self, seconds: float) -> None:
        """Faults for `seconds`; at the end every worker process is there and awake."""
        began = time.monotonic()
        planned = [(seconds / 4, "restart"), (seconds / 2, "crash"), (seconds * 3 / 4, "restart")]
        while (passed := time.monotonic() - began) < seconds:
            if planned and passed >= planned[0][0]:
                fault = planned.pop(0)[1]
            else:
                fault = self._dice.choices(("kill", "freeze", "cut"), (2, 2, 1))[0]
            self.counts[fault] += 1
            await {
                "kill": self._kill,
                "freeze": self._freeze,
                "cut": self._cut,
                "restart": self._restart,
                "crash": self._crash,
            }[fault]()
            await self._replace_fallen()
            await asyncio.sleep(self._dice.uniform(0.2, 1.2))
        await asyncio.gather(*self._thaws)

    async def _kill(self) -> None:
        place = self._dice.randrange(len(self._members))
        await self._members[place].kill()
        self._members[place] = await hire(self._url, TERMS, self._log)

    async def _freeze(self) -> None:
        member, seconds = self._dice.choice(self._members), self._dice.uniform(0.2, 2 * TERMS.lease)
        member.signal(signal.SIGSTOP)

        async def thaw() -> None:
            await asyncio.sleep(seconds)
            member.signal(signal.SIGCONT)

        task = asyncio.create_task(thaw())
        self._thaws.add(task)
        task.add_done_callback(self._thaws.discard)

    async def _cut(self) -> None:
        with contextlib.suppress(psycopg.Error):
            async with await self._machine.admin() as admin:
                await admin.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where backend_type = 'client backend' and pid <> pg_backend_pid() and random() < 0.3"
                )

    async def _restart(self) -> None:
        await asyncio.to_thread(self._machine.stop_server)
        await asyncio.sleep(self._dice.uniform(0, 2))
        await asyncio.to_thread(self._machine.start_server)

    async def _crash(self) -> None:
        async with await self._machine.admin() as admin:
            row = await (
                await admin.execute(
                    "select pid from pg_stat_activity where backend_type = 'client backend'"
                    " and pid <> pg_backend_pid() limit 1"
                )
            ).fetchone()
        if row is not None:
            os.kill(row[0], signal.SIGKILL)
        await self._machine.until_it_answers()

    async def _replace_fallen(self) -> None:
        for place, member in enumerate(self._members):
            if member.exit_code is not None:
                self.fallen += 1
                self._members[place] = await hire(self._url, TERMS, self._log)
