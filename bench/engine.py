"""A search engine beside the embedded index: `uv run python -m bench.engine [--ir FOLDER...] [--chunks N] [--notes N]`.

Starts three OpenSearch nodes on this machine, which share its cores with everything else, and prints, from interleaved rounds
in one run:

    relevance   nDCG@10 of words, vectors and both, over corpora in BEIR's layout; how many questions have the same ten hits
    recall      recall@10 of vectors against an exact search, for callers who see all, 10, 1 and 0.1 % of a synthetic base,
                where few items are listed and where the engine filters by labels; p50 and p95 beside the embedded index's
    ingest      notes a second into either index, with the default embedder and with one that costs nothing

Compare ratios: the machine is shared.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from pydantic import SecretStr

from bench import relevance
from bench.free_embedder import FreeEmbedder
from bench.synthetic_base import DIMENSIONS, GROUP_INTERVALS, Synthetic, word, write_chunks
from gristmill import app, catalog, jobs, niceness
from gristmill.catalog import ADMIN, Base, BaseId, IndexKind, NewItem, Viewer
from gristmill.operations import add, bases
from gristmill.operations.move_index import move_index
from gristmill.search import Mode, Scope, SearchRequest, Target, selectivity, store
from gristmill.search.fuse import Candidate
from gristmill.search.index.embedded import EmbeddedSearch
from gristmill.search.index.engine_search import EngineSearch
from gristmill.search.index.port import BaseSearch
from gristmill.settings import Settings
from gristmill.sources import NoteSource
from tests.search.opensearch_cluster import run_cluster

KINDS: tuple[IndexKind, ...] = ("embedded", "opensearch")
MODES: tuple[Mode, ...] = ("text", "vector", "hybrid")
VIEWERS = {
    "all": ADMIN,
    **{f"1 in {n}": Viewer(frozenset([f"group:{g}"])) for g, n in GROUP_INTERVALS.items()},
}
UNLIMITED_QUEUE = jobs.QueueLimits(lane=10_000_000, total=10_000_000)


@dataclass(frozen=True)
class Note:
    """A document to add."""

    title: str
    text: str


async def ingest(
    mill: app.Gristmill, kind: IndexKind, notes: Sequence[Note], embedder: str
) -> tuple[Base, float]:
    """Add notes to a new base and wait until all are searchable: the base, and seconds."""
    base = await bases.create(
        mill.db, f"{kind} {uuid4().hex[:8]}", mill.embedders.get(embedder), {}, index_kind=kind
    )
    entries = [
        add.ItemToAdd(
            NewItem("note", note.title, f"{number}", body=note.text), NoteSource(note.text, note.title)
        )
        for number, note in enumerate(notes)
    ]
    started = time.perf_counter()
    for start in range(0, len(entries), 500):
        await add.add(mill.db, base.id, entries[start : start + 500], UNLIMITED_QUEUE)
    await wait(lambda: _is_ingested(mill, base.id))
    return base, time.perf_counter() - started


async def _is_ingested(mill: app.Gristmill, base_id: BaseId) -> bool:
    async with mill.db.connection() as tx:
        row = await (await tx.execute("select ingested from base where id = %s", [base_id])).fetchone()
    return bool(row and row[0])


async def wait(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so."""
    while True:
        if await condition():
            return
        await asyncio.sleep(0.05)


def format_times(times: Sequence[float]) -> str:
    p95 = statistics.quantiles(times, n=20)[-1]
    return f"p50 {1000 * statistics.median(times):6.1f}  p95 {1000 * p95:6.1f} ms"


# ── relevance ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Ranking:
    """The results of all questions in one mode: nDCG@10 of each, its ten hits, and its seconds."""

    scores: list[float]
    hits: list[set[str]]
    times: list[float]


async def measure_relevance(mill: app.Gristmill, folder: Path, questions: int) -> None:
    """Compare the rankings of a base before and after it moves: its vectors are the same."""
    corpus = relevance.load(folder, questions)
    documents = [(key, title, text) for key, (title, text) in corpus.documents.items() if text.strip()]
    notes = [Note(key, f"{title}\n\n{text}") for key, title, text in documents]
    print(f"{corpus.name}: {len(notes):,} documents, {len(corpus.questions):,} questions", flush=True)
    base, _ = await ingest(mill, "embedded", notes, mill.settings.embedder)
    embedded = await _rank(mill, base, corpus)
    await move_index(mill.db, base.id, "opensearch")
    await wait(lambda: _is_moved(mill, base.id))
    engine = await _rank(mill, replace(base, index_kind="opensearch"), corpus)
    for mode in MODES:
        first, second = embedded[mode], engine[mode]
        same = sum(one == other for one, other in zip(first.hits, second.hits, strict=True))
        print(f"  {mode:8} the same ten hits for {same} of {len(first.hits)}")
        for kind, ranking in zip(KINDS, (first, second), strict=True):
            score = statistics.fmean(ranking.scores)
            print(f"    {kind:12} nDCG@10 {score:.4f}   {format_times(ranking.times)}", flush=True)


async def _rank(mill: app.Gristmill, base: Base, corpus: relevance.Corpus) -> dict[Mode, Ranking]:
    target = Target(base, mill.embedders.get(base.embedder))
    rankings: dict[Mode, Ranking] = {mode: Ranking([], [], []) for mode in MODES}
    for key, text in corpus.questions.items():
        for mode, ranking in rankings.items():
            started = time.perf_counter()
            hits = await mill.searcher.search([target], SearchRequest(text, limit=relevance.DEPTH, mode=mode))
            ranking.times.append(time.perf_counter() - started)
            documents = list(dict.fromkeys(hit.title for hit in hits))
            ranking.scores.append(relevance.ndcg(documents, corpus.judgements[key]))
            ranking.hits.append({f"{hit.title} {hit.start}" for hit in hits[:10]})
    return rankings


# ── recall ───────────────────────────────────────────────────────────────────────────────────────────────


async def measure_recall(mill: app.Gristmill, chunks: int, questions: int) -> None:
    """Compare the nearest neighbours with those of an exact search, and the times of both indexes."""
    searches: dict[IndexKind, tuple[BaseSearch, Base]] = {
        "embedded": (EmbeddedSearch(mill.db, 2**30), await _fill_base(mill, "embedded", chunks)),
        "opensearch": (EngineSearch(mill.db, mill.indexes), await _fill_base(mill, "opensearch", chunks)),
    }
    synthetic = Synthetic(8)
    vectors, texts = synthetic.vectors(questions), [synthetic.question() for _ in range(questions)]
    listed = selectivity.MAX_LISTED_ITEMS
    for label, maximum in (("few items are listed", listed), ("the engine filters by labels", -1)):
        print(f"  {label}")
        selectivity.MAX_LISTED_ITEMS = maximum
        for name, viewer in VIEWERS.items():
            times: dict[str, list[float]] = {
                f"{kind} {leg}": [] for kind in KINDS for leg in ("vector", "text")
            }
            shares: list[float] = []
            for vector, text in zip(vectors, texts, strict=True):
                for kind, (search, base) in searches.items():
                    started = time.perf_counter()
                    hits = await search.by_vector(
                        base, Scope(viewer), await _scope(mill, base, viewer), vector, 10
                    )
                    times[f"{kind} vector"].append(time.perf_counter() - started)
                    if kind == "opensearch":
                        shares.append(await _recall(mill, base, viewer, vector, hits))
                    started = time.perf_counter()
                    await search.by_keyword(base, Scope(viewer), await _scope(mill, base, viewer), text, 100)
                    times[f"{kind} text"].append(time.perf_counter() - started)
            print(f"    {name:8} recall@10 of the engine {statistics.fmean(shares):.4f}")
            for what, of_search in times.items():
                print(f"             {what:18} {format_times(of_search)}", flush=True)
    selectivity.MAX_LISTED_ITEMS = listed


async def _fill_base(mill: app.Gristmill, kind: IndexKind, chunks: int) -> Base:
    """A base of synthetic chunks, the same for each index."""
    async with mill.db.transaction() as tx:
        base = await catalog.insert_base(
            tx,
            name=f"synthetic {kind}",
            embedder="free",
            embedder_identity=f"free/1/{DIMENSIONS}",
            dimensions=DIMENSIONS,
            chunking={},
        )
    assert base is not None
    await write_chunks(mill.db, base, chunks)
    if kind == "opensearch":
        started = time.perf_counter()
        await move_index(mill.db, base.id, "opensearch")
        await wait(lambda: _is_moved(mill, base.id))
        pace = chunks / (time.perf_counter() - started)
        print(f"{chunks:,} chunks moved into the engine: {pace:.0f} chunks/s", flush=True)
    return base


async def _scope(mill: app.Gristmill, base: Base, viewer: Viewer) -> selectivity.Selectivity:
    async with store.read_transaction(mill.db) as tx:
        return await selectivity.measure_selectivity(tx, base.id, Scope(viewer))


async def _recall(
    mill: app.Gristmill, base: Base, viewer: Viewer, vector: store.Vector, hits: Sequence[Candidate]
) -> float:
    async with store.read_transaction(mill.db) as tx:
        exact = await store.nearest_chunks(tx, base, Scope(viewer), vector, 10)
    return len({hit.no for hit in hits} & {row.no for row in exact}) / len(exact)


async def _is_moved(mill: app.Gristmill, base_id: BaseId) -> bool:
    async with mill.db.connection() as tx:
        base = await catalog.find_base(tx, base_id)
    return base is not None and base.index_fill is None


# ── ingest ───────────────────────────────────────────────────────────────────────────────────────────────


async def measure_ingest(mill: app.Gristmill, count: int, rounds: int, embedder: str) -> None:
    """Compare the pace into either index."""
    synthetic = Synthetic(7)
    paces: dict[IndexKind, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            notes = [
                Note(f"note {n}", " ".join(word(int(rank)) for rank in synthetic.ranks(120)))
                for n in range(count)
            ]
            _, seconds = await ingest(mill, kind, notes, embedder)
            paces[kind].append(count / seconds)
    medians = {kind: statistics.median(paces[kind]) for kind in KINDS}
    print(
        f"{embedder}: {medians['embedded']:.0f} notes/s embedded, {medians['opensearch']:.0f} in the engine:"
        f" {medians['opensearch'] / medians['embedded']:.2f}   {[[round(pace) for pace in paces[kind]] for kind in KINDS]}",
        flush=True,
    )


async def run(options: argparse.Namespace, urls: Sequence[str], folder: Path) -> None:
    settings = Settings(
        data_dir=folder / "data",
        port=0,
        index_url=SecretStr(",".join(urls)),
        index_replicas=options.replicas,
    )
    free = FreeEmbedder()
    async with app.gristmill(settings, work=True, extra_embedders={"free": free}) as mill:
        await mill.embedders.default.load()
        niceness.favour_event_loop()  # as a server does
        if "ingest" in options.only:
            await measure_ingest(mill, options.notes, options.rounds, mill.settings.embedder)
            await measure_ingest(mill, options.notes, options.rounds, "free")
        if "recall" in options.only:
            await measure_recall(mill, options.chunks, options.questions)
        if "relevance" in options.only:
            for corpus in options.ir:
                await measure_relevance(mill, corpus, options.questions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ir", type=Path, nargs="*", default=[], help="corpora in BEIR's layout")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--notes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=["relevance", "recall", "ingest"])
    options = parser.parse_args()
    with (
        run_cluster(options.nodes) as cluster,
        tempfile.TemporaryDirectory(prefix="gristmill-engine-") as folder,
    ):
        asyncio.run(run(options, cluster.urls, Path(folder)))


if __name__ == "__main__":
    main()
