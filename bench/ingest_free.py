"""Files a second with an embedder that costs nothing, compared with the peers (`ingest_peers.py`).

Every engine works in a new process, so that none carries the imports and the garbage of another, and has a new database on the same
server. Gristmill is one worker process with the settings it has when installed. Each is timed from the first file to the last
commit: starting, importing and creating the schema come before. Another engine begins in each round.
"""

import asyncio
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.ingest import copy_files, corpus_files
from bench.ingest_trials import create_database, run_local_server
from bench.workers import ingest_with_workers

GRISTMILL = "gristmill"


async def measure_free(corpus: Path, limit: int, rounds: int, peers: list[str]) -> None:
    """Compare files a second with the peers."""
    paths = corpus_files(corpus, limit)
    engines = [GRISTMILL, *peers]
    rates: dict[str, list[float]] = {engine: [] for engine in engines}
    with TemporaryDirectory() as name:
        top = Path(name)
        folder = copy_files(paths, corpus, top / "corpus")
        async with run_local_server(top) as url:
            for number in range(rounds):
                for engine in _rotate(engines, number):
                    if engine == GRISTMILL:
                        database = create_database(url, f"round{number}")
                        elapsed, chunks, _ = await ingest_with_workers(database, top, folder, 1, "free")
                    else:
                        elapsed, chunks = await _run_peer(engine, url, folder)
                    rates[engine].append(len(paths) / elapsed)
                    print(
                        f"{engine}: {len(paths) / elapsed:,.0f} files/s, {chunks:,} chunks in {elapsed:.2f} s",
                        flush=True,
                    )
    median = statistics.median(rates[GRISTMILL])
    print(f"free: {GRISTMILL} {median:,.0f} files/s")
    for peer in peers:
        by_round = sorted(own / other for own, other in zip(rates[GRISTMILL], rates[peer], strict=True))
        print(
            f"free: {peer} {statistics.median(rates[peer]):,.0f} files/s; gristmill is {median / statistics.median(rates[peer]):.2f} ×"
            f" (by round {', '.join(f'{ratio:.2f}' for ratio in by_round)})"
        )


async def _run_peer(peer: str, url: str, folder: Path) -> tuple[float, int]:
    """Let a peer ingest the folder: seconds, and chunks."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.ingest_peers", peer, url, str(folder), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"{peer} ended with {process.returncode}.")
    result = json.loads(output.splitlines()[-1])
    return result["seconds"], result["chunks"]


def _rotate(engines: list[str], number: int) -> Iterator[str]:
    offset = number % len(engines)
    yield from engines[offset:] + engines[:offset]
