"""Kill random processes of a working Gristmill, then check that nothing is lost, doubled, stuck or paid twice.

A server and a worker share a data dir with its own PostgreSQL. Notes, uploads, web pages, a folder and two connectors
are added, changed, re-indexed and deleted all the time, while processes are killed (SIGKILL) or frozen for longer than a
lease (SIGSTOP). Then the faults end, and once everything is quiet the index is compared with what it must be. Exits with 1
if anything differs. The same seed plans the same faults and the same actions.
"""

import argparse
import asyncio
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.chaos.checks import find_problems, wait_until_quiet
from bench.chaos.outside import Outside, serve_outside
from bench.chaos.processes import LEASE_SECONDS, ChaosSystem, plan_faults
from bench.chaos.workload import NEVER, ActionFailed, Api, Workload, work_until

_ACTION_PAUSE = (0.05, 0.6)  # seconds
_QUIET_PATIENCE = 600.0
_PROGRESS_PATIENCE = 20.0
_REPORT_EVERY = 25  # faults


@dataclass(frozen=True)
class Options:
    """The arguments of a run."""

    kills: int
    seed: int
    minutes: float | None
    keep: bool


def main() -> None:
    """Run it, and exit with 1 if anything is wrong."""
    options = _parse()
    print(f"seed {options.seed}, {options.kills} faults", flush=True)
    logging.basicConfig(level=logging.ERROR)
    folder = Path(tempfile.mkdtemp(prefix="gristmill-chaos-"))
    folder.chmod(0o755)  # as root, PostgreSQL runs as another user
    with ExitStack() as stack:
        outside = stack.enter_context(serve_outside())
        problems = asyncio.run(_run(options, folder, outside))
    for problem in problems:
        print(problem)
    if problems or options.keep:
        print(f"{len(problems)} problems; logs and data are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
        print("Nothing was lost, doubled, stuck or paid twice.")
    sys.exit(1 if problems else 0)


def _parse() -> Options:
    parser = argparse.ArgumentParser(
        prog="python -m bench.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=1000, help="number of kills and freezes (default: 1000)")
    parser.add_argument("--seed", type=int, help="random by default; printed")
    parser.add_argument("--minutes", type=float, help="stop the faults after so many minutes")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and data")
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    return Options(options.kills, seed, options.minutes, options.keep)


def environment(folder: Path, embedder_url: str) -> dict[str, str]:
    """The environment of the processes."""
    provider = {"url": embedder_url, "model": "counting", "dimensions": 64, "batch_size": 16, "timeout": 10}
    variables = {
        "DATA_DIR": str(folder / "data"),
        "CACHE_DIR": str(folder / "cache"),
        "EMBEDDER": "counting",
        "EMBEDDERS": json.dumps({"counting": provider}),
        "LEASE": str(LEASE_SECONDS),
        "RECONCILE_CRON": NEVER,  # nothing may need repair
        "ALLOW_PRIVATE_ADDRESSES": "true",
        "LOG_LEVEL": "warning",
        "LOG_FORMAT": "json",
    }
    own = {name: value for name, value in os.environ.items() if not name.startswith("GRISTMILL_")}
    return {**own, **{f"GRISTMILL_{name}": value for name, value in variables.items()}}


async def _run(options: Options, folder: Path, outside: Outside) -> list[str]:
    documents = folder / "documents"
    documents.mkdir()
    system = ChaosSystem(environment(folder, outside.embedder_url), folder / "data", folder / "log")
    started = time.monotonic()
    async with httpx.AsyncClient(base_url=system.url, timeout=20, trust_env=False) as http:
        api = Api(http, random.Random(options.seed + 2))
        workload = Workload(api, outside, documents, random.Random(options.seed + 1))
        await system.start()
        try:
            await workload.set_up()
            stop = asyncio.Event()
            working = asyncio.create_task(work_until(workload, stop, _ACTION_PAUSE))
            await _inject_faults(options, system, workload, working)
            stop.set()
            problems = await _finish(workload, working)
            faults = sum(system.faults.values())
            problems += await wait_until_quiet(folder / "data", _QUIET_PATIENCE)
            problems += await find_problems(folder / "data", workload, api, outside.texts, faults)
            problems += await asyncio.to_thread(_run_doctor, system.env)
        finally:
            await system.close()
    problems += [f"exit: {text}" for text in system.exits]
    counts = ", ".join(
        f"{count} × {action} {target}" for (action, target), count in sorted(system.faults.items())
    )
    print(
        f"{faults} faults in {time.monotonic() - started:.0f} s: {counts}; not running: {dict(system.misses)}"
    )
    print(
        f"{workload.actions} actions, {len(workload.documents)} documents left; {outside.texts.total} texts embedded, "
        f"{outside.texts.repeated} of them again ({outside.texts.repeated / max(1, faults):.2f} per fault)"
    )
    return problems


async def _finish(workload: Workload, working: "asyncio.Task[None]") -> list[str]:
    """Let the last action end, and the tools be read a last time; what went wrong in any action."""
    try:
        await working
        async with asyncio.timeout(_QUIET_PATIENCE):
            await workload.finish()
    except (ActionFailed, TimeoutError) as error:
        return [f"refused: {error!r}"]
    return []


async def _inject_faults(
    options: Options, system: ChaosSystem, workload: Workload, working: "asyncio.Task[None]"
) -> None:
    """Inject faults until there were enough, the time is over, or the workload has failed."""
    deadline = time.monotonic() + (options.minutes * 60 if options.minutes else float("inf"))
    faults_injected = actions = 0
    for fault in plan_faults(random.Random(options.seed)):
        latest = time.monotonic() + _PROGRESS_PATIENCE
        while not fault.hurry and workload.actions == actions and time.monotonic() < latest:
            if working.done():
                return
            await asyncio.sleep(0.05)
        await asyncio.wait([working], timeout=fault.pause)
        if faults_injected >= options.kills or time.monotonic() > deadline or working.done():
            return
        if await system.inject(fault):
            faults_injected, actions = faults_injected + 1, workload.actions
            if faults_injected % _REPORT_EVERY == 0:
                print(f"{faults_injected} faults", flush=True)


def _run_doctor(env: dict[str, str]) -> list[str]:
    process = subprocess.run(
        [sys.executable, "-m", "gristmill", "doctor"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return [] if process.returncode == 0 else [f"doctor: {process.stdout}{process.stderr}"]


if __name__ == "__main__":
    main()
