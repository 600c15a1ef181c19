"""A document of many pages, killed in the middle: finished pages are not read again."""

import json
from pathlib import Path
from typing import Any

import pytest

from gristmill.catalog import NewItem
from gristmill.db import Database
from gristmill.operations import add, bases
from gristmill.sources import FileSource
from tests.crash.event_consumers import Daemon
from tests.embedding.hashed import HashedEmbedder
from tests.gristmill_process import environment
from tests.operations.manual_worker import UNLIMITED
from tests.readers import samples
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = 2_000  # many times what is read ahead of its vectors


async def fetch_row(db: Database, statement: Any) -> tuple[Any, ...] | None:
    async with db.connection() as tx:
        return await (await tx.execute(statement)).fetchone()


async def _has_ended(daemon: Daemon) -> bool:
    return daemon.process is not None and daemon.process.poll() is not None


async def test_a_long_document_goes_on_behind_the_last_page_that_was_kept(
    db: Database, database_url: str, tmp_path: Path, cache_dir: Path
) -> None:
    """FIELD 6: kill -9 after some batches; the rest is read, no finished window again, and nothing is missing."""
    words = "the miller grinds and the baker bakes while the river turns the wheel of the old mill again and "
    path = tmp_path / "long.pdf"
    path.write_bytes(samples.pdf([f"Page {number} says {words * 5}" for number in range(PAGES)]))
    base = await bases.create(db, "long", HashedEmbedder(dimensions=64), {})
    new = NewItem("file", "long.pdf", str(path), source={"path": str(path), "local": True})
    await add.add(db, base.id, [add.ItemToAdd(new, FileSource(path, 1 << 30))], UNLIMITED)
    overrides = {"database_url": database_url, "lease": "PT1S", "embedder": "hashed", "log_level": "error"}
    env = {**environment(tmp_path / "data", cache_dir, **overrides), "PYTHONPATH": str(ROOT)}
    arguments = ["tests.ingest.worker", "64", "0.002", str(tmp_path / "counted")]
    daemon = Daemon(arguments, {**env, "GRISTMILL_FAULTS": "index.batch_written=kill@2"}, tmp_path / "log")
    again = Daemon(arguments, env, tmp_path / "log")
    try:
        await daemon.start()
        await wait_until(lambda: _has_ended(daemon), limit=60)
        last_page = await fetch_row(db, "select max(page) from content_part")
        assert last_page is not None
        assert 1 < last_page[0] < PAGES
        await again.start()
        await wait_until(
            lambda: fetch_row(db, "select 1 from item where status in ('completed', 'failed')"), limit=60
        )
    finally:
        daemon.kill()
        again.kill()
    row = await fetch_row(
        db, "select i.status, i.warnings, v.timeline from item i join item_version v on v.item_id = i.id"
    )
    assert row is not None
    status, warnings, timeline = row
    assert (status, warnings) == ("completed", [])
    assert timeline["pagesKept"] >= last_page[0] - 1, json.dumps(timeline)
    pages = await fetch_row(db, "select count(distinct page), sum(length(text)) from content_part")
    assert pages == (PAGES, (await fetch_row(db, "select characters from content") or (0,))[0])
