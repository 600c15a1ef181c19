"""How fast documents become searchable: `uv run --group bench python -m bench.ingest CORPUS`.

    pace     wall time of the default embedder over a corpus, against a bare loop that reads, cuts and embeds the same text
             with the same model and threads, without any database; then the same corpus added again, and re-indexed
    free     files a second with an embedder that costs nothing, against LlamaIndex's IngestionPipeline with PGVectorStore
             and against CocoIndex, each on the same database server, with chunks of the same size
    memory   the peak of a worker process above its idle state: one text file of 1 GB, 100,000 notes
    kills    500 files, kill -9 at random moments: the index equals that of an undisturbed run, and how many chunks more
             were embedded

Ratios count: the machine is shared. Rounds are interleaved, and medians are told.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.free import FreeEmbedder
from gristmill import app
from gristmill.catalog import BaseId, NewItem
from gristmill.embedding import Embedder, LocalEmbedder
from gristmill.ingest.chunk import DEFAULT_TOKENS, Chunker
from gristmill.jobs import QueueLimits
from gristmill.operations import add, bases
from gristmill.operations.originals import Folder
from gristmill.settings import Settings

WIDE = QueueLimits(lane=10_000_000, total=10_000_000)


def files(corpus: Path, most: int) -> list[Path]:
    """The corpus's text files, in a fixed order, at most so many."""
    return [path for path in sorted(corpus.rglob("*")) if path.suffix in (".md", ".txt")][:most]


# ── the bare loop ────────────────────────────────────────────────────────────────────────────────────────


async def bare(paths: list[Path], embedder: Embedder) -> tuple[float, int]:
    """Read, cut and embed, and nothing else: seconds, and chunks. Equal texts are embedded once, as in the pipeline."""
    await embedder.load()
    began = time.perf_counter()
    seen: set[str] = set()
    count = 0
    batch: list[str] = []
    for path in paths:
        chunker = Chunker(embedder.tokenizer, min(DEFAULT_TOKENS, embedder.max_tokens))
        text = path.read_text(encoding="utf-8")
        pieces = [*chunker.feed(text), *chunker.finish()]
        count += len(pieces)
        fresh = [piece.text for piece in pieces if piece.text not in seen]
        seen.update(fresh)
        batch += dict.fromkeys(fresh)
        if len(batch) >= 256:
            await embedder.embed_documents(sorted(batch, key=len))
            batch = []
    if batch:
        await embedder.embed_documents(sorted(batch, key=len))
    return time.perf_counter() - began, count


# ── ours ─────────────────────────────────────────────────────────────────────────────────────────────────


async def until_ready(mill: app.Gristmill, base_id: BaseId) -> None:
    """Wait until nothing of the base is active."""
    while True:
        async with mill.db.connection() as tx:
            row = await (await tx.execute("select ingested from base where id = %s", [base_id])).fetchone()
        if row and row[0]:
            return
        await asyncio.sleep(0.02)


async def pipeline(mill: app.Gristmill, name: str, folder: Path) -> tuple[float, int, BaseId]:
    """Add a folder to a new base and wait until all of it is searchable: seconds, chunks, the base."""
    base = await bases.create(mill.db, name, mill.embedders.default, {})
    began = time.perf_counter()
    entry = add.Entry(NewItem("directory", name, str(folder), source={"path": str(folder)}), Folder(folder))
    await add.add(mill.db, base.id, [entry], WIDE)
    await until_ready(mill, base.id)
    took = time.perf_counter() - began
    async with mill.db.connection() as tx:
        row = await (
            await tx.execute("select sum(chunk_count)::int from item where base_id = %s", [base.id])
        ).fetchone()
    return took, row[0] if row else 0, base.id


async def again(mill: app.Gristmill, base_id: BaseId, folder: Path) -> float:
    """The same folder, added once more in place of the first: seconds."""
    began = time.perf_counter()
    entry = add.Entry(
        NewItem("directory", "again", str(folder), source={"path": str(folder)}), Folder(folder)
    )
    await add.add(mill.db, base_id, [entry], WIDE, on_conflict="replace")
    await until_ready(mill, base_id)
    return time.perf_counter() - began


def copied(paths: list[Path], corpus: Path, into: Path) -> Path:
    """The files in a folder of their own, so that both sides read just these."""
    for path in paths:
        target = into / path.relative_to(corpus)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    return into


def settings(folder: Path, **more: object) -> Settings:
    """Settings of a Gristmill of its own."""
    return Settings.model_validate(
        {"data_dir": folder / "data", "cache_dir": folder.parent / "cache", **more}
    )


async def pace(corpus: Path, most: int, rounds: int) -> None:
    """The default embedder: the pipeline against the bare loop."""
    paths = files(corpus, most)
    with TemporaryDirectory() as name:
        top = Path(name)
        folder = copied(paths, corpus, top / "corpus")
        given = settings(top / "mill")
        ratios: list[float] = []
        for number in range(rounds):
            embedder = LocalEmbedder(given.cache_dir / "embedders", given.embed_threads)
            alone, chunks = await bare(paths, embedder)
            await embedder.close()
            fresh = settings(top / f"mill{number}")
            async with app.running(fresh, work=True) as mill:
                await mill.embedders.default.load()
                ours, count, base_id = await pipeline(mill, "bench", folder)
                once_more = await again(mill, base_id, folder)
            ratios.append(ours / alone)
            print(
                f"{len(paths):,} files, {chunks:,} chunks: bare {alone:.1f} s, pipeline {ours:.1f} s ({count:,} chunks),"
                f" ratio {ours / alone:.3f}; unchanged, added again: {once_more:.2f} s (1/{ours / once_more:.0f})"
            )
        print(f"pace: median ratio {statistics.median(ratios):.3f}")


async def free(corpus: Path, most: int, rounds: int, peers: list[str]) -> None:
    """An embedder that costs nothing: files a second, ours and the peers'."""
    from bench import ingest_peers

    paths = files(corpus, most)
    with TemporaryDirectory() as name:
        top = Path(name)
        folder = copied(paths, corpus, top / "corpus")
        rates: dict[str, list[float]] = {}
        for number in range(rounds):
            given = settings(top / f"mill{number}", embedder="free")
            embedder = FreeEmbedder(dimensions=384)
            async with app.running(given, work=True, extra_embedders={"free": embedder}) as mill:
                runs: dict[str, Callable[[], Awaitable[tuple[float, int]]]] = {
                    "gristmill": lambda mill=mill: _ours(mill, folder)
                }
                for peer in peers:
                    runs[peer] = lambda peer=peer, mill=mill: ingest_peers.run(peer, mill.db.url, folder)
                for who, run in _turned(runs, number):
                    took, chunks = await run()
                    rates.setdefault(who, []).append(len(paths) / took)
                    print(f"{who}: {len(paths) / took:,.0f} files/s, {chunks:,} chunks in {took:.2f} s")
        ours = statistics.median(rates["gristmill"])
        for who, each in rates.items():
            median = statistics.median(each)
            print(f"free: {who} {median:,.0f} files/s; gristmill is {ours / median:.1f} ×")


async def _ours(mill: app.Gristmill, folder: Path) -> tuple[float, int]:
    took, chunks, _ = await pipeline(mill, "bench", folder)
    return took, chunks


def _turned(
    runs: dict[str, Callable[[], Awaitable[tuple[float, int]]]], number: int
) -> Iterator[tuple[str, Callable[[], Awaitable[tuple[float, int]]]]]:
    """Who begins changes with each round."""
    names = list(runs)
    for place in range(len(names)):
        name = names[(place + number) % len(names)]
        yield name, runs[name]


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.ingest", description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--only", choices=["pace", "free", "memory", "kills"], action="append")
    parser.add_argument("--files", type=int, default=1_000_000, help="at most so many files of the corpus")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="llamaindex,cocoindex")
    parser.add_argument("--megabytes", type=int, default=1024, help="of the large text of `memory`")
    parser.add_argument("--notes", type=int, default=100_000, help="of `memory`")
    parser.add_argument("--kills", type=int, default=50)
    asked = parser.parse_args()
    wanted = asked.only or ["pace", "free", "memory", "kills"]
    peers = [peer for peer in asked.peers.split(",") if peer]
    if "pace" in wanted:
        asyncio.run(pace(asked.corpus, asked.files, asked.rounds))
    if "free" in wanted:
        asyncio.run(free(asked.corpus, asked.files, asked.rounds, peers))
    if "memory" in wanted or "kills" in wanted:
        from bench import ingest_trials

        if "memory" in wanted:
            asyncio.run(ingest_trials.memory(asked.megabytes, asked.notes))
        if "kills" in wanted:
            asyncio.run(ingest_trials.kills(asked.corpus, min(500, asked.files), asked.kills))


if __name__ == "__main__":
    main()
