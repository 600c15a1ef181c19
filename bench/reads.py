"""Latency of reads during ingestion: `python -m bench.reads CORPUS [--rate 500] [--seconds 20] [--free] [--idle]`.

A `gristmill serve` with 2,000 notes ingests the folder CORPUS. Meanwhile another process (`bench/reads_load.py`) reads from it
with a reader's key, over HTTP on loopback: four of five requests are for one item, one is for a page of twenty. For as many
seconds before and after, it only ingests, which shows what the reads cost.

`--idle` skips the ingestion; `--free` uses an embedder that costs nothing, so that the rest of the pipeline runs as fast as it
can. Prints the times. The exit code is 1 when p95 is 30 ms or more or p99 100 ms, a request failed, or the ingestion ended before the load.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from bench.free_embedder import FreeEmbedder
from gristmill import app, niceness
from gristmill.client import AsyncClient
from gristmill.settings import load
from tests.crash.event_consumers import Daemon
from tests.gristmill_process import environment, run_command
from tests.serve_api import serve_api

NOTES, P95_LIMIT, P99_LIMIT = 2_000, 0.030, 0.100
_EMBEDDED = re.compile(r'^gristmill_batch_size_sum\{.*stage="embed".*\} (\S+)$', re.MULTILINE)
_CACHE = Path(tempfile.gettempdir()) / "gristmill-bench-cache"


async def serve_free_embedder() -> None:
    """Run a server with an embedder that costs nothing."""
    settings = load(embedder="free")
    embedders = {"free": FreeEmbedder()}
    async with (
        app.gristmill(settings, work=True, extra_embedders=embedders) as mill,
        serve_api(mill) as address,
    ):
        niceness.favour_event_loop()
        print(f"Gristmill is ready at {address}", flush=True)
        await asyncio.Event().wait()


async def create_filled_base(mill: AsyncClient) -> tuple[str, list[str]]:
    """Create a base with notes, and wait until all are searchable."""
    base = (await mill.create_base("read", acl=["org:*"]))["id"]
    notes = [
        {"type": "note", "content": f"Note {n}: the wheel turned {n} times.", "metadata": {"number": n}}
        for n in range(NOTES)
    ]
    response = await mill.add(base, notes)
    ids = [item["id"] for item in response["created"]]
    items = await mill.wait(base, ids)
    assert all(item["status"] == "completed" for item in items.values())
    return base, ids


async def count_embedded(mill: AsyncClient) -> float:
    """The number of texts embedded so far."""
    text = (await mill.http.get("/metrics")).text
    return sum(float(value) for value in _EMBEDDED.findall(text))


@dataclass(frozen=True)
class Window:
    """What the processes did for some seconds."""

    seconds: float
    embedded: float
    cpu: dict[str, float]  # CPU-seconds by the name of the process
    result: Any

    @property
    def pace(self) -> float:
        """Texts embedded a second."""
        return self.embedded / self.seconds

    @property
    def efficiency(self) -> float:
        """Texts embedded per CPU-second of the worker."""
        return self.embedded / max(self.cpu.values())

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {seconds:.1f}" for name, seconds in self.cpu.items())
        return f"{self.embedded:.0f} texts embedded in {self.seconds:.1f} s; CPU-s: {shares}"


async def _watch(mill: AsyncClient, daemon: Daemon, work: Coroutine[Any, Any, Any]) -> Window:
    """Measure while `work` runs."""
    assert daemon.process is not None
    before, cpu, started = await count_embedded(mill), _cpu_by_name(daemon.process.pid), time.monotonic()
    result = await work
    seconds, spent = time.monotonic() - started, _cpu_by_name(daemon.process.pid)
    embedded = await count_embedded(mill) - before
    return Window(seconds, embedded, {name: spent[name] - cpu.get(name, 0) for name in spent}, result)


async def measure(options: argparse.Namespace, folder: Path) -> bool:
    """Measure once; whether all requirements hold."""
    env = environment(
        folder / "data", _CACHE, key_requests_per_minute=str(10**6), log_level="warning", port="0"
    )
    key = json.loads(run_command(env, "keys", "create", "load", "--json").stdout)["key"]
    arguments = ["bench.reads", "--be-free-server", "."] if options.free else ["gristmill", "serve"]
    daemon = Daemon(arguments, env, folder / "log")
    try:
        url = (await daemon.start()).rpartition(" ")[2].strip()
        async with AsyncClient(url) as mill:
            base, ids = await create_filled_base(mill)
            corpus = (await mill.create_base("ingest"))["id"]
            if not options.idle:
                await mill.add(corpus, [{"type": "directory", "path": str(options.corpus.absolute())}])
            host, _, port = url.removeprefix("http://").partition(":")
            assert daemon.process is not None
            load_config = {"host": host, "port": int(port), "key": key, "base": base, "ids": ids}
            load_config |= {"rate": options.rate, "seconds": options.seconds}
            alone = None if options.idle else await _watch(mill, daemon, asyncio.sleep(options.seconds))
            beside = await _watch(mill, daemon, _run_load(load_config))
            again = None if options.idle else await _watch(mill, daemon, asyncio.sleep(options.seconds))
            still_ingesting = options.idle or (await mill.queue(corpus))["queueSize"] > 0
        for name, window in (("before", alone), ("with the reads", beside), ("after", again)):
            if window is not None:
                print(f"{name:>14}: {window}")
        if alone is not None and again is not None:
            pace = 2 * beside.pace / (alone.pace + again.pace)
            print(f"  texts embedded a second, beside reads : without them = {pace:.3f}")
            efficiency = 2 * beside.efficiency / (alone.efficiency + again.efficiency)
            print(
                f"  texts embedded per CPU-second of the worker, beside reads : without them = {efficiency:.3f}"
            )
        return _report(beside.result, still_ingesting)
    finally:
        daemon.kill()


async def _run_load(config: dict[str, Any]) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.reads_load",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        output, _ = await process.communicate(json.dumps(config).encode())
    finally:
        if process.returncode is None:
            process.kill()
    return json.loads(output)


def _report(result: dict[str, Any], still_ingesting: bool) -> bool:
    took, late = sorted(result["took"]), sorted(result["late"])
    p95 = _percentile(took, 0.95)
    print(f"{len(took)} requests, by status: {result['statuses']}")
    print(
        "  " + ", ".join(f"p{100 * q:g} {1000 * _percentile(took, q):.1f} ms" for q in (0.5, 0.95, 0.99)),
        end=", ",
    )
    print(
        f"at most {1000 * took[-1]:.0f} ms; the load itself was late by {1000 * _percentile(late, 0.95):.1f} ms (p95),"
        f" and took {1000 * result['cpu'] / len(took):.2f} ms of CPU a request"
    )
    requirements = {
        "p95 is below 30 ms": p95 < P95_LIMIT,
        "p99 is below 100 ms": _percentile(took, 0.99) < P99_LIMIT,
        "no request failed": list(result["statuses"]) == ["200"],
        "the ingestion went on until the end": still_ingesting,
    }
    for what, holds in requirements.items():
        print(f"  {'holds' if holds else 'DOES NOT HOLD'}: {what}")
    return all(requirements.values())


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[int(len(ordered) * share)]


def _cpu_by_name(pid: int) -> dict[str, float]:
    """CPU-seconds so far of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {Path(f"/proc/{each}/comm").read_text().strip(): _cpu(each) for each in [str(pid), *children]}


def _cpu(pid: str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Parse the arguments, and measure."""
    parser = argparse.ArgumentParser(prog="bench.reads", description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--free", action="store_true")
    parser.add_argument("--idle", action="store_true")
    parser.add_argument("--be-free-server", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be_free_server:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve_free_embedder())
        return
    folder = Path(tempfile.mkdtemp(prefix="gristmill-bench-"))
    try:
        sys.exit(0 if asyncio.run(measure(options, folder)) else 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
