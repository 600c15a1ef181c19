"""The cost of connector runs: `uv run --group bench python -m bench.connectors [--issues 5000]`.

    first     the first run over a fake GitHub with many issues and comments, until all is searchable, compared with the
              same texts added as notes: the cost of a connector beyond indexing
    again     a run in which nothing changed: seconds, and chunks written
    one       a run in which one issue changed: documents that were indexed again

With `--free` the embedder costs nothing, and only our own cost remains.

The fake GitHub is a separate process, so that it uses none of our processor time. Compare ratios: the machine is shared.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from gristmill import app
from gristmill.catalog import BaseId, NewItem
from gristmill.connectors import admin, model
from gristmill.connectors.model import ConnectorRun
from gristmill.connectors.port import ConnectorLimits
from gristmill.connectors.registry import KINDS
from gristmill.jobs import QueueLimits
from gristmill.operations import add, bases
from gristmill.settings import Settings
from gristmill.vault import Vault
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import SECRET, FakeCall, serve_fake
from tests.embedding.hashed import HashedEmbedder
from tests.sources.site import SiteResponse

WIDE = QueueLimits(lane=10_000_000, total=10_000_000)
NEVER = "0 0 29 2 *"
_WORDS = Path(__file__).read_text(encoding="utf-8").split()


class BenchGitHub(FakeGitHub):
    """A fake repository with many issues of about a hundred words, and an endpoint that changes one of them."""

    page_size = 100

    def __init__(self, issues: int) -> None:
        super().__init__()
        rng = random.Random(1)
        self.repos = self.repos[1:]
        self.repos[0].issues.clear()
        self.repos[0].discussions.clear()
        for _ in range(issues):
            issue = self.add_issue(self.repos[0])
            issue.text = " ".join(rng.choices(_WORDS, k=120))
            issue.comments = issue.comments[:2]
            for comment in issue.comments:
                comment.text += " " + " ".join(rng.choices(_WORDS, k=60))
            self.advance_clock(1)
        self.route("GET", "/control/edit", self._change)

    def check_authorization(self, call: FakeCall) -> None:
        """The control endpoint needs no token."""
        if not call.path.startswith("/control"):
            super().check_authorization(call)

    def _change(self, call: FakeCall) -> SiteResponse:
        del call
        self.advance_clock(100)
        issue = self.repos[0].issues[7]
        issue.text, issue.updated = issue.text + " changed", self.now
        self.advance_clock(100)
        return self.respond({})


def serve(issues: int) -> None:
    """Run the fake GitHub until killed."""
    with serve_fake(BenchGitHub(issues)) as double:
        assert double.site is not None
        print(double.site.url, flush=True)
        signal.pause()


async def wait_for_run(mill: app.Gristmill, run: ConnectorRun) -> ConnectorRun:
    """Wait until a run has ended."""
    while True:
        async with mill.db.connection() as tx:
            current = await admin.find_run(tx, run.id)
        if current is not None and current.completed_at is not None:
            return current
        await asyncio.sleep(0.1)


async def run_sync(mill: app.Gristmill, connector: Any) -> tuple[float, ConnectorRun]:
    """Run a sync: its duration and its result."""
    began = time.perf_counter()
    _, run = await admin.start_sync(mill.db, connector.id)
    return time.perf_counter() - began, await wait_for_run(mill, run)


async def read_texts(url: str) -> list[tuple[str, str]]:
    """Title and body of every issue, as the connector builds them."""
    kind = KINDS["github"]
    config = kind.config.model_validate(
        {"baseUrl": url, "organizations": ["acme"], "files": [], "discussions": False}
    )
    connector = kind.open(
        config, kind.credentials.model_validate({"token": SECRET}), ConnectorLimits(allow_private=True)
    )
    documents: list[tuple[str, str]] = []
    async for batch in connector.sync({}):
        documents += [(document.title, document.body) for document in batch.documents]
    await connector.close()
    return documents


async def index_as_notes(mill: app.Gristmill, documents: list[tuple[str, str]]) -> float:
    """Add the same texts as notes, and wait until all are searchable."""
    base = await bases.create(mill.db, "notes", mill.embedders.default, {})
    began = time.perf_counter()
    for start in range(0, len(documents), 100):
        entries = [
            add.ItemToAdd(NewItem("note", f"{title} {start}", f"{title} {start}", body=body), None)
            for title, body in documents[start : start + 100]
        ]
        await add.add(mill.db, base.id, entries, WIDE)
    await wait_until_idle(mill, base.id)
    return time.perf_counter() - began


async def wait_until_idle(mill: app.Gristmill, base_id: BaseId) -> None:
    """Wait until no item of a base is active."""
    active = "select count(*) from item where base_id = %s and status not in ('completed', 'failed')"
    while True:
        async with mill.db.connection() as tx:
            row = await (await tx.execute(active, [base_id])).fetchone()
        if row is not None and row[0] == 0:
            return
        await asyncio.sleep(0.1)


async def count_chunks_written(mill: app.Gristmill) -> int:
    """The number of chunks that were ever written."""
    async with mill.db.connection() as tx:
        row = await (await tx.execute("select last_value from chunk_no")).fetchone()
    assert row is not None
    return row[0]


async def measure(url: str, folder: Path, *, connector_first: bool, free: bool) -> None:
    """Measure both ways, each in its own database, because equal texts are embedded only once."""
    times: dict[str, float] = {}
    for name in ("connector", "notes") if connector_first else ("notes", "connector"):
        overrides: dict[str, Any] = {"embedder": "hashed"} if free else {}
        settings = Settings(
            data_dir=folder / name, allow_private_addresses=True, port=0, reconcile_cron=NEVER, **overrides
        )
        extra = {"hashed": HashedEmbedder()} if free else None
        async with app.gristmill(settings, work=True, extra_embedders=extra) as mill:
            await mill.embedders.default.load()
            if name == "notes":
                times[name] = await index_as_notes(mill, await read_texts(url))
                continue
            times[name] = await _measure_connector(mill, url)
    print(f"first: {times['connector'] / times['notes']:.2f} × the same texts as notes ({times})")


async def _measure_connector(mill: app.Gristmill, url: str) -> float:
    base = await bases.create(mill.db, "issues", mill.embedders.default, {})
    config = {"baseUrl": url, "organizations": ["acme"], "files": [], "discussions": False}
    new_connector = model.NewConnector(
        "bench", "github", config, {"token": SECRET}, NEVER, NEVER, base_ids=[base.id], acl=["org:*"]
    )
    vault = Vault(None, mill.settings.data_dir)
    connector = await admin.create(mill.db, vault, mill.connectors, new_connector)
    began = time.perf_counter()
    _, run = await run_sync(mill, connector)
    first = time.perf_counter() - began
    print(f"first: {first:.1f} s, {run.status}, {run.documents_ingested} documents")
    chunks_before = await count_chunks_written(mill)
    began = time.perf_counter()
    _, run = await run_sync(mill, connector)
    again = time.perf_counter() - began
    print(
        f"again: {again:.2f} s, {run.documents_ingested} documents, {await count_chunks_written(mill) - chunks_before} chunks written"
    )
    async with httpx.AsyncClient() as client:
        (await client.get(f"{url}/control/edit")).raise_for_status()
    began = time.perf_counter()
    _, run = await run_sync(mill, connector)
    print(f"one: {time.perf_counter() - began:.2f} s, {run.documents_ingested} documents indexed again")
    return first


def main() -> None:
    """Parse the arguments, and measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--issues", type=int, default=5000)
    parser.add_argument("--double", action="store_true", help="run the fake GitHub")
    parser.add_argument("--notes-first", action="store_true")
    parser.add_argument("--free", action="store_true", help="an embedder that costs nothing")
    options = parser.parse_args()
    if options.double:
        serve(options.issues)
        return
    command = [sys.executable, "-m", "bench.connectors", "--double", "--issues", str(options.issues)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as double,
        TemporaryDirectory(prefix="gristmill-bench-") as folder,
    ):
        assert double.stdout is not None
        url = double.stdout.readline().strip()
        try:
            Path(folder).chmod(0o755)
            asyncio.run(
                measure(url, Path(folder), connector_first=not options.notes_first, free=options.free)
            )
        finally:
            double.kill()


if __name__ == "__main__":
    main()
