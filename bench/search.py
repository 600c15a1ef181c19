"""Speed, recall and memory of the embedded index: `python -m bench.search [--chunks N] [--rounds N] [--data DIR] [--cache-mb N]`.

A base of N chunks (`bench/synthetic_base.py`) is written into a new PostgreSQL, or found in DIR if an earlier run has written it
there. Every question and vector is new to the process: none has been searched for before. Prints, from interleaved rounds in
one run:

    first       the first hybrid search of a process, and the memory of the process before and after 20 searches
    vectors     recall@10 against an exact search
    words       ordinary questions, and the five most common words
    hybrid      with the default embedder, including the embedding of the question
    visible     vectors (with their recall@10) and hybrid, for callers who see 0.1, 1, 10 and 50 % of the documents
    merges      hybrid, while another process merges segments as compaction does
    ingest      hybrid, while a worker embeds and writes notes

The exit code is 1 when a goal is missed: at a million chunks p95 of hybrid below 120 ms, of words below 100 ms and for callers
who see 10 % below 200 ms; at 200,000 p95 of hybrid below 50 ms.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import httpx

from bench.memory import pss_mb
from bench.synthetic_base import GROUP_INTERVALS, Synthetic, Vectors, open_base, word
from gristmill import app, niceness
from gristmill.catalog import Base, Viewer
from gristmill.search import Scope, SearchRequest, Target, store
from gristmill.search import vector_search as nearest
from gristmill.search.segment_cache import SegmentCache
from gristmill.search.selectivity import measure_selectivity
from gristmill.settings import Settings

GOALS: Mapping[int, Mapping[str, float]] = {
    200_000: {"hybrid": 50},
    1_000_000: {"hybrid": 120, "words": 100, "vectors, 10 % visible": 200, "hybrid, 10 % visible": 200},
}
_WARM_SEARCHES = 20

Work = Callable[[], Awaitable[object]]


def format_times(times: Sequence[float]) -> str:
    return f"median {statistics.median(times):7.1f} ms   p95 {p95(times):7.1f} ms"


def p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


async def time_call(work: Work) -> float:
    started = time.perf_counter()
    await work()
    return 1000 * (time.perf_counter() - started)


async def run_interleaved(calls: Mapping[str, Sequence[Work]]) -> dict[str, list[float]]:
    """Run the n-th call of every kind, then the next, so that other load affects all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for row in zip(*calls.values(), strict=True):
        for name, work in zip(calls, row, strict=True):
            times[name].append(await time_call(work))
    return times


def scope_of(group: str) -> Scope:
    return Scope(Viewer(frozenset({f"group:{group}"})))


def share(group: str) -> str:
    return f"{100 / GROUP_INTERVALS[group]:g} % visible"


class SearchBench:
    """The measured searches."""

    def __init__(self, mill: app.Gristmill, base: Base, rounds: int, cache_bytes: int) -> None:
        self.mill, self.base, self.rounds = mill, base, rounds
        self._synthetic = Synthetic(seed=23)
        self._cache = SegmentCache(cache_bytes)
        self._common = " ".join(word(rank) for rank in range(5))

    def words(self) -> list[Work]:
        target = Target(self.base, None)
        questions = [self._synthetic.question() for _ in range(self.rounds)]
        return [self._search(target, SearchRequest(question, mode="text")) for question in questions]

    def common_words(self) -> list[Work]:
        request = SearchRequest(self._common, mode="text")
        return [self._search(Target(self.base, None), request)] * self.rounds

    def hybrid(self, group: str | None = None) -> list[Work]:
        target = Target(self.base, self.mill.embedders.default)
        viewer = scope_of(group).viewer if group else Scope().viewer
        questions = [self._synthetic.question() for _ in range(self.rounds)]
        return [self._search(target, SearchRequest(question, viewer=viewer)) for question in questions]

    def vectors(self, group: str | None = None) -> list[Work]:
        scope = scope_of(group) if group else Scope()
        return [self._nearest(vector, scope) for vector in self._synthetic.vectors(self.rounds)]

    def _search(self, target: Target, request: SearchRequest) -> Work:
        return lambda: self.mill.searcher.search([target], request)

    def _nearest(self, vector: Vectors, scope: Scope) -> Callable[[], Awaitable[list[int]]]:
        async def run() -> list[int]:
            async with store.read_transaction(self.mill.db) as tx:
                selectivity = await measure_selectivity(tx, self.base.id, scope)
            hits = await nearest.search(self.mill.db, self._cache, self.base, scope, selectivity, vector, 10)
            return [hit.no for hit in hits]

        return run

    async def recall(self, scope: Scope, rounds: int) -> tuple[float, int]:
        """Recall@10 against a statement that compares all vectors, and the fewest hits of ten."""
        recalls: list[float] = []
        fewest = 10
        for vector in self._synthetic.vectors(rounds):
            async with store.read_transaction(self.mill.db) as tx:
                rows = await store.nearest_chunks(tx, self.base, scope, vector, 10)
            expected = {row.no for row in rows}
            numbers = await self._nearest(vector, scope)()
            recalls.append(len(expected & set(numbers)) / max(1, len(expected)))
            fewest = min(fewest, 10 - (len(expected) - len(numbers)))
        return statistics.fmean(recalls), fewest


async def measure_start(bench: SearchBench, chunks: int) -> None:
    """The first searches of a process."""
    before = pss_mb(os.getpid())
    first, *others = bench.hybrid()
    print(f"{'first search':28}  {await time_call(first):.0f} ms")
    for work in [*others, *bench.hybrid()][:_WARM_SEARCHES]:
        await work()
    after = pss_mb(os.getpid())
    print(
        f"{'memory of the process':28}  {before:.0f} MB, after {_WARM_SEARCHES} searches {after:.0f} MB: "
        f"{(after - before) * 2**20 / chunks:.0f} bytes per chunk"
    )


async def measure(bench: SearchBench) -> dict[str, list[float]]:
    for work in bench.vectors()[:3]:
        await work()
    calls = {
        "vectors": bench.vectors(),
        "words": bench.words(),
        "five most common words": bench.common_words(),
        "hybrid": bench.hybrid(),
    }
    for group in GROUP_INTERVALS:
        calls |= {
            f"vectors, {share(group)}": bench.vectors(group),
            f"hybrid, {share(group)}": bench.hybrid(group),
        }
    times = await run_interleaved(calls)
    for name, samples in times.items():
        print(f"{name:28}  {format_times(samples)}", flush=True)
    return times


async def measure_recall(bench: SearchBench, rounds: int) -> None:
    scopes = {"all": Scope()} | {share(group): scope_of(group) for group in GROUP_INTERVALS}
    for name, scope in scopes.items():
        recall, fewest = await bench.recall(scope, rounds)
        print(f"{'recall@10, ' + name:28}  {recall:.3f}, fewest of ten {fewest}", flush=True)


@contextlib.asynccontextmanager
async def merging(bench: SearchBench) -> AsyncGenerator[None]:
    """Another process merges segments of the base, and throws the result away, for the length of the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.merge_segments", bench.mill.db.url, str(bench.base.id)
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def ingesting(bench: SearchBench) -> AsyncGenerator[None]:
    """Notes are embedded and written for the length of the block, by the worker of this process."""
    transport = httpx.ASGITransport(app=bench.mill.api)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=600) as http:
        created = await http.post("/api/knowledge-bases", json={"name": f"bulk {time.time()}"})
        address = f"/api/knowledge-bases/{created.json()['id']}"
        notes = [
            {"type": "note", "title": f"bulk {n}", "content": "The miller sharpens the stones. " * 30}
            for n in range(2000)
        ]
        await http.post(f"{address}/items", json={"items": notes})
        yield
        await http.delete(address)


async def measure_beside(bench: SearchBench) -> None:
    """Hybrid searches beside other work, and idle in the same minutes."""
    for name, other_work in {"merges": merging, "ingest": ingesting}.items():
        idle = [await time_call(work) for work in bench.hybrid()]
        async with other_work(bench):
            busy = [await time_call(work) for work in bench.hybrid()]
        print(f"{'hybrid, idle':28}  {format_times(idle)}")
        print(
            f"{'hybrid, beside ' + name:28}  {format_times(busy)}   {p95(busy) / p95(idle):.1f} × idle",
            flush=True,
        )


async def run(chunks: int, rounds: int, recall_rounds: int, data_dir: Path, cache_mb: int | None) -> bool:
    """Measure; whether the goals are met."""
    settings = Settings(data_dir=data_dir, port=0)
    cache_mb = cache_mb or settings.search_cache_mb
    async with app.gristmill(settings.model_copy(update={"search_cache_mb": cache_mb}), work=True) as mill:
        await mill.embedders.default.load()
        niceness.favour_event_loop()  # as a server does
        started = time.perf_counter()
        base = await open_base(mill, data_dir, chunks)
        print(
            f"{chunks:,} chunks ready after {time.perf_counter() - started:.0f} s; search_cache_mb {cache_mb}",
            flush=True,
        )
        bench = SearchBench(mill, base, rounds, cache_mb * 2**20)
        await measure_start(bench, chunks)
        times = await measure(bench)
        await measure_recall(bench, recall_rounds)
        await measure_beside(bench)
    return all([*check_goals(times, GOALS.get(chunks, {}))])


def check_goals(times: Mapping[str, Sequence[float]], goals: Mapping[str, float]) -> Iterator[bool]:
    for name, goal in goals.items():
        is_met = p95(times[name]) < goal
        print(f"{'met' if is_met else 'MISSED'}: p95 of {name} {p95(times[name]):.0f} ms, goal {goal:.0f} ms")
        yield is_met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chunks", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--recall-rounds", type=int, default=20, help="each compares all vectors")
    parser.add_argument("--data", type=Path, help="a data dir to keep; by default a temporary one")
    parser.add_argument("--cache-mb", type=int, help="search_cache_mb")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        data_dir = options.data or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="gristmill-search-"))
        )
        data_dir.mkdir(parents=True, exist_ok=True)
        is_met = asyncio.run(
            run(options.chunks, options.rounds, options.recall_rounds, data_dir, options.cache_mb)
        )
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
