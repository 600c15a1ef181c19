"""Real `gristmill` processes, started and ended the way people and kernels do."""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests import process_template
from tests.process_template import Process

_READY = re.compile(r"ready at (http://\S+)")


@dataclass(frozen=True)
class ServeProcess:
    """A running `gristmill serve`."""

    process: Process
    url: str

    def client(self) -> httpx.Client:
        """A client of its API."""
        return httpx.Client(base_url=self.url, timeout=30, trust_env=False, verify=False)

    def kill(self) -> None:
        """kill -9, and see it gone."""
        self.process.kill()
        self.process.wait(10)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(30)


def environment(data_dir: Path, cache_dir: Path, **settings: str) -> dict[str, str]:
    """What a `gristmill` process of a test is given."""
    overrides = {f"GRISTMILL_{name.upper()}": value for name, value in settings.items()}
    folders = {"GRISTMILL_DATA_DIR": str(data_dir), "GRISTMILL_CACHE_DIR": str(cache_dir)}
    defaults = {"GRISTMILL_RECONCILE_CRON": "0 0 29 2 *", "GRISTMILL_READER_PROCESSES": "1"}
    return {**os.environ, "COLUMNS": "200", "PYTHONWARNINGS": "error", **defaults, **folders, **overrides}


@contextmanager
def run_serve(env: Mapping[str, str], *, log: Path, port: str = "0") -> Generator[ServeProcess]:
    """`gristmill serve` on a free port, or this one, ready; killed at the end if it still runs. Its log goes to `log`."""
    with log.open("a") as stderr:
        process = process_template.start(["gristmill", "serve", "--port", port], env, stderr=stderr)
    assert process.stdout is not None
    with process.stdout:
        try:
            line = process.stdout.readline()
            ready = _READY.search(line)
            assert ready is not None, f"did not become ready: {line!r} {log.read_text()[-3000:]}"
            yield ServeProcess(process, ready.group(1))
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(10)


def run_command(
    env: Mapping[str, str], *arguments: str, fork: bool = True
) -> "subprocess.CompletedProcess[str]":
    """Run a `gristmill` command to its end."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        words = ["gristmill", *arguments]
        process = process_template.start(words, env, stdout=stdout, stderr=stderr, fork=fork)
        try:
            code = process.wait(120)
        finally:
            process.kill()
            process.wait(10)
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.read())
