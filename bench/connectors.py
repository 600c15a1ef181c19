"""How a connector keeps in step: `uv run --group bench python -m bench.connectors [--issues 5000]`.

    first     the first run over a GitHub double with so many issues and their comments, until all is searchable, against the
              same texts added as notes: what a connector costs beside indexing
    again     a run in which nothing changed: seconds, and texts embedded
    one       a run in which one issue changed: documents that are indexed again

With `--free` the embedder costs nothing, and what is left is our own cost.

The double is a process of its own, so that it takes none of our time but the machine's. Ratios count: the machine is shared.
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
from gristmill.connectors.kind import Surroundings
from gristmill.connectors.kinds import KINDS
from gristmill.jobs import QueueLimits
from gristmill.operations import add, bases, connection, connections
from gristmill.operations.connection import Run
from gristmill.settings import Settings
from gristmill.vault import Vault
from tests.connectors.double import SECRET, Call, following
from tests.connectors.doubles.github import GitHubDouble
from tests.embedding.hashed import HashedEmbedder
from tests.sources.site import Answer

WIDE = QueueLimits(lane=10_000_000, total=10_000_000)
NEVER = "0 0 29 2 *"
_WORDS = Path(__file__).read_text(encoding="utf-8").split()


class BenchDouble(GitHubDouble):
    """A repository with many issues of some hundred words, and a switch to change one."""

    cap = 100

    def __init__(self, issues: int) -> None:
        super().__init__()
        dice = random.Random(1)
        self.repos = self.repos[1:]
        self.repos[0].issues.clear()
        self.repos[0].discussions.clear()
        for _ in range(issues):
            made = self.new_issue(self.repos[0])
            made.text = " ".join(dice.choices(_WORDS, k=120))
            made.comments = made.comments[:2]
            for comment in made.comments:
                comment.text += " " + " ".join(dice.choices(_WORDS, k=60))
            self.tick(1)
        self.route("GET", "/control/edit", self._change)

    def authorise(self, call: Call) -> None:
        """The switch takes no token."""
        if not call.path.startswith("/control"):
            super().authorise(call)

    def _change(self, call: Call) -> Answer:
        del call
        self.tick(100)
        issue = self.repos[0].issues[7]
        issue.text, issue.updated = issue.text + " changed", self.now
        self.tick(100)
        return self.told({})


def serve(issues: int) -> None:
    """Be the double until killed."""
    with following(BenchDouble(issues)) as double:
        assert double.site is not None
        print(double.site.url, flush=True)
        signal.pause()


async def ended(mill: app.Gristmill, run: Run) -> Run:
    """A run, once it has ended."""
    while True:
        async with mill.db.connection() as tx:
            now = await connection.find_run(tx, run.id)
        if now is not None and now.completed_at is not None:
            return now
        await asyncio.sleep(0.1)


async def synced(mill: app.Gristmill, connector: Any) -> tuple[float, Run]:
    """One run: how long, and how it ended."""
    began = time.perf_counter()
    _, run = await connections.sync(mill.db, connector.id)
    return time.perf_counter() - began, await ended(mill, run)


async def texts(url: str) -> list[tuple[str, str]]:
    """Title and body of every issue, as the connector makes them."""
    kind = KINDS["github"]
    config = kind.config.model_validate(
        {"baseUrl": url, "organizations": ["acme"], "files": [], "discussions": False}
    )
    opened = kind.open(config, kind.credentials.model_validate({"token": SECRET}), Surroundings(private=True))
    found: list[tuple[str, str]] = []
    async for batch in opened.sync({}):
        found += [(one.title, one.body) for one in batch.documents]
    await opened.close()
    return found


async def notes(mill: app.Gristmill, given: list[tuple[str, str]]) -> float:
    """The same texts as notes, until all are searchable."""
    base = await bases.create(mill.db, "notes", mill.embedders.default, {})
    began = time.perf_counter()
    for start in range(0, len(given), 100):
        entries = [
            add.Entry(NewItem("note", f"{title} {start}", f"{title} {start}", body=body), None)
            for title, body in given[start : start + 100]
        ]
        await add.add(mill.db, base.id, entries, WIDE)
    await at_rest(mill, base.id)
    return time.perf_counter() - began


async def at_rest(mill: app.Gristmill, base_id: BaseId) -> None:
    """Until nothing of a base is active."""
    active = "select count(*) from item where base_id = %s and status not in ('completed', 'failed')"
    while True:
        async with mill.db.connection() as tx:
            row = await (await tx.execute(active, [base_id])).fetchone()
        if row is not None and row[0] == 0:
            return
        await asyncio.sleep(0.1)


async def chunks_made(mill: app.Gristmill) -> int:
    """How many chunks were ever written."""
    async with mill.db.connection() as tx:
        row = await (await tx.execute("select last_value from chunk_no")).fetchone()
    assert row is not None
    return row[0]


async def measure(url: str, folder: Path, *, connector_first: bool, free: bool) -> None:
    """Both ways in one database each, for equal texts are embedded once."""
    times: dict[str, float] = {}
    for name in ("connector", "notes") if connector_first else ("notes", "connector"):
        given: dict[str, Any] = {"embedder": "hashed"} if free else {}
        settings = Settings(
            data_dir=folder / name, allow_private_addresses=True, port=0, reconcile_cron=NEVER, **given
        )
        extra = {"hashed": HashedEmbedder()} if free else None
        async with app.running(settings, work=True, extra_embedders=extra) as mill:
            await mill.embedders.default.load()
            if name == "notes":
                times[name] = await notes(mill, await texts(url))
                continue
            times[name] = await _connector(mill, url)
    print(f"first: {times['connector'] / times['notes']:.2f} × the same texts as notes ({times})")


async def _connector(mill: app.Gristmill, url: str) -> float:
    base = await bases.create(mill.db, "issues", mill.embedders.default, {})
    config = {"baseUrl": url, "organizations": ["acme"], "files": [], "discussions": False}
    new = connections.NewConnector(
        "bench", "github", config, {"token": SECRET}, NEVER, NEVER, base_ids=[base.id], acl=["org:*"]
    )
    vault = Vault(None, mill.settings.data_dir)
    connector = await connections.create(mill.db, vault, mill.tools, new)
    began = time.perf_counter()
    _, run = await synced(mill, connector)
    first = time.perf_counter() - began
    print(f"first: {first:.1f} s, {run.status}, {run.documents_ingested} documents")
    made = await chunks_made(mill)
    began = time.perf_counter()
    _, run = await synced(mill, connector)
    again = time.perf_counter() - began
    print(
        f"again: {again:.2f} s, {run.documents_ingested} documents, {await chunks_made(mill) - made} chunks made"
    )
    async with httpx.AsyncClient() as client:
        await client.get(f"{url}/control/edit")
    began = time.perf_counter()
    _, run = await synced(mill, connector)
    print(f"one: {time.perf_counter() - began:.2f} s, {run.documents_ingested} documents indexed again")
    return first


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--issues", type=int, default=5000)
    parser.add_argument("--double", action="store_true", help="be the double")
    parser.add_argument("--notes-first", action="store_true")
    parser.add_argument("--free", action="store_true", help="an embedder that costs nothing")
    given = parser.parse_args()
    if given.double:
        serve(given.issues)
        return
    command = [sys.executable, "-m", "bench.connectors", "--double", "--issues", str(given.issues)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as double,
        TemporaryDirectory(prefix="gristmill-bench-") as folder,
    ):
        assert double.stdout is not None
        url = double.stdout.readline().strip()
        try:
            Path(folder).chmod(0o755)
            asyncio.run(measure(url, Path(folder), connector_first=not given.notes_first, free=given.free))
        finally:
            double.kill()


if __name__ == "__main__":
    main()
