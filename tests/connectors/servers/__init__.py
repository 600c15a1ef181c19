"""Servers that others wrote, started on a loopback port for tests and for `bench.connectors_real`.

Each has a module with a context manager. A server that can't be had on this machine raises ServerUnavailable with the reason: a
program that is not installed, a build that failed. Programs are ended with the processes that they started, and what they
wrote below their folder is the caller's to delete.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_LOOKS, _PAUSE = 1500, 0.02
_STOP_SECONDS = 10


class ServerUnavailable(Exception):
    """A server can't be had here; the message says why."""


@contextmanager
def run_program(
    command: Sequence[str],
    port: int,
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Generator[None]:
    """Run a server until the block ends; it listens on this port of the loopback address when the block begins."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(command),
            env=None if env is None else dict(env),
            cwd=cwd,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait_for_port(process, port, log)
        yield
    finally:
        _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a program and its children, which are in its session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)


def _wait_for_port(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    for _ in range(_LOOKS):
        if process.poll() is not None:
            raise ServerUnavailable(f"it ended at once: {_last_line(log)}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(_PAUSE)
    raise ServerUnavailable(f"it does not listen: {_last_line(log)}")


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][-300:] if lines else "it wrote nothing"
