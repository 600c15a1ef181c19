"""Memory of a worker process, and recovery from kills. Part of `bench.ingest`.

    memory   a worker process with the embedder that costs nothing: one text file, and many notes; its peak above the idle
             state, sampled every 50 ms, with its child processes. PSS counts shared pages by their share
    kills    an undisturbed run over some files, then one whose worker is killed at random moments: whether the index is
             the same, and how many more texts were embedded

PostgreSQL is not a child of the worker, and is not counted.
"""

import asyncio
import random
import shutil
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from uuid import uuid4

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from bench.ingest import UNLIMITED_QUEUE, copy_files, corpus_files
from gristmill.catalog import BaseId, NewItem
from gristmill.db import Database, local_server
from gristmill.db.migrate import migrate
from gristmill.ingest.chunk import DEFAULT_TOKENS, Chunker
from gristmill.ingest.embed import PARALLEL
from gristmill.operations import add, bases
from gristmill.sources import FileSource, NoteSource
from tests.crash.event_consumers import Daemon
from tests.crash.indexing_trial import ROOT, IndexingTrial, differing_items, kill_schedule
from tests.embedding.hashed import HashedEmbedder
from tests.gristmill_process import environment

DIMENSIONS = 384
MEMORY_LIMIT = 300  # MB above the idle worker
_CACHE = Path(gettempdir()) / "gristmill-bench-cache"
_SAMPLE_INTERVAL = 0.05


@asynccontextmanager
async def run_local_server(folder: Path) -> AsyncGenerator[str]:
    server = await asyncio.to_thread(local_server.start, folder / "database")
    try:
        yield server.url
    finally:
        await asyncio.to_thread(server.close)


def create_database(url: str, name: str) -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    return make_conninfo(url, dbname=name)


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class MemoryPeak:
    """The peak memory of a process and its children, in MB."""

    pss: float = 0.0
    rss: float = 0.0

    def sample(self, process: psutil.Process) -> None:
        """Take one sample."""
        pss = rss = 0
        for member in [process, *process.children(recursive=True)]:
            try:
                info = member.memory_full_info()
            except psutil.NoSuchProcess:
                continue
            pss, rss = pss + info.pss, rss + info.rss
        self.pss, self.rss = max(self.pss, pss / 2**20), max(self.rss, rss / 2**20)

    async def sample_until_cancelled(self, process: psutil.Process) -> None:
        """Take samples until cancelled."""
        while True:
            await asyncio.to_thread(self.sample, process)
            await asyncio.sleep(_SAMPLE_INTERVAL)


async def measure_memory(megabytes: int = 1024, notes: int = 100_000) -> None:
    """Print the memory of a worker above its idle state."""
    with TemporaryDirectory() as name:
        top = Path(name)
        async with run_local_server(top) as url:
            text = top / "large.txt"
            written = await asyncio.to_thread(_write_text, text, megabytes)
            source = FileSource(text, limit=4 * 2**30)
            entry = add.ItemToAdd(
                NewItem("file", text.name, str(text), source={"path": str(text), "local": True}), source
            )
            await _measure(url, top, f"one text of {written / 2**20:,.0f} MB", [[entry]])
            text.unlink()
            calls = [
                [_note_entry(number) for number in range(start, min(notes, start + 10_000))]
                for start in range(0, notes, 10_000)
            ]
            await _measure(url, top, f"{notes:,} notes", calls)


def _note_entry(number: int) -> add.ItemToAdd:
    text = f"Note {number}: the miller of day {number} ground {number * 7} sacks of rye."
    return add.ItemToAdd(NewItem("note", f"note {number}", str(number), body=text), NoteSource(text, "note"))


def _write_text(path: Path, megabytes: int) -> int:
    """Write paragraphs of random words, no two alike."""
    rng = random.Random(5)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(20_000)]
    with path.open("w") as file:
        while file.tell() < megabytes * 2**20:
            file.write(" ".join(rng.choices(words, k=120)) + ".\n\n")
        return file.tell()


async def _measure(url: str, top: Path, label: str, calls: list[list[add.ItemToAdd]]) -> None:
    database_url = create_database(url, f"memory_{uuid4().hex}")
    await migrate(database_url)
    db = Database(database_url)
    await db.open()
    overrides = {
        "database_url": database_url,
        "embedder": "hashed",
        "log_level": "error",
        "max_document_mb": "4096",
        "max_queue_per_base": "1000000",
    }
    env = {**environment(top / "data", _CACHE, **overrides), "PYTHONPATH": str(ROOT)}
    arguments = ["tests.ingest.worker", str(DIMENSIONS), "0", str(top / "counted")]
    worker = Daemon(arguments, env, top / "log")
    try:
        await worker.start()
        assert worker.process is not None
        process = psutil.Process(worker.process.pid)
        await asyncio.sleep(3)  # until the worker has started completely
        idle, peak = MemoryPeak(), MemoryPeak()
        idle.sample(process)
        sampling = asyncio.create_task(peak.sample_until_cancelled(process))
        base = await bases.create(db, "memory", HashedEmbedder(dimensions=DIMENSIONS), {})
        started = time.perf_counter()
        for entries in calls:
            await add.add(db, base.id, entries, UNLIMITED_QUEUE)
        chunks = await wait_until_ready(db, base.id)
        elapsed = time.perf_counter() - started
        sampling.cancel()
        above_idle = peak.pss - idle.pss
        print(
            f"memory: {label}: {chunks:,} chunks in {elapsed:.0f} s ({chunks / elapsed:,.0f}/s), PSS idle {idle.pss:.0f} MB,"
            f" peak {peak.pss:.0f} MB: {above_idle:.0f} MB above (RSS {peak.rss - idle.rss:.0f} MB);"
            f" {'holds' if above_idle <= MEMORY_LIMIT else 'DOES NOT HOLD'}: at most {MEMORY_LIMIT} MB",
            flush=True,
        )
    finally:
        worker.kill()
        await db.close()


async def wait_until_ready(db: Database, base_id: BaseId) -> int:
    """Wait until no item of the base is active, and return its chunks."""
    while True:
        async with db.connection() as tx:
            row = await (
                await tx.execute(
                    "select b.ingested, (select sum(chunk_count)::int from item where base_id = b.id),"
                    "       (select count(*)::int from item where base_id = b.id and status = 'failed')"
                    "  from base b where b.id = %s",
                    [base_id],
                )
            ).fetchone()
        if row and row[0]:
            if row[2]:
                print(f"  {row[2]} items FAILED")
            return row[1] or 0
        await asyncio.sleep(0.2)


# ── kills ────────────────────────────────────────────────────────────────────────────────────────────────


async def measure_kills(corpus: Path, limit: int = 500, kill_count: int = 50, seconds: float = 60.0) -> None:
    """Print the state of an index whose worker was killed `kill_count` times in a run of about `seconds`."""
    paths = corpus_files(corpus, limit)
    with TemporaryDirectory() as name:
        top = Path(name)
        folder = copy_files(paths, corpus, top / "corpus")
        text_count = len({text for path in paths for text in _chunk_texts(path)})
        pause = seconds * PARALLEL / text_count
        async with run_local_server(top) as url:
            for trial_name in ("calm", "killed"):
                (top / trial_name).mkdir()
            trials = [
                IndexingTrial(
                    create_database(url, trial_name), folder, top / trial_name, _CACHE, pause, limit=3600.0
                )
                for trial_name in ("calm", "killed")
            ]
            started = time.perf_counter()
            calm = await trials[0].run([])
            print(
                f"kills: undisturbed, {len(paths)} files, {calm.texts_embedded:,} texts embedded"
                f" in {time.perf_counter() - started:.0f} s",
                flush=True,
            )
            result = await trials[1].run(kill_schedule(random.Random(), kill_count, calm.texts_embedded, 0.5))
        embedded_again = result.texts_embedded - calm.texts_embedded
        differing = differing_items(calm.index, result.index)
        print(
            f"kills: {result.kills} kills, items {result.statuses}, invariant violations {result.violations};"
            f" {len(differing)} of {len(calm.index)} items differ; {embedded_again:,} texts embedded twice,"
            f" {embedded_again / max(1, result.kills):.1f} for each kill"
        )
        shutil.rmtree(folder)


def _chunk_texts(path: Path) -> list[str]:
    chunker = Chunker(HashedEmbedder().tokenizer, DEFAULT_TOKENS)
    text = path.read_text(encoding="utf-8")
    return [piece.text for piece in [*chunker.feed(text), *chunker.finish()]]
