"""Processes that use a local server, and functions that inspect it."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import psycopg

from gristmill.db import reaper
from gristmill.db.local_server import LocalServer, start

FAST_CONFIG = {"fsync": "off", "shared_buffers": "16MB"}

# A process that uses the server: it prints the URL, waits until its input ends, then closes.
USER = f"""
import sys
from pathlib import Path
from gristmill.db.local_server import start
server = start(Path(sys.argv[1]), extra_config={FAST_CONFIG})
print(server.url, flush=True)
sys.stdin.read()
server.close()
"""

# The same, with a forked child that keeps running, as those of multiprocessing do.
FORKING_USER = USER.replace(
    "print(server.url, flush=True)",
    "import os, signal\nchild = os.fork()\nif child == 0: signal.pause()\nprint(child, flush=True)",
)


class User:
    """A process that uses the server under a data dir."""

    def __init__(self, data_dir: Path, program: str = USER) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, data_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def read_line(self) -> str:
        """The line that the process prints when the server answers it."""
        return open_pipe(self.process.stdout).readline().decode().strip()

    def leave(self) -> None:
        open_pipe(self.process.stdin).close()
        assert self.process.wait() == 0
        open_pipe(self.process.stdout).close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        open_pipe(self.process.stdin).close()
        open_pipe(self.process.stdout).close()


def open_pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    """A pipe of a process that was started with one."""
    assert pipe is not None
    return pipe


def wait_until(condition: Callable[[], bool], *, within: float = 60) -> None:
    """Check every 10 ms, at most as often as fits into `within` seconds."""
    for _ in range(round(within / 0.01)):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("the condition was never met")


def processes(data_dir: Path) -> dict[int, str]:
    """The processes of the data dir other than its users: the server, its backends, the reaper, initdb."""
    marks = [f"{data_dir}/postgres"]
    with contextlib.suppress(FileNotFoundError):
        marks.append(reaper.cluster_name(data_dir / "postgres/data"))
    found_processes: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (
                (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdigit() else ""
            )
            if any(mark in command for mark in marks):
                found_processes[int(entry.name)] = command
    return found_processes


def reaper_pids(data_dir: Path) -> list[int]:
    return [pid for pid, command in processes(data_dir).items() if "reaper.py" in command]


def postmaster_pid(data_dir: Path) -> int:
    pid = reaper.postmaster_pid(data_dir / "postgres/data")
    assert pid is not None
    return pid


def is_running(data_dir: Path) -> bool:
    return not reaper.is_stopped(data_dir / "postgres")


def query_value(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def execute(url: str, query: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(query.encode())


@contextlib.contextmanager
def running_server(data_dir: Path) -> Generator[LocalServer]:
    with contextlib.closing(start(data_dir, extra_config=FAST_CONFIG)) as server:
        yield server
