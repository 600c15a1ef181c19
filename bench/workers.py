"""One, two and four worker processes on one database: `uv run python -m bench.workers FOLDER`.

    rate      files and chunks a second of each number of workers, with an embedder that costs nothing or with `--embedder` a local
              one; a round has each number once, on a new database, another number first in each round
    waiting   the share of the running statements that wait for a lock, from a look at the server's sessions every 20 ms;
              with the statements that waited most

Two workers must not be slower than one, and with four less than 5 % of the statements may wait; otherwise the exit code is 1.
Compare ratios: the machine is shared.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from bench.free_embedder import FreeEmbedder
from bench.ingest import UNLIMITED_QUEUE, copy_files, corpus_files
from bench.ingest_trials import create_database, run_local_server, wait_until_ready
from gristmill import app
from gristmill.catalog import BaseId, NewItem
from gristmill.cli.common import run_async
from gristmill.db import Database
from gristmill.db.migrate import migrate
from gristmill.embedding import Embedder, LocalEmbedder
from gristmill.embedding.local_models import LOCAL_MODELS
from gristmill.operations import add, bases
from gristmill.operations.source_factory import FolderSource
from gristmill.settings import load
from gristmill.sources import NoteSource
from tests.crash.event_consumers import Daemon
from tests.crash.indexing_trial import ROOT
from tests.gristmill_process import environment

DIMENSIONS = 384
WAITING_LIMIT = 0.05
_SAMPLE_INTERVAL = 0.02
_SESSIONS = """
    select wait_event_type = 'Lock', left(regexp_replace(query, '\\s+', ' ', 'g'), 70), wait_event
      from pg_stat_activity
     where datname = current_database() and state = 'active' and pid <> pg_backend_pid()
"""


@dataclass
class LockWaits:
    """How many running statements were seen, and which of them waited for a lock."""

    seen: int = 0
    waiting: Counter[str] = field(default_factory=Counter[str])

    @property
    def share(self) -> float:
        """The share of the statements that waited."""
        return self.waiting.total() / max(1, self.seen)

    async def sample_until_cancelled(self, url: str) -> None:
        """Look at the sessions of this database, again and again."""
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            while True:
                rows = await (await connection.execute(_SESSIONS)).fetchall()
                self.seen += len(rows)
                self.waiting.update(f"{event}: {query}" for is_waiting, query, event in rows if is_waiting)
                await asyncio.sleep(_SAMPLE_INTERVAL)


@asynccontextmanager
async def _run_workers(url: str, top: Path, count: int, embedder: str) -> AsyncGenerator[None]:
    overrides = {"database_url": url, "embedder": embedder, "log_level": "error"}
    env = {**environment(top / "data", top / "cache", **overrides), "PYTHONPATH": os.pathsep.join(sys.path)}
    async with AsyncExitStack() as stack:
        for number in range(count):
            worker = Daemon(["bench.workers", "--as-worker"], env, top / f"worker{number}.log")
            stack.callback(worker.kill)
            await worker.start()
        yield


async def ingest_with_workers(
    url: str, top: Path, folder: Path, workers: int, embedder: str
) -> tuple[float, int, LockWaits]:
    """Ingest the folder with so many workers: seconds, chunks, and how statements waited."""
    await migrate(url)
    db = Database(url)
    await db.open()
    try:
        async with _run_workers(url, top, workers, embedder):
            await asyncio.sleep(2)  # until the workers have started completely
            base = await bases.create(db, "bench", _embedder(embedder, top), {})
            await _warm_up(db, base.id)
            waits = LockWaits()
            sampling = asyncio.create_task(waits.sample_until_cancelled(url))
            started = time.perf_counter()
            item = NewItem("directory", "bench", str(folder), source={"path": str(folder), "local": True})
            await add.add(db, base.id, [add.ItemToAdd(item, FolderSource(folder))], UNLIMITED_QUEUE)
            chunks = await wait_until_ready(db, base.id)
            elapsed = time.perf_counter() - started
            sampling.cancel()
            return elapsed, chunks, waits
    finally:
        await db.close()


async def _warm_up(db: Database, base: BaseId) -> None:
    """The first text waits for its embedder to be loaded, on a GPU for seconds."""
    note = NewItem("note", "first", "first", body="a first note")
    await add.add(db, base, [add.ItemToAdd(note, NoteSource("a first note", "first"))], UNLIMITED_QUEUE)
    await wait_until_ready(db, base)


def _embedder(name: str, top: Path) -> Embedder:
    if name == "free":
        return FreeEmbedder(dimensions=DIMENSIONS)
    model = next(model for model in LOCAL_MODELS if model.name == name)
    return LocalEmbedder(top / "cache", threads=1, model=model)


async def measure(corpus: Path, limit: int, rounds: int, counts: list[int], embedder: str) -> bool:
    """Print the rates and the waiting of each number of workers, and return whether the goals are met."""
    paths = corpus_files(corpus, limit)
    rates: dict[int, list[float]] = {count: [] for count in counts}
    shares: dict[int, list[float]] = {count: [] for count in counts}
    with TemporaryDirectory() as name:
        top = Path(name)
        folder = copy_files(paths, corpus, top / "corpus")
        async with run_local_server(top) as url:
            for number in range(rounds):
                for count in counts[number % len(counts) :] + counts[: number % len(counts)]:
                    round_url = create_database(url, f"round{number}_{count}")
                    elapsed, chunks, waits = await ingest_with_workers(
                        round_url, top, folder, count, embedder
                    )
                    rates[count].append(len(paths) / elapsed)
                    shares[count].append(waits.share)
                    print(
                        f"{count} workers: {len(paths) / elapsed:,.1f} files/s, {chunks / elapsed:,.0f} chunks/s, {len(paths):,} files in {elapsed:.1f} s;"
                        f" {waits.waiting.total():,} of {waits.seen:,} statements waited ({waits.share:.1%})",
                        *(f"  {times} × {query}" for query, times in waits.waiting.most_common(4)),
                        sep="\n",
                        flush=True,
                    )
    return _print_medians(rates, shares)


def _print_medians(rates: dict[int, list[float]], shares: dict[int, list[float]]) -> bool:
    medians = {count: statistics.median(values) for count, values in rates.items()}
    waiting = {count: statistics.median(values) for count, values in shares.items()}
    for count, median in medians.items():
        print(
            f"workers: {count}: {median:,.1f} files/s, {waiting[count]:.1%} of the statements waited for a lock"
        )
    goals: dict[str, bool] = {}
    if {1, 2} <= medians.keys():
        goals["two workers are not slower than one"] = medians[2] >= medians[1]
    if 4 in waiting:
        goals[f"with four, less than {WAITING_LIMIT:.0%} wait"] = waiting[4] < WAITING_LIMIT
    for goal, is_met in goals.items():
        print(f"workers: {goal}: {'holds' if is_met else 'DOES NOT HOLD'}")
    return all(goals.values())


async def work() -> None:
    """Work as one of the workers until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    embedder = FreeEmbedder(dimensions=DIMENSIONS)
    async with app.gristmill(load(), work=True, extra_embedders={"free": embedder}):
        print("working", flush=True)
        await stop.wait()


def main() -> None:
    """Parse the arguments, and measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.workers", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs")
    parser.add_argument(
        "--files", type=int, default=1_000_000, help="use at most this many files of the folder"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", default="1,2,4", help="numbers of worker processes")
    parser.add_argument("--as-worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--embedder", default="free", help="a local embedder, by its name")
    options = parser.parse_args()
    if options.as_worker:
        with contextlib.suppress(KeyboardInterrupt):
            run_async(work())
        return
    counts = [int(count) for count in options.workers.split(",")]
    if not run_async(measure(options.folder, options.files, options.rounds, counts, options.embedder)):
        sys.exit(1)


if __name__ == "__main__":
    main()
