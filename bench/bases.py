"""Many bases, and the removal of a large one: `python -m bench.bases [--bases 20000] [--chunks 100000] [--rounds 300]`.

    create, search    two databases on one new PostgreSQL, with 100 bases and with N, each base with a document. Bases are
                      created over the API, filled and searched (hybrid, at once and again), in turns in both databases
    compaction        the check for bases that need it, which every worker makes every few seconds, in turns in both;
                      it looks at up to 250 bases, so that it may take longer beside more than that, but not beside many more
    removal           three bases of M chunks are deleted over the API and removed by a `gristmill worker`, while one caller
                      searches another base of 2,000 chunks; before each the same searches without a removal. The
                      percentiles are those of all three

The exit code is 1 when creating or searching costs more than 1.3 times as much beside N bases as beside 100 (median), or a
removal delays the p99 or the slowest of the searches by more than 50 ms.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import httpx
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from bench.synthetic_base import DIMENSIONS, Synthetic, write_chunks
from gristmill import app, catalog, jobs
from gristmill.catalog import Base, BaseId
from gristmill.db import Database, Tx, local_server
from gristmill.search import Chunk, compaction
from gristmill.search.lexer import LEXER_VERSION
from gristmill.settings import Settings
from tests.api_calls import make_base, search, wait_for_job
from tests.embedding.hashed import HashedEmbedder
from tests.gristmill_process import environment
from tests.search.published_items import publish_version, write

FEW, SEARCHED_CHUNKS, REMOVALS = 100, 2_000, 3
GROWTH_LIMIT, DELAY_LIMIT = 1.3, 50.0
CHECK = "compaction check"
EMBEDDER = HashedEmbedder(dimensions=DIMENSIONS)
_FILL = """
with new_base as (
    insert into base (name, embedder, embedder_identity, dimensions)
    select 'base ' || n, %(embedder)s, %(identity)s, %(dimensions)s
      from generate_series(%(first)s::int, %(last)s::int) n returning id),
new_item as (
    insert into item (base_id, type, title, status, source_key, live_version, chunk_count, body)
    select id, 'note', 'note', 'completed', 'note', 1, 5, 'rye' from new_base returning id, base_id),
new_segment as (
    insert into segment (set_id, lexer_version, chunks, tokens, languages, nos, items, lengths, signs)
    select id, %(lexer)s, 5, 5, '{}', '', '', '', '' from new_base)
insert into chunk (set_id, item_id, version, index, text, text_hash, start, "end", embedding)
select base_id, id, 1, n, repeat('rye and oats ', 60), gen_random_uuid(), 0, 780,
       (select array_agg(random())::real[]::halfvec from generate_series(1, %(dimensions)s) where n >= 0)
  from new_item, generate_series(0, 4) n
"""


@dataclass(frozen=True)
class Side:
    """A Gristmill without a worker on a database of its own."""

    mill: app.Gristmill
    http: httpx.AsyncClient
    scheduler: compaction.CompactionScheduler


@asynccontextmanager
async def open_side(url: str, folder: Path, bases: int) -> AsyncGenerator[Side]:
    """A new database with so many bases, served in this process."""
    settings = Settings.model_validate(
        {
            "data_dir": folder,
            "cache_dir": folder / "cache",
            "database_url": url,
            "port": 0,
            "embedder": "hashed",
            "reconcile_cron": "0 0 29 2 *",
        }
    )
    async with app.gristmill(settings, work=False, extra_embedders={"hashed": EMBEDDER}) as mill:
        await add_bases(mill.db, bases)
        transport = httpx.ASGITransport(app=mill.api)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
            yield Side(mill, http, compaction.CompactionScheduler(mill.db))


async def add_bases(db: Database, count: int) -> None:
    """Insert bases with a document of five chunks each."""
    for first in range(0, count, 1000):
        async with db.transaction() as tx:
            await tx.execute(
                _FILL,
                {
                    "first": first,
                    "last": min(first + 1000, count) - 1,
                    "embedder": EMBEDDER.name,
                    "identity": EMBEDDER.identity,
                    "dimensions": DIMENSIONS,
                    "lexer": LEXER_VERSION,
                },
            )
    async with db.connection() as tx:
        await tx.execute("vacuum analyze")


# ── few bases and many ───────────────────────────────────────────────────────────────────────────────────


async def milliseconds(work: Awaitable[object]) -> float:
    """How long something takes."""
    started = time.perf_counter()
    await work
    return 1000 * (time.perf_counter() - started)


async def write_note(tx: Tx, base: Base) -> None:
    """Publish a document of twenty chunks."""
    (item,) = await catalog.insert_items(tx, base.id, None, [catalog.NewItem("note", "note", "note")])
    texts = [f"sack {number} of rye" for number in range(20)]
    chunks = [Chunk(n, text, 0, len(text), (), EMBEDDER.vector(text)) for n, text in enumerate(texts)]
    await write(tx, base, [(item, 1, chunks)])
    await publish_version(tx, [item], 1, len(chunks))


async def measure_round(side: Side, name: str) -> dict[str, float]:
    """Create, fill and search a base; the milliseconds of each step."""
    started = time.perf_counter()
    base_id = await make_base(side.http, name)
    times = {"create": 1000 * (time.perf_counter() - started)}
    async with side.mill.db.transaction() as tx:
        base = await catalog.find_base(tx, BaseId(UUID(base_id)))
        assert base is not None
        await write_note(tx, base)
    times["search at once"] = await milliseconds(search(side.http, base_id, "sack of rye"))
    times["search again"] = await milliseconds(search(side.http, base_id, "which sack of rye"))
    times[CHECK] = await milliseconds(side.scheduler.queue_due())
    return times


async def compare_sides(few: Side, many: Side, bases: int, rounds: int) -> bool:
    """Measure both databases in turns; whether the larger one is hardly slower."""
    times: dict[str, tuple[list[float], list[float]]] = {}
    for number in range(-20, rounds):  # the first ones warm up
        for place, side in enumerate((few, many)):
            for step, took in (await measure_round(side, f"new {number}")).items():
                if number >= 0:
                    times.setdefault(step, ([], []))[place].append(took)
    passed = True
    for step, (small, large) in times.items():
        growth = statistics.median(large) / statistics.median(small)
        passed &= growth <= GROWTH_LIMIT or step == CHECK
        print(
            f"{step:17} beside {FEW}: {summary(small)}   beside {bases:,}: {summary(large)}   {growth:.2f} ×"
        )
    return passed


def summary(times: Sequence[float]) -> str:
    """Median and p95 in milliseconds."""
    return f"{statistics.median(times):6.1f} (p95 {statistics.quantiles(times, n=20)[-1]:6.1f}) ms"


# ── removal ──────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def run_worker(url: str, folder: Path) -> Generator[None]:
    """A `gristmill worker` on the database."""
    with (folder / "worker.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "gristmill", "worker"],
            env=environment(folder / "worker", folder / "cache", database_url=url),
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


async def filled_base(side: Side, name: str, chunks: int) -> Base:
    """A new base with so many chunks."""
    base_id = BaseId(UUID(await make_base(side.http, name)))
    async with side.mill.db.connection() as tx:
        base = await catalog.find_base(tx, base_id)
    assert base is not None
    await write_chunks(side.mill.db, base, chunks)
    return base


async def wait_until_compacted(mill: app.Gristmill) -> None:
    """Wait until compaction has nothing left to do."""
    while True:
        job_count = await compaction.CompactionScheduler(mill.db).queue_due()
        async with mill.db.connection() as tx:
            waiting = await jobs.counts(tx)
        if not job_count and not waiting:
            return
        await asyncio.sleep(0.5)


async def search_until(side: Side, base: Base, queries: Iterator[str], ended: asyncio.Event) -> list[float]:
    """The times of searches, one after the other with a little pause."""
    times: list[float] = []
    while not ended.is_set():
        times.append(await milliseconds(search(side.http, str(base.id), next(queries))))
        await asyncio.sleep(0.005)
    return times


async def search_beside_removal(
    side: Side, searched: Base, large: Base, queries: Iterator[str]
) -> tuple[list[float], list[float]]:
    """The times of searches before a removal and during it."""
    ended = asyncio.Event()
    asyncio.get_running_loop().call_later(10, ended.set)
    quiet = await search_until(side, searched, queries, ended)
    ended = asyncio.Event()

    async def remove() -> None:
        started = time.perf_counter()
        deletion = await side.http.delete(f"/api/knowledge-bases/{large.id}")
        job = await wait_for_job(side.http, deletion.json()["jobId"])
        ended.set()
        took = time.perf_counter() - started
        print(f"{job['result']['chunks']:,} chunks removed in {took:.1f} s", flush=True)

    removal = asyncio.create_task(remove())
    busy = await search_until(side, searched, queries, ended)
    await removal
    return quiet, busy


def p99(times: Sequence[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(times, n=100)[-1]


def percentiles(times: Sequence[float]) -> str:
    """Median, p99 and maximum in milliseconds."""
    return f"median {statistics.median(times):.1f}, p99 {p99(times):.1f}, slowest {max(times):.1f} ms ({len(times)})"


async def measure_removals(side: Side, url: str, folder: Path, chunks: int) -> bool:
    """Fill the bases, and remove the large ones one after the other; whether that delayed no search much."""
    searched = await filled_base(side, "searched", SEARCHED_CHUNKS)
    large = [await filled_base(side, f"large {number}", chunks) for number in range(REMOVALS)]
    synthetic = Synthetic(seed=11)
    queries = iter(synthetic.question, None)
    quiet: list[float] = []
    busy: list[float] = []
    with run_worker(url, folder):
        await wait_until_compacted(side.mill)
        for base in large:
            times = await search_beside_removal(side, searched, base, queries)
            quiet += times[0]
            busy += times[1]
    delays = [p99(busy) - p99(quiet), max(busy) - max(quiet)]
    print(f"searches in another base, without a removal: {percentiles(quiet)}")
    print(f"searches in another base, during removals:   {percentiles(busy)}")
    print(f"p99 {delays[0]:+.1f} ms, slowest {delays[1]:+.1f} ms")
    return max(delays) <= DELAY_LIMIT


# ── the run ──────────────────────────────────────────────────────────────────────────────────────────────


def create_database(server_url: str, name: str) -> str:
    """A new database on the server; its URL."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    return make_conninfo(server_url, dbname=name)


async def run(folder: Path, bases: int, chunks: int, rounds: int) -> bool:
    """Measure and print; whether all limits hold."""
    server = local_server.start(folder / "server")
    try:
        few_url, many_url = (create_database(server.url, name) for name in ("few", "many"))
        async with (
            open_side(few_url, folder / "few", FEW) as few,
            open_side(many_url, folder / "many", bases) as many,
        ):
            passed = await compare_sides(few, many, bases, rounds)
            return await measure_removals(many, many_url, folder, chunks) and passed
    finally:
        server.close()


def main() -> int:
    """Measure; 1 when a limit does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bases", type=int, default=20_000)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gristmill-bases-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # as root, PostgreSQL runs as another user
        passed = asyncio.run(run(Path(folder), options.bases, options.chunks, options.rounds))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
