"""Memory of idle processes: `python -m bench.memory [--settle 10] [--embedder NAME]`.

Starts `gristmill serve` and `gristmill worker` on one data dir, waits until both are ready and then for `--settle` seconds, and prints
the proportional set size (PSS) of each with its children: memory that processes share is divided among them. PostgreSQL is listed
apart. `--embedder` sets the default embedder of both; one behind an endpoint shows a worker without a model.

The limits are 120 MB for a server and 150 MB for a worker without its model; the exit code is 1 when one is exceeded.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.gristmill_process import environment

LIMITS_MB = {"server": 120, "worker": 150}
_CACHE = Path(tempfile.gettempdir()) / "gristmill-bench-cache"


def pss_mb(pid: int) -> float:
    """The proportional set size of a process."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    match = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    assert match is not None
    return int(match[1]) / 1024


def children(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *children(child)]
    return found


def command_line(pid: int) -> str:
    """The arguments of a process, as one line."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()


def start(env: dict[str, str], *arguments: str) -> "subprocess.Popen[str]":
    """Start a `gristmill` process, and wait until it says that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gristmill", *arguments], env=env, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"gristmill {arguments[0]} did not start"
    return process


def report(name: str, pid: int) -> float:
    """Print the processes of a server or worker; the sum of those that are not PostgreSQL."""
    total, database = 0.0, 0.0
    for member in [pid, *children(pid)]:
        size, line = pss_mb(member), command_line(member)
        is_database = line.startswith("postgres") or "/postgres " in line
        if is_database:
            database += size
            continue
        total += size
        print(f"  {name:10}{size:8.1f} MB  {line[-80:]}")
    print(f"{name:12}{total:8.1f} MB" + (f", and PostgreSQL {database:.1f} MB" if database else ""))
    return total


def main() -> None:
    """Parse the arguments, and measure."""
    parser = argparse.ArgumentParser(prog="bench.memory", description=__doc__)
    parser.add_argument("--settle", type=float, default=10)
    parser.add_argument("--embedder", help="the setting `embedder` of both processes")
    options = parser.parse_args()
    processes: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory(prefix="gristmill-bench-", ignore_cleanup_errors=True) as folder:
        settings = {"log_level": "warning", "port": "0", "worker_port": "0"}
        if options.embedder:
            settings["embedder"] = options.embedder
        env = environment(Path(folder) / "data", _CACHE, **settings)
        try:
            processes.append(start(env, "serve"))
            processes.append(start(env, "worker"))
            time.sleep(options.settle)
            sizes = {
                name: report(name, process.pid)
                for name, process in zip(("server", "worker"), processes, strict=True)
            }
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(30)
    too_large = [name for name, size in sizes.items() if size > LIMITS_MB[name]]
    for name in too_large:
        print(f"DOES NOT HOLD: a {name} takes at most {LIMITS_MB[name]} MB")
    sys.exit(1 if too_large else 0)


if __name__ == "__main__":
    main()
