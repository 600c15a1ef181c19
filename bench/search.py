"""Speed and recall of search: `uv run python -m bench.search [--chunks N] [--rounds N]`.

A base of N chunks is written into a new PostgreSQL: texts of words with natural frequencies (Zipf), ten chunks a document,
vectors of 384 dimensions in overlapping clusters. One document in a thousand, one in a hundred and one in ten is visible to
the groups `few`, `some` and `many`. Prints, from interleaved rounds in one run:

    vectors     recall@10 against an exact search, and p95 compared with the bare SQL statement of an exact search
    words       p95 for ordinary questions, and for the five most common words
    hybrid      p95 with the default embedder, including the embedding of the question
    visible     recall@10 for callers who see 0.1, 1 and 10 % of the documents, against an exact search of what they see
    ingest      p95 of the same searches while a worker embeds and writes notes, compared with idle
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray

from gristmill import app, catalog, jobs
from gristmill.catalog import Base, Viewer
from gristmill.db import Database
from gristmill.search import (
    Chunk,
    Scope,
    SearchRequest,
    Target,
    compaction,
    store,
)
from gristmill.search import (
    vector_search as nearest,
)
from gristmill.search.segment_cache import SegmentCache
from gristmill.search.selectivity import measure_selectivity
from gristmill.settings import Settings
from tests.search.published_items import publish_version, write

DIMENSIONS = 384
PER_ITEM = 10
WORDS = 130
BATCH = 2000
VOCABULARY = 200_000
GROUP_INTERVALS = {"few": 1000, "some": 100, "many": 10}

Vectors = NDArray[np.float32]
Work = Callable[[], Awaitable[object]]


class Synthetic:
    """Texts, questions and vectors, generated from one seed."""

    def __init__(self, seed: int = 7) -> None:
        self._rng = np.random.default_rng(seed)
        self._centres = self._rng.standard_normal((2000, DIMENSIONS)).astype(np.float32)
        weights = 1 / np.arange(1, VOCABULARY + 1)
        self._cumulative_weights = np.cumsum(weights / weights.sum())

    def words(self, count: int) -> list[str]:
        ranks = np.searchsorted(self._cumulative_weights, self._rng.random(count))
        return [word(int(rank)) for rank in ranks]

    def question(self) -> str:
        """Six words, as in typical questions: a common one, and rarer ones."""
        ranks = [int(self._rng.integers(0, 50)), *(int(10 ** self._rng.uniform(2, 4.5)) for _ in range(5))]
        return " ".join(word(rank) for rank in ranks)

    def vectors(self, count: int) -> Vectors:
        centres = self._centres[self._rng.integers(0, len(self._centres), count)]
        vectors = centres + 1.2 * self._rng.standard_normal((count, DIMENSIONS)).astype(np.float32)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def word(rank: int) -> str:
    """The word of a rank: only letters, and no ending that a stemmer would remove."""
    letters = ""
    rank += 26
    while rank:
        rank, letter = divmod(rank, 20)
        letters += "bcdfghjklmnpqrtvwxzk"[letter]
    return f"a{letters}o"


async def fill(db: Database, base: Base, chunks: int, synthetic: Synthetic) -> None:
    """Write the chunks, ten a document, as a worker would."""
    for start in range(0, chunks, BATCH):
        vectors, words = synthetic.vectors(BATCH), synthetic.words(BATCH * WORDS)
        texts = [" ".join(words[n * WORDS : (n + 1) * WORDS]) for n in range(BATCH)]
        numbers = range(start // PER_ITEM, (start + BATCH) // PER_ITEM)
        new = [
            catalog.NewItem(
                "note",
                f"note {n}",
                f"{n}",
                acl=[f"group:{g}" for g, interval in GROUP_INTERVALS.items() if n % interval == 0],
            )
            for n in numbers
        ]
        async with db.transaction() as tx:
            items = await catalog.insert_items(tx, base.id, None, new)
            batch = [
                (
                    item,
                    1,
                    [
                        Chunk(k, texts[index], 0, 1, (), vectors[index])
                        for k, index in enumerate(range(n, n + PER_ITEM))
                    ],
                )
                for n, item in zip(range(0, BATCH, PER_ITEM), items, strict=True)
            ]
            await write(tx, base, batch)
            await publish_version(tx, items, 1, PER_ITEM)


async def wait_until_compacted(mill: app.Gristmill) -> None:
    """Wait until compaction has nothing left to do."""
    while True:
        job_count = await compaction.CompactionScheduler(mill.db).queue_due()
        async with mill.db.connection() as tx:
            waiting = await jobs.counts(tx)
        if not job_count and not waiting:
            return
        await asyncio.sleep(0.5)


def format_times(times: Sequence[float]) -> str:
    return f"median {statistics.median(times):7.1f} ms   p95 {p95(times):7.1f} ms"


def p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


async def time_call(work: Work) -> float:
    started = time.perf_counter()
    await work()
    return 1000 * (time.perf_counter() - started)


async def run_interleaved(calls: dict[str, Sequence[Work]]) -> dict[str, list[float]]:
    """Run the n-th call of every kind, then the next, so that other load affects all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for row in zip(*calls.values(), strict=True):
        for name, work in zip(calls, row, strict=True):
            times[name].append(await time_call(work))
    return times


class SearchBench:
    """The measured searches."""

    def __init__(self, mill: app.Gristmill, base: Base, synthetic: Synthetic, rounds: int) -> None:
        self.mill, self.base, self.rounds = mill, base, rounds
        self.vectors = list(synthetic.vectors(rounds))
        self.questions = [synthetic.question() for _ in range(rounds)]
        self.shelf = SegmentCache(2**30)
        self.common = " ".join(word(rank) for rank in range(5))

    def keyword_search(self, query: str) -> Work:
        return lambda: self.mill.searcher.search([Target(self.base, None)], SearchRequest(query, mode="text"))

    def hybrid_search(self, query: str) -> Work:
        # A new question, so that it is not in the cache and has to be embedded.
        target = Target(self.base, self.mill.embedders.default)
        return lambda: self.mill.searcher.search([target], SearchRequest(query + " ?"))

    def vector_search(self, vector: Vectors, scope: Scope) -> Callable[[], Awaitable[list[int]]]:
        async def run() -> list[int]:
            async with store.read_transaction(self.mill.db) as tx:
                selectivity = await measure_selectivity(tx, self.base.id, scope)
            hits = await nearest.search(
                self.mill.db, self.shelf, self.base.id, scope, selectivity, vector, 10
            )
            return [hit.no for hit in hits]

        return run

    def bare_sql(self, vector: Vectors) -> Work:
        """The plain SQL statement over the table."""
        literal = store.vector_literal(vector)

        async def run() -> object:
            async with self.mill.db.connection() as tx:
                cursor = await tx.execute(
                    "select no from chunk where base_id = %s order by embedding <=> %s::halfvec limit 10",
                    [self.base.id, literal],
                    prepare=False,
                )
                return await cursor.fetchall()

        return run

    async def exact_neighbours(self, vector: Vectors, scope: Scope) -> list[int]:
        async with store.read_transaction(self.mill.db) as tx:
            return [row.no for row in await store.nearest_chunks(tx, self.base.id, scope, vector, 10)]

    async def measure_recall(self, scope: Scope, rounds: int) -> tuple[float, list[float], int]:
        recalls: list[float] = []
        times: list[float] = []
        fewest = 10
        for vector in self.vectors[:rounds]:
            expected = set(await self.exact_neighbours(vector, scope))
            started = time.perf_counter()
            numbers = await self.vector_search(vector, scope)()
            times.append(1000 * (time.perf_counter() - started))
            recalls.append(len(expected & set(numbers)) / max(1, len(expected)))
            fewest = min(fewest, 10 - (len(expected) - len(numbers)))
        return statistics.fmean(recalls), times, fewest


async def measure(bench: SearchBench) -> None:
    await bench.vector_search(bench.vectors[0], Scope())()
    await bench.keyword_search(bench.common)()
    recall, _, _ = await bench.measure_recall(Scope(), bench.rounds)
    print(f"vectors, recall@10            {recall:.3f}")
    times = await run_interleaved(
        {
            "vectors": [bench.vector_search(vector, Scope()) for vector in bench.vectors],
            "bare SQL": [bench.bare_sql(vector) for vector in bench.vectors],
            "words": [bench.keyword_search(query) for query in bench.questions],
            "five most common words": [bench.keyword_search(bench.common)] * bench.rounds,
            "hybrid, embedding included": [bench.hybrid_search(query) for query in bench.questions],
        }
    )
    for name, samples in times.items():
        print(f"{name:28}  {format_times(samples)}")
    print(f"vectors to bare SQL           {p95(times['vectors']) / p95(times['bare SQL']):.2f} of its p95")
    for group in GROUP_INTERVALS:
        recall, samples, fewest = await bench.measure_recall(
            Scope(Viewer(frozenset({f"group:{group}"}))), bench.rounds // 2
        )
        print(
            f"visible to {group:17}  {format_times(samples)}   recall@10 {recall:.3f}, fewest of ten {fewest}"
        )


async def during_ingest(bench: SearchBench) -> None:
    """Run the same hybrid searches idle, and while notes are embedded."""
    questions = [bench.hybrid_search(f"{query} again") for query in bench.questions]
    idle = [await time_call(work) for work in questions]
    transport = httpx.ASGITransport(app=bench.mill.api)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=600) as http:
        bulk_base = (await http.post("/api/knowledge-bases", json={"name": "bulk"})).json()["id"]
        notes = [
            {"type": "note", "title": f"bulk {n}", "content": "The miller sharpens the stones. " * 30}
            for n in range(2000)
        ]
        await http.post(f"/api/knowledge-bases/{bulk_base}/items", json={"items": notes})
        questions = [bench.hybrid_search(f"{query} once more") for query in bench.questions]
        busy = [await time_call(work) for work in questions]
        await http.delete(f"/api/knowledge-bases/{bulk_base}")
    print(f"hybrid, idle                  {format_times(idle)}")
    print(f"hybrid, during a bulk ingest  {format_times(busy)}   {p95(busy) / p95(idle):.1f} × idle")


async def run(chunks: int, rounds: int, data_dir: Path) -> None:
    settings = Settings(data_dir=data_dir, port=0)
    async with app.gristmill(settings, work=True) as mill:
        await mill.embedders.default.load()
        async with mill.db.transaction() as tx:
            base = await catalog.insert_base(
                tx,
                name="bench",
                embedder=mill.embedders.default.name,
                embedder_identity=mill.embedders.default.identity,
                dimensions=DIMENSIONS,
                chunking={},
            )
        assert base is not None
        synthetic = Synthetic()
        started = time.perf_counter()
        await fill(mill.db, base, chunks, synthetic)
        print(f"{chunks} chunks written in {time.perf_counter() - started:.0f} s")
        await wait_until_compacted(mill)
        async with mill.db.connection() as tx:
            await tx.execute("vacuum analyze")
        print(f"… compacted after {time.perf_counter() - started:.0f} s", flush=True)
        bench = SearchBench(mill, base, synthetic, rounds)
        await measure(bench)
        await during_ingest(bench)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chunks", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gristmill-search-") as temporary:
        asyncio.run(run(options.chunks, options.rounds, Path(temporary) / "data"))


if __name__ == "__main__":
    main()
