"""The processes of Gristmill, and the faults that hit them.

    supervisor       `gristmill serve`; its processes must end with it         killed; started again at once
    server           the process of it that answers requests                   killed, frozen; its supervisor starts it again
    worker           the process of it that runs jobs, or `gristmill worker`   killed, frozen; started again at once
    reader, offload  the children in which they read, chunk and lex            killed, frozen
    backend          one session of PostgreSQL, which then recovers            killed
    postmaster       PostgreSQL itself; Gristmill must start it again          killed

A freeze (SIGSTOP) lasts longer than a lease, so that a worker wakes up as a zombie.
"""

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Coroutine, Generator
from dataclasses import dataclass, field
from pathlib import Path

from gristmill.db import reaper

LEASE_SECONDS = 2
_FREEZE_SECONDS = (1.2 * LEASE_SECONDS, 2.5 * LEASE_SECONDS)
_PAUSE_SECONDS = (0.1, 2.4)  # between two faults
_HURRY_SHARE = 0.2
# How often each fault is chosen. A reader or offload process exists only while there is something to read.
FAULT_WEIGHTS = {
    ("kill", "supervisor"): 2,
    ("kill", "server"): 3,
    ("kill", "worker"): 6,
    ("kill", "reader"): 5,
    ("kill", "offload"): 2,
    ("kill", "backend"): 3,
    ("kill", "postmaster"): 2,
    ("freeze", "server"): 1,
    ("freeze", "worker"): 3,
    ("freeze", "reader"): 1,
    ("freeze", "offload"): 1,
}
_CHILD_MARKS = {"reader": "gristmill.readers.child", "offload": "gristmill.ingest.offload"}
_PROC = Path("/proc")


@dataclass(frozen=True)
class Fault:
    """What happens to which kind of process, after which pause; `pick` chooses among several such processes.

    Most faults wait until the workload got something done since the last one. Those with `hurry` also meet processes
    that are still starting.
    """

    action: str
    target: str
    pause: float
    freeze: float
    pick: float
    hurry: bool


def plan_faults(rng: random.Random) -> Generator[Fault]:
    """An endless sequence of faults, the same for the same seed."""
    while True:
        ((action, target),) = rng.choices(list(FAULT_WEIGHTS), list(FAULT_WEIGHTS.values()))
        yield Fault(
            action,
            target,
            rng.uniform(*_PAUSE_SECONDS),
            rng.uniform(*_FREEZE_SECONDS),
            rng.random(),
            rng.random() < _HURRY_SHARE,
        )


def free_port() -> int:
    """A port that is free at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@dataclass
class ChaosSystem:
    """A server and a worker on one data dir, started again whenever they end."""

    env: dict[str, str]
    data_dir: Path
    log: Path
    port: int = field(default_factory=free_port)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    misses: Counter[str] = field(default_factory=Counter[str])  # faults that found no such process
    exits: list[str] = field(default_factory=list[str])
    _processes: dict[str, asyncio.subprocess.Process] = field(
        default_factory=dict[str, asyncio.subprocess.Process]
    )
    _killed: set[int] = field(default_factory=set[int])
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start both, and keep them running."""
        commands = {"supervisor": ["serve", "--port", str(self.port)], "worker": ["worker"]}
        for name, arguments in commands.items():
            self._spawn_task(self._keep_running(name, arguments))

    async def close(self) -> None:
        """End everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def inject(self, fault: Fault) -> bool:
        """Let a fault happen; False if there is no such process at the moment."""
        pids = sorted(self._find(fault.target))
        if not pids:
            self.misses[fault.target] += 1
            return False
        pid = pids[int(fault.pick * len(pids))]
        try:
            if fault.action == "kill":
                self._killed.add(pid)
                os.kill(pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGSTOP)
                self._spawn_task(_continue_later(pid, fault.freeze))
        except ProcessLookupError:
            self.misses[fault.target] += 1
            return False
        self.faults[fault.action, fault.target] += 1
        return True

    def _find(self, target: str) -> list[int]:
        running = {
            name: process.pid for name, process in self._processes.items() if process.returncode is None
        }
        if target == "supervisor":
            return [pid for name, pid in running.items() if name == target]
        children = _children(set(running.values()))
        if target in ("server", "worker"):
            pids = [pid for pid in children if _name(pid).startswith(f"gm-{target}")]
            return [*pids, *(pid for name, pid in running.items() if name == target)]
        if target in _CHILD_MARKS:
            descendants = [*children, *_children(set(children))]
            return [pid for pid in descendants if _CHILD_MARKS[target] in _command(pid)]
        postmaster = reaper.postmaster_pid(self.data_dir / "postgres" / "data")
        if postmaster is None or not (_PROC / str(postmaster)).exists():
            return []
        if target == "postmaster":
            return [postmaster]
        return [pid for pid in _children({postmaster}) if " [local]" in _command(pid)]

    async def _keep_running(self, name: str, arguments: list[str]) -> None:
        with self.log.open("a") as log:
            while True:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "gristmill", *arguments,
                    env=self.env, stdout=subprocess.DEVNULL, stderr=log,
                )  # fmt: skip
                self._processes[name] = process
                status = await process.wait()
                if process.pid not in self._killed:
                    self.exits.append(f"the {name} ended by itself with status {status}")
                    await asyncio.sleep(0.5)

    def _spawn_task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _continue_later(pid: int, seconds: float) -> None:
    try:
        await asyncio.sleep(seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _children(parents: set[int]) -> list[int]:
    """The direct children of processes."""
    children: list[int] = []
    for folder in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The name in brackets may contain spaces; what follows does not.
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent in parents:
                children.append(int(folder.name))
    return children


def _name(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text()
    except OSError:
        return ""


def _command(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
