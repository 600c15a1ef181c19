"""Memory of idle processes: `python -m bench.memory [--settle 10]`.

Starts `gristmill serve` twice, with the default embedder, whose model the worker loads, and with one behind an endpoint, waits until
it is ready and then for `--settle` seconds, and prints the proportional set size (PSS) of each of its processes: memory that
processes share is divided among them. PostgreSQL is listed apart.

The limits are 120 MB for the supervisor and the server together, and 150 MB for a worker without a model; the exit code is 1
when one is exceeded.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.gristmill_process import environment

_CACHE = Path(tempfile.gettempdir()) / "gristmill-bench-cache"
_ENDPOINT = {
    "embedder": "remote",
    "embedders": '{"remote": {"url": "http://127.0.0.1:9/v1", "model": "none", "dimensions": 384}}',
}


def pss_mb(pid: int) -> float:
    """The proportional set size of a process."""
    match = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]) / 1024


def processes_below(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have started."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [each for child in children for each in (child, *processes_below(child))]


def measure(settle: float, **settings: str) -> dict[str, float]:
    """The memory of an idle `gristmill serve`, by the names of its processes."""
    with tempfile.TemporaryDirectory(prefix="gristmill-bench-", ignore_cleanup_errors=True) as folder:
        env = environment(Path(folder) / "data", _CACHE, log_level="warning", port="0", **settings)
        process = subprocess.Popen(
            [sys.executable, "-m", "gristmill", "serve"], env=env, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "gristmill serve did not start"
            time.sleep(settle)
            sizes = {"supervisor": pss_mb(process.pid)}
            for pid in processes_below(process.pid):
                name = Path(f"/proc/{pid}/comm").read_text().strip()
                sizes[name] = sizes.get(name, 0) + pss_mb(pid)
            return sizes
        finally:
            process.terminate()
            process.wait(30)


def main() -> None:
    """Parse the arguments, and measure."""
    parser = argparse.ArgumentParser(prog="bench.memory", description=__doc__)
    parser.add_argument("--settle", type=float, default=10)
    options = parser.parse_args()
    with_model, without_model = measure(options.settle), measure(options.settle, **_ENDPOINT)
    for title, sizes in (("default embedder", with_model), ("embedder behind an endpoint", without_model)):
        print(f"{title}: " + ", ".join(f"{name} {size:.0f} MB" for name, size in sizes.items()))
    requirements = {
        "the supervisor and the server take at most 120 MB": with_model["supervisor"]
        + with_model["gm-server-1"]
        <= 120,
        "a worker without a model takes at most 150 MB": without_model["gm-worker-1"] <= 150,
    }
    for what, holds in requirements.items():
        print(f"  {'holds' if holds else 'DOES NOT HOLD'}: {what}")
    sys.exit(0 if all(requirements.values()) else 1)


if __name__ == "__main__":
    main()
