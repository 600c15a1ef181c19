"""Speed, memory and crash safety of ingestion: `uv run --group bench python -m bench.ingest CORPUS`.

    pace     wall time with the default embedder over a corpus, compared with a bare loop that reads, chunks and embeds the
             same text with the same model and threads, without a database; then the same corpus added again
    free     files a second with an embedder that costs nothing, compared with LlamaIndex's IngestionPipeline with
             PGVectorStore, with LangChain's indexing API with PGVector and with CocoIndex, on the same database server,
             with chunks of the same size; each engine in a process of its own
    memory   the peak of a worker process above its idle state: one text file of 1 GB, 100,000 notes
    kills    500 files with kill -9 at random moments: whether the index equals that of an undisturbed run, and how many
             more chunks were embedded

Compare ratios: the machine is shared. Rounds are interleaved, and medians are printed.
"""

import argparse
import asyncio
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from gristmill import app
from gristmill.catalog import BaseId, NewItem
from gristmill.cli.common import run_async
from gristmill.embedding import Embedder, LocalEmbedder
from gristmill.ingest.chunk import DEFAULT_TOKENS, Chunker
from gristmill.jobs import QueueLimits
from gristmill.operations import add, bases
from gristmill.operations.source_factory import FolderSource
from gristmill.settings import Settings

UNLIMITED_QUEUE = QueueLimits(lane=10_000_000, total=10_000_000)


def corpus_files(corpus: Path, limit: int) -> list[Path]:
    """The text files of the corpus in a fixed order, at most `limit`."""
    return [path for path in sorted(corpus.rglob("*")) if path.suffix in (".md", ".txt")][:limit]


# ── the bare loop ────────────────────────────────────────────────────────────────────────────────────────


async def run_bare_loop(paths: list[Path], embedder: Embedder) -> tuple[float, int]:
    """Only read, chunk and embed: seconds, and chunks. Equal texts are embedded once, as in the pipeline."""
    await embedder.load()
    started = time.perf_counter()
    seen: set[str] = set()
    count = 0
    batch: list[str] = []
    for path in paths:
        chunker = Chunker(embedder.tokenizer, min(DEFAULT_TOKENS, embedder.max_tokens))
        text = path.read_text(encoding="utf-8")
        pieces = [*chunker.feed(text), *chunker.finish()]
        count += len(pieces)
        new_texts = [piece.text for piece in pieces if piece.text not in seen]
        seen.update(new_texts)
        batch += dict.fromkeys(new_texts)
        if len(batch) >= 256:
            await embedder.embed_documents(sorted(batch, key=len))
            batch = []
    if batch:
        await embedder.embed_documents(sorted(batch, key=len))
    return time.perf_counter() - started, count


# ── Gristmill ─────────────────────────────────────────────────────────────────────────────────────────────────


async def wait_until_ready(mill: app.Gristmill, base_id: BaseId) -> None:
    """Wait until no item of the base is active."""
    while True:
        async with mill.db.connection() as tx:
            row = await (await tx.execute("select ingested from base where id = %s", [base_id])).fetchone()
        if row and row[0]:
            return
        await asyncio.sleep(0.5)  # seldom: this costs the pipeline time too


async def ingest_folder(mill: app.Gristmill, name: str, folder: Path) -> tuple[float, int, BaseId]:
    """Add a folder to a new base, and wait until all of it is searchable: seconds, chunks, the base."""
    base = await bases.create(mill.db, name, mill.embedders.default, {})
    started = time.perf_counter()
    entry = add.ItemToAdd(
        NewItem("directory", name, str(folder), source={"path": str(folder), "local": True}),
        FolderSource(folder),
    )
    await add.add(mill.db, base.id, [entry], UNLIMITED_QUEUE)
    await wait_until_ready(mill, base.id)
    elapsed = time.perf_counter() - started
    async with mill.db.connection() as tx:
        row = await (
            await tx.execute("select sum(chunk_count)::int from item where base_id = %s", [base.id])
        ).fetchone()
    return elapsed, row[0] if row else 0, base.id


async def add_folder_again(mill: app.Gristmill, base_id: BaseId, folder: Path) -> float:
    """Add the same folder again in place of the first: seconds."""
    started = time.perf_counter()
    entry = add.ItemToAdd(
        NewItem("directory", "again", str(folder), source={"path": str(folder), "local": True}),
        FolderSource(folder),
    )
    await add.add(mill.db, base_id, [entry], UNLIMITED_QUEUE, on_conflict="replace")
    await wait_until_ready(mill, base_id)
    return time.perf_counter() - started


def copy_files(paths: list[Path], corpus: Path, target_folder: Path) -> Path:
    """Copy the files to a new folder, so that both sides read only these."""
    for path in paths:
        target = target_folder / path.relative_to(corpus)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    return target_folder


def settings(folder: Path, **more: object) -> Settings:
    """Settings of a separate Gristmill."""
    return Settings.model_validate(
        {"data_dir": folder / "data", "cache_dir": folder.parent / "cache", **more}
    )


async def measure_pace(corpus: Path, limit: int, rounds: int) -> None:
    """Compare the pipeline with the bare loop, with the default embedder."""
    paths = corpus_files(corpus, limit)
    with TemporaryDirectory() as name:
        top = Path(name)
        folder = copy_files(paths, corpus, top / "corpus")
        base_settings = settings(top / "mill")
        ratios: list[float] = []
        for number in range(rounds):
            embedder = LocalEmbedder(base_settings.cache_dir / "embedders", base_settings.embed_threads)
            bare_seconds, chunks = await run_bare_loop(paths, embedder)
            await embedder.close()
            round_settings = settings(top / f"mill{number}")
            async with app.gristmill(round_settings, work=True) as mill:
                await mill.embedders.default.load()
                pipeline_seconds, count, base_id = await ingest_folder(mill, "bench", folder)
                again_seconds = await add_folder_again(mill, base_id, folder)
            ratios.append(pipeline_seconds / bare_seconds)
            print(
                f"{len(paths):,} files, {chunks:,} chunks: bare {bare_seconds:.1f} s, pipeline {pipeline_seconds:.1f} s ({count:,} chunks),"
                f" ratio {pipeline_seconds / bare_seconds:.3f}; unchanged, added again: {again_seconds:.2f} s (1/{pipeline_seconds / again_seconds:.0f})"
            )
        print(f"pace: median ratio {statistics.median(ratios):.3f}")


def main() -> None:
    """Parse the arguments, and run the measurements."""
    parser = argparse.ArgumentParser(prog="python -m bench.ingest", description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--only", choices=["pace", "free", "memory", "kills"], action="append")
    parser.add_argument(
        "--files", type=int, default=1_000_000, help="use at most this many files of the corpus"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="llamaindex,langchain,cocoindex")
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the text file of `memory`")
    parser.add_argument("--notes", type=int, default=100_000, help="number of notes of `memory`")
    parser.add_argument("--kills", type=int, default=50)
    options = parser.parse_args()
    chosen = options.only or ["pace", "free", "memory", "kills"]
    peers = [peer for peer in options.peers.split(",") if peer]
    if "pace" in chosen:
        run_async(measure_pace(options.corpus, options.files, options.rounds))
    if "free" in chosen:
        from bench import ingest_free

        run_async(ingest_free.measure_free(options.corpus, options.files, options.rounds, peers))
    if "memory" in chosen or "kills" in chosen:
        from bench import ingest_trials

        if "memory" in chosen:
            asyncio.run(ingest_trials.measure_memory(options.megabytes, options.notes))
        if "kills" in chosen:
            asyncio.run(ingest_trials.measure_kills(options.corpus, min(500, options.files), options.kills))


if __name__ == "__main__":
    main()
