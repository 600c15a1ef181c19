"""The catalog alone: 10,000 files streamed in and deleted while they are indexed, and many entries in one call.

uv run --group dev python -m bench.catalog [--files 10000]
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from gristmill import app, faults
from gristmill.db import local_server
from gristmill.settings import Settings
from tests.api_calls import make_base, wait_for_job
from tests.embedding.hashed import HashedEmbedder
from tests.wait_until import wait_until

_LISTED = b"select expanded_version = 1 from item where type = 'directory'"
_WORKING = b"select count(*) from job where state = 'running' and kind <> 'delete_subtree'"


async def _value(mill: app.Gristmill, statement: bytes) -> Any:
    async with mill.db.connection() as tx:
        row = await (await tx.execute(statement)).fetchone()
    return row[0] if row else None


async def _measure_folder(mill: app.Gristmill, http: httpx.AsyncClient, folder: Path, files: int) -> None:
    base = await make_base(http)
    started = time.perf_counter()
    response = await http.post(
        f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "directory", "path": str(folder)}]}
    )
    root = response.json()["created"][0]["id"]

    async def is_listed() -> bool:
        return bool(await _value(mill, _LISTED))

    async def is_idle() -> bool:
        return not await _value(mill, _WORKING)

    await wait_until(is_listed, limit=600)
    print(f"{files:,} files listed beside indexing: {files / (time.perf_counter() - started):,.0f} files/s")
    started = time.perf_counter()
    deletion = await http.delete(f"/api/knowledge-items/{root}")
    print(f"deletion answered after {time.perf_counter() - started:.2f} s")
    await wait_until(is_idle, every=0.005)
    print(f"running work stopped after {time.perf_counter() - started:.2f} s")
    await wait_for_job(http, deletion.json()["jobId"])
    print(f"all removed after {time.perf_counter() - started:.2f} s")


async def _measure_calls(http: httpx.AsyncClient, folder: Path, files: int) -> None:
    base = await make_base(http, "calls")
    seconds: list[float] = []
    for first in range(0, 500, 100):
        entries = [{"type": "file", "path": str(folder / f"{n:05}.md")} for n in range(first, first + 100)]
        started = time.perf_counter()
        (await http.post(f"/api/knowledge-bases/{base}/items", json={"items": entries})).raise_for_status()
        seconds.append(time.perf_counter() - started)
    print(f"100 files in one call: median {1000 * statistics.median(seconds):.0f} ms")
    notes = [{"type": "note", "content": f"rye {n}"} for n in range(files)]
    started = time.perf_counter()
    (await http.post(f"/api/knowledge-bases/{base}/items", json={"items": notes})).raise_for_status()
    print(f"{files:,} notes in one call: {time.perf_counter() - started:.2f} s")


async def _run(files: int, folder: Path) -> None:
    documents = folder / "documents"
    documents.mkdir()
    for number in range(files):
        (documents / f"{number:05}.md").write_text(f"Sack {number} of rye.")
    server = local_server.start(folder / "server")
    try:
        settings = Settings.model_validate(
            {
                "data_dir": folder / "data",
                "cache_dir": folder / "cache",
                "database_url": server.url,
                "port": 0,
                "embedder": "hashed",
                "reconcile_cron": "0 0 29 2 *",
            }
        )
        async with app.gristmill(settings, work=True, extra_embedders={"hashed": HashedEmbedder()}) as mill:
            transport = httpx.ASGITransport(app=mill.api)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost", timeout=60
            ) as http:
                await _measure_folder(mill, http, documents, files)
                with faults.watch("index.opened", hold=True):  # so that calls alone are measured
                    await _measure_calls(http, documents, files)
    finally:
        server.close()


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=10_000)
    with tempfile.TemporaryDirectory(prefix="gristmill-bench-", ignore_cleanup_errors=True) as folder:
        asyncio.run(_run(parser.parse_args().files, Path(folder)))


if __name__ == "__main__":
    main()
