"""Ends a test that hangs, and writes down where it hung; where a process crashes, that too.

A test hangs when its process and every process below it use no CPU for `IDLE_LIMIT` seconds, or when it runs for
`TOTAL_LIMIT` seconds. A slow machine does not trigger it: work that is under way uses CPU. The stacks of all threads, the
asyncio tasks and what PostgreSQL is doing go to one file per pytest worker, and from there into the summary of the run.
"""

import asyncio
import contextlib
import faulthandler
import os
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import IO, Any

import psutil
import psycopg
import pytest

IDLE_LIMIT = 240.0
TOTAL_LIMIT = 1_500.0
IDLE_CPU = 0.02  # of one core: less than this is no work
INTERVAL = 5.0
EXIT_CODE = 70

_ACTIVITY = (
    "select pid, datname, state, wait_event_type, wait_event, now() - xact_start as open, pg_blocking_pids(pid) as blockers,"
    " left(query, 200) as query from pg_stat_activity where backend_type = 'client backend' order by xact_start"
)


class Watchdog:
    """Watches the test that runs in this process, from a thread."""

    def __init__(self, folder: Path, server_url: str) -> None:
        self._folder, self._server_url = folder, server_url
        self._crash_file = (folder / f"{_worker_name()}-crash.txt").open(
            "w"
        )  # open as long as the process lives
        self._test: str | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watch one test, with its fixtures."""
        with self._lock:
            self._test, self._started, self._active, self._cpu = (
                item.nodeid,
                time.monotonic(),
                time.monotonic(),
                0.0,
            )
        try:
            return (yield)
        finally:
            with self._lock:
                self._test = None

    def _run(self) -> None:
        while True:
            time.sleep(INTERVAL)  # a thread of its own: no test waits for it
            with self._lock:
                reason = self._hang_reason()
            if reason is not None:
                self._dump(reason)
                os._exit(EXIT_CODE)

    def _hang_reason(self) -> str | None:
        if self._test is None:
            return None
        now, cpu = time.monotonic(), _tree_cpu_seconds()
        if cpu < self._cpu or cpu - self._cpu > IDLE_CPU * INTERVAL:  # less than before: a child has ended
            self._active = now
        self._cpu = cpu
        if now - self._active > IDLE_LIMIT:
            return f"{self._test} did nothing for {now - self._active:.0f} s"
        if now - self._started > TOTAL_LIMIT:
            return f"{self._test} still ran after {now - self._started:.0f} s"
        return None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Have the stacks of a native crash written to a file: xdist loses what a worker writes to standard error."""
        faulthandler.enable(self._crash_file)

    def _dump(self, reason: str) -> None:
        with (self._folder / f"{_worker_name()}.txt").open("a") as file:
            file.write(f"== {reason}\n")
            file.flush()
            faulthandler.dump_traceback(file)
            _dump_tasks(file)
            _dump_activity(file, self._server_url)


def stack_folder() -> Path:
    """A new folder for the stacks of one run."""
    return Path(tempfile.mkdtemp(prefix="gristmill-stacks-"))


def summarise(folder: Path, reporter: Any) -> None:
    """Print what watchdogs wrote, and remove the folder if they wrote nothing."""
    for path in sorted(folder.glob("*.txt")):
        if text := path.read_text():
            reporter.section(f"hung or crashed: {path}")
            reporter.write_line(text)
        else:
            path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _worker_name() -> str:
    return os.environ.get("PYTEST_XDIST_WORKER", "main")


def _tree_cpu_seconds() -> float:
    process = psutil.Process()
    total = 0.0
    for member in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = member.cpu_times()
            total += times.user + times.system
    return total


def _dump_tasks(file: IO[str]) -> None:
    for task in list(asyncio.tasks._all_tasks):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownArgumentType]
        with contextlib.suppress(Exception):
            if not task.done():  # pyright: ignore[reportUnknownMemberType]
                task.print_stack(file=file)  # pyright: ignore[reportUnknownMemberType]


def _dump_activity(file: IO[str], server_url: str) -> None:
    try:
        with psycopg.connect(server_url, connect_timeout=10, autocommit=True) as connection:
            for row in connection.execute(_ACTIVITY):
                file.write(f"{row}\n")
    except psycopg.Error as error:
        file.write(f"PostgreSQL does not answer: {error}\n")
