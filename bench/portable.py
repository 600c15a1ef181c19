"""Moves a base to another installation: `python -m bench.portable [--documents 10000]`.

    fill       uploads of markdown, 30 to 400 words each, are indexed in one data dir with an embedder of 384 dimensions
    export     the base to one archive
    import     the archive into another data dir
    compare    the tree, the texts, the bytes of a hundred documents, and the answers to some two hundred queries, words of documents

It prints sizes, times by the clock and CPU time of this process. The exit code is 1 if an answer differs in a hit with a score of 0.1 or
more, or a text was embedded by the import.
"""

import argparse
import asyncio
import hashlib
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.synthetic_base import DIMENSIONS, Synthetic, word
from gristmill import app
from gristmill.embedding.embedder import Vectors
from gristmill.settings import Settings
from tests.api_calls import make_base, search
from tests.embedding.hashed import HashedEmbedder
from tests.wait_until import wait_until

_UPLOADS_AT_ONCE = 100
_QUERIES = 200
_COMPARED_DOCUMENTS = 100
_POLL = 0.5
_GOOD_SCORE = 0.1


class CountingEmbedder(HashedEmbedder):
    """Counts the texts of documents."""

    embedded = 0

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts."""
        self.embedded += len(texts)
        return await super().embed_documents(texts)


@asynccontextmanager
async def installation(folder: Path, embedder: HashedEmbedder) -> AsyncGenerator[httpx.AsyncClient]:
    """A Gristmill with a worker in this process, and a client of it."""
    settings = Settings.model_validate(
        {"data_dir": folder, "embedder": "hashed", "port": 0, "watch_folders": False}
    )
    async with app.gristmill(settings, work=True, extra_embedders={"hashed": embedder}) as mill:
        transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=600) as client:
            yield client


def _text(synthetic: Synthetic, number: int) -> str:
    words = [word(int(rank)) for rank in synthetic.ranks(int(synthetic.rng.integers(30, 400)))]
    paragraphs = [" ".join(words[start : start + 60]) for start in range(0, len(words), 60)]
    return f"# Document {number}\n\n" + "\n\n".join(paragraphs)


async def fill(http: httpx.AsyncClient, documents: int) -> str:
    """A base with so many uploads, all of them indexed."""
    synthetic = Synthetic(1)
    base = await make_base(http, "large")
    for start in range(0, documents, _UPLOADS_AT_ONCE):
        numbers = range(start, min(documents, start + _UPLOADS_AT_ONCE))
        files = [
            ("files", (f"{number:05}.md", _text(synthetic, number).encode(), "text/markdown"))
            for number in numbers
        ]
        response = await http.post(f"/api/knowledge-bases/{base}/files", files=files)
        response.raise_for_status()

    async def is_complete() -> bool:
        shown = (await http.get(f"/api/knowledge-bases/{base}")).json()
        return shown["itemCounts"].get("completed", 0) >= documents

    await wait_until(is_complete, limit=3600, every=_POLL)
    return base


async def finish(http: httpx.AsyncClient, response: httpx.Response) -> dict[str, Any]:
    """The result of the job that a response names."""
    response.raise_for_status()
    while True:
        job = (await http.get(f"/api/jobs/{response.json()['jobId']}")).json()
        if job["state"] == "done":
            return job["result"]
        if job["state"] != "running" and job["errors"]:
            raise SystemExit(job["errors"][-1]["message"])
        await asyncio.sleep(0.05)


async def contents(http: httpx.AsyncClient, base: str) -> list[Any]:
    """What the base has, without ids: every item, and the text and bytes of some."""
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        params = {"limit": 500, **({"cursor": cursor} if cursor else {})}
        page = (await http.get(f"/api/knowledge-bases/{base}/items", params=params)).json()
        items += page["items"]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    shown: list[Any] = [
        (item["title"], item["status"], item["chunkCount"], item["sizeBytes"]) for item in items
    ]
    for item in items[:: max(1, len(items) // _COMPARED_DOCUMENTS)]:
        original = (await http.get(f"/api/knowledge-items/{item['id']}/original")).content
        text = (await http.get(f"/api/knowledge-items/{item['id']}/content")).text.replace(item["id"], "")
        shown.append((hashlib.sha256(original).hexdigest(), text))
    return shown


async def answers(http: httpx.AsyncClient, base: str, documents: int) -> list[Any]:
    """The answers to words of documents, without ids."""
    synthetic = Synthetic(1)
    texts = [_text(synthetic, number) for number in range(documents)]
    queries = [" ".join(text.split()[8:14]) for text in texts[:: max(1, documents // _QUERIES)]]
    return [
        [(hit["title"], hit["text"], round(hit["score"], 4)) for hit in await search(http, base, query)]
        for query in queries
    ]


def _good_hits(hits: list[tuple[str, str, float]]) -> list[tuple[str, str, float]]:
    return [hit for hit in hits if hit[2] >= _GOOD_SCORE]


async def run(documents: int, folder: Path) -> int:
    """Measure, print, compare; the exit code."""
    counting = CountingEmbedder(dimensions=DIMENSIONS)
    async with (
        installation(folder / "one", HashedEmbedder(dimensions=DIMENSIONS)) as one,
        installation(folder / "two", counting) as two,
    ):
        base = await fill(one, documents)
        clock, cpu = time.monotonic(), time.process_time()
        exported = await finish(one, await one.post(f"/api/knowledge-bases/{base}/export"))
        print(
            f"export: {time.monotonic() - clock:.1f} s, {time.process_time() - cpu:.1f} CPU-s here, {exported}"
        )
        archive = (await one.get(f"/v1/files/{exported['fileId']}/content")).content
        clock, cpu = time.monotonic(), time.process_time()
        form = {"file": ("large.gristmill", archive)}
        imported = await finish(two, await two.post("/api/knowledge-bases/import", files=form))
        print(
            f"import: {time.monotonic() - clock:.1f} s, {time.process_time() - cpu:.1f} CPU-s here, {imported}"
        )
        embedded = counting.embedded
        is_equal = await contents(one, base) == await contents(two, imported["baseId"])
        before, after = await answers(one, base, documents), await answers(two, imported["baseId"], documents)
        pairs = list(zip(before, after, strict=True))
        # Among the last hits, chunks that fit equally badly may take each other's place: the index cuts off such ties anywhere.
        same = all(_good_hits(first) == _good_hits(second) for first, second in pairs)
        equal = sum(first == second for first, second in pairs)
        print(f"{equal} of {len(pairs)} answers are equal to the last hit")
        print(
            f"archive {len(archive) / 1e6:.1f} MB, embedded {embedded}, equal items {is_equal}, equal answers {same}"
        )
        return 0 if is_equal and same and embedded == 0 else 1


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gristmill-portable-") as folder:
        Path(folder).chmod(0o755)
        sys.exit(asyncio.run(run(options.documents, Path(folder))))


if __name__ == "__main__":
    main()
