"""How long a base waits while another one is busy.

Base A gets one of these loads, and then base B a note and a one-page Word file, several times. Each must be searchable within
3 seconds, or within 3 times as long as on the idle system, whichever is more. Exits with 1 if one is not.

    pages       60 web pages that answer after 30 s
    scans       50 scanned PDFs of two pages
    files       a folder of 10,000 text files
    webhooks    120 webhooks whose receiver hangs
    connector   a connector whose tool answers one request a second
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.fairness.loads import LOADS, Load, idle, post, running
from tests.gristmill_process import environment, run_serve
from tests.readers import samples

_LIMIT_SECONDS, _LIMIT_FACTOR = 3.0, 3.0
_SETTLE_SECONDS = 4.0  # until the load fills what it can fill
_PATIENCE = 300.0
_POLL_SECONDS = 0.05
_CACHE = Path(tempfile.gettempdir()) / "gristmill-bench-cache"


@dataclass(frozen=True)
class Times:
    """How long notes and Word files took to be searchable, in seconds."""

    notes: list[float]
    documents: list[float]


def main() -> None:
    """Run the cases, print a table, and exit with 1 if a base waited too long."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fairness",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--case", choices=[*LOADS], action="append", help="only this load; may be repeated")
    parser.add_argument("--workers", type=int, choices=(1, 2), default=1, help="worker processes (default 1)")
    parser.add_argument("--rounds", type=int, default=5, help="notes and files per case (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the loads, e.g. 0.1 for a tenth")
    options = parser.parse_args()
    print(f"{options.workers} worker(s), {options.rounds} rounds, loads × {options.scale:g}", flush=True)
    base_times = measure(idle, options.workers, options.rounds, options.scale)
    limits = [
        max(_LIMIT_SECONDS, _LIMIT_FACTOR * max(times)) for times in (base_times.notes, base_times.documents)
    ]
    print(f"\n{'base A':<12}{'note':>9}{'slowest':>9}{'docx':>9}{'slowest':>9}", flush=True)
    print(_row("idle", base_times), flush=True)
    late = False
    for case in options.case or [*LOADS]:
        times = measure(LOADS[case], options.workers, options.rounds, options.scale)
        is_late = max(times.notes) > limits[0] or max(times.documents) > limits[1]
        late = late or is_late
        print(_row(case, times) + ("   TOO SLOW" if is_late else ""), flush=True)
    print(f"\nlimits: note {limits[0]:.2f} s, docx {limits[1]:.2f} s")
    sys.exit(1 if late else 0)


def measure(load: Load, workers: int, rounds: int, scale: float) -> Times:
    """The times of base B while base A has a load, on a new Gristmill."""
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="gristmill-fairness-", ignore_cleanup_errors=True)
            )
        )
        folder.chmod(0o755)  # as root, PostgreSQL runs as another user
        client = stack.enter_context(_system(folder, workers))
        _run_round(client, "warm-up")
        busy = post(client, "/knowledge-bases", {"name": "A"})["id"]
        with running(load, client, busy, folder, scale):
            time.sleep(_SETTLE_SECONDS)
            pairs = [_run_round(client, f"round{number}") for number in range(rounds)]
    return Times([note for note, _ in pairs], [document for _, document in pairs])


@contextmanager
def _system(folder: Path, workers: int) -> Generator[httpx.Client]:
    """A server with its worker, and further workers on the same database."""
    env = environment(
        folder / "data",
        _CACHE,
        allow_private_addresses="true",
        log_level="warning",
        stop_grace="1",
        key_requests_per_minute="100000",
    )
    with run_serve(env, log=folder / "serve.log") as server, (folder / "worker.log").open("w") as log:
        others = [
            subprocess.Popen([sys.executable, "-m", "gristmill", "worker"], env=env, stdout=log, stderr=log)
            for _ in range(workers - 1)
        ]
        try:
            with server.client() as client:
                _wait_for_workers(client, workers)
                yield client
        finally:
            for process in others:
                process.kill()
                process.wait()
            server.stop()


def _wait_for_workers(client: httpx.Client, count: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while sum(worker["alive"] for worker in client.get("/api/workers").json()["items"]) < count:
        assert time.monotonic() < deadline, "the workers did not start"
        time.sleep(_POLL_SECONDS)


def _run_round(client: httpx.Client, word: str) -> tuple[float, float]:
    """Seconds until a note and a Word file of a new base are searchable, added at the same moment."""
    base = post(client, "/knowledge-bases", {"name": f"B {word}"})["id"]
    started = time.monotonic()
    note = {"type": "note", "title": "note", "content": f"A note about millstones in {word}."}
    post(client, f"/knowledge-bases/{base}/items", {"items": [note]})
    document = samples.docx(samples.paragraph(f"A document about waterwheels in {word}."))
    response = client.post(f"/api/knowledge-bases/{base}/files", files={"files": ("page.docx", document)})
    assert response.is_success, response.text
    waiting = {"millstones": 0.0, "waterwheels": 0.0}
    while not all(waiting.values()):
        for query in [query for query, seconds in waiting.items() if not seconds]:
            search = {"query": query, "mode": "text"}
            hits = post(client, f"/knowledge-bases/{base}/search", search)["hits"]
            if any(query in hit["text"] for hit in hits):
                waiting[query] = time.monotonic() - started
        assert time.monotonic() - started < _PATIENCE, f"never searchable: {waiting}"
        time.sleep(_POLL_SECONDS)
    return waiting["millstones"], waiting["waterwheels"]


def _row(name: str, times: Times) -> str:
    figures = [
        statistics.median(times.notes),
        max(times.notes),
        statistics.median(times.documents),
        max(times.documents),
    ]
    return f"{name:<12}" + "".join(f"{seconds:>7.2f} s" for seconds in figures)


if __name__ == "__main__":
    main()
