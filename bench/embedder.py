"""Speed and quality of the default embedder: `python bench/embedder.py [--ir FOLDER]`.

Prints the time to convert and to load the model, texts of about 200 tokens per second on one and two threads,
compared with a baseline in the same run (the same model in float32, onnxruntime's own threads, padded batches of 32),
the resident memory, and with `--ir` the nDCG@10 of the vectors alone over a corpus in BEIR's layout:
corpus.jsonl, queries.jsonl, qrels.tsv or qrels/test.tsv.
"""

import argparse
import asyncio
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np

from gristmill.embedding import Embedder, LocalEmbedder, granite, granite_pack
from gristmill.embedding.onnx_session import open_session

BATCH = 32
PADDING = 1
SENTENCES = (
    "A worker claims no more jobs than its pipeline can hold, so that pressure reaches the queue.",
    "The switch from the old version to the new one is a single transaction, fenced by a lease.",
    "Boundary layers on a flat plate were studied at high Mach numbers with zero pressure gradient.",
    "Extraction runs in child processes with limits on memory, processor time and wall time.",
    "Every chunk carries exact offsets into the canonical content, its headings and its page.",
)

LOAD = """
import asyncio, pathlib, sys, time
from gristmill.embedding import LocalEmbedder
embedder = LocalEmbedder(pathlib.Path(sys.argv[1]), threads=1)
wall, cpu = time.perf_counter(), time.process_time()
asyncio.run(embedder.load())
print(f"{time.perf_counter() - wall:8.2f} s, {time.process_time() - cpu:.2f} CPU-s")
"""


def sample_texts(count: int) -> list[str]:
    """Texts of about 200 tokens, from 150 to 250, no two alike."""
    return [
        f"Report {n}. " + " ".join(SENTENCES[(n + k) % len(SENTENCES)] for k in range(8 + n * 7 % 6))
        for n in range(count)
    ]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", type=int, default=96, help="texts in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ir", type=Path, help="a corpus in BEIR's layout")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        started = resident_megabytes()
        measure_loading(Path(folder))
        one_thread, two_threads = (
            LocalEmbedder(Path(folder), threads=1),
            LocalEmbedder(Path(folder), threads=2),
        )
        await two_threads.load()
        await two_threads.embed_documents(sample_texts(32))
        print(
            f"resident memory           {resident_megabytes():8.0f} MB, {started:.0f} before the model was loaded"
        )
        await measure_throughput(one_thread, two_threads, sample_texts(options.texts), options.rounds)
        await measure_latency(two_threads)
        if options.ir:
            print(f"nDCG@10 of {options.ir.name:14} {await ndcg(two_threads, options.ir):8.3f}")
        await one_thread.close()
        await two_threads.close()


def measure_loading(folder: Path) -> None:
    """Time the first load, which converts the model, and a later one, each in a new process, with imports."""
    for label in ("first load, converting", "later loads"):
        command = [sys.executable, "-c", LOAD, str(folder)]
        print(
            f"{label:25} {subprocess.run(command, check=True, capture_output=True, text=True).stdout}", end=""
        )


async def measure_throughput(
    one_thread: Embedder, two_threads: Embedder, texts: list[str], rounds: int
) -> None:
    """Run all contenders in every round, so that other load on the machine affects them alike; print medians."""
    baseline = Baseline()
    tokens = statistics.mean(one_thread.count_tokens(text) for text in texts)
    print(f"{len(texts)} texts of {tokens:.0f} tokens, {rounds} rounds:")
    contenders: dict[str, Callable[[], Awaitable[object]]] = {
        "1 thread": lambda: one_thread.embed_documents(texts),
        "2 threads": lambda: two_threads.embed_documents(texts),
        f"float32, batches of {BATCH}": lambda: asyncio.to_thread(baseline.embed, texts),
    }
    rates: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        for label, run in contenders.items():
            began = time.perf_counter()
            await run()
            if number > 0:  # the first round warms up
                rates[label].append(len(texts) / (time.perf_counter() - began))
    for label, samples in rates.items():
        middle, low, high = statistics.median(samples), min(samples), max(samples)
        print(f"  {label:23} {middle:8.1f} texts/s ({low:.1f} to {high:.1f})")


async def measure_latency(embedder: Embedder) -> None:
    """Time queries alone, and while documents keep all threads busy."""
    await measure_queries(embedder, "a query, idle")
    documents = asyncio.create_task(embedder.embed_documents(sample_texts(5000)))
    await measure_queries(embedder, "a query, busy")
    documents.cancel()
    await asyncio.gather(documents, return_exceptions=True)


async def measure_queries(embedder: Embedder, label: str) -> None:
    waits: list[float] = []
    for _ in range(200):
        began = time.perf_counter()
        await embedder.embed_query("which worker holds the lease of this job?")
        waits.append(1000 * (time.perf_counter() - began))
    p95 = statistics.quantiles(waits, n=20)[-1]
    print(f"{label:25} {statistics.median(waits):8.1f} ms, {p95:.1f} at the 95th percentile")


class Baseline:
    """The same model, run without optimisation."""

    def __init__(self) -> None:
        self._tokenizer = granite_pack.tokenizer(granite_pack.find())
        # 0 leaves the number of threads to onnxruntime.
        self._session = open_session(
            granite.convert(granite_pack.read(granite_pack.find()), exact=True), threads=0
        )

    def embed(self, texts: list[str]) -> None:
        """Embed, for timing only: padding is not masked, so padded vectors are wrong."""
        for start in range(0, len(texts), BATCH):
            rows = [encoded.ids for encoded in self._tokenizer.encode_batch(texts[start : start + BATCH])]
            ids = np.full((len(rows), max(map(len, rows))), PADDING, np.int64)
            for index, row in enumerate(rows):
                ids[index, : len(row)] = row
            self._session.run(None, {"ids": ids})


async def ndcg(embedder: Embedder, folder: Path, depth: int = 10, questions: Embedder | None = None) -> float:
    """Mean nDCG over the queries that have a judged document; `questions` embeds these, if not the same embedder."""
    documents = read_lines(folder / "corpus.jsonl")
    judgements = read_judgements(folder)
    judged_queries = [query for query in read_lines(folder / "queries.jsonl") if query["_id"] in judgements]
    vectors = await embedder.embed_documents([document_text(document) for document in documents])
    query_vectors = np.stack(
        [await (questions or embedder).embed_query(query["text"]) for query in judged_queries]
    )
    scores: list[float] = []
    best: list[list[int]] = np.argsort(-(query_vectors @ vectors.T), axis=1)[:, :depth].tolist()
    for query, ranking in zip(judged_queries, best, strict=True):
        grades = judgements[query["_id"]]
        gains = [grades.get(documents[index]["_id"], 0) for index in ranking]
        scores.append(discounted_gain(gains) / discounted_gain(sorted(grades.values(), reverse=True)[:depth]))
    return statistics.mean(scores)


def discounted_gain(gains: list[int]) -> float:
    return sum(gain / np.log2(rank + 2) for rank, gain in enumerate(gains))


def document_text(document: dict[str, str]) -> str:
    title, text = document.get("title", ""), document["text"]
    return text if text.startswith(title) else f"{title}\n{text}"


def read_lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_judgements(folder: Path) -> dict[str, dict[str, int]]:
    candidates = (folder / "qrels.tsv", folder / "qrels" / "test.tsv")
    judgements: dict[str, dict[str, int]] = defaultdict(dict)
    with next(place for place in candidates if place.is_file()).open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if int(row["score"]) > 0:
                judgements[row["query-id"]][row["corpus-id"]] = int(row["score"])
    return judgements


def resident_megabytes() -> float:
    """Resident memory of this process in megabytes (Linux; 0 elsewhere)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    asyncio.run(main())
