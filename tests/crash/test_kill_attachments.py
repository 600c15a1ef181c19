"""kill -9 while attachments are filed or images described: afterwards each exists once, and was paid for at most once."""

from pathlib import Path

import pytest

from gristmill.catalog import NewItem
from gristmill.db import Database
from gristmill.integrity import invariants
from gristmill.operations import add, bases
from gristmill.sources import FileSource
from tests.crash.event_consumers import Daemon
from tests.embedding.endpoint import CannedResponse, serve
from tests.embedding.hashed import HashedEmbedder
from tests.gristmill_process import environment
from tests.operations.manual_worker import UNLIMITED
from tests.readers import samples
from tests.wait_until import wait_until

ROOT = Path(__file__).parents[2]
DESCRIPTION = CannedResponse(
    200, {"choices": [{"message": {"role": "assistant", "content": "Emmer prices."}}]}
)


@pytest.mark.parametrize("point", ["embedded.before_commit", "embedded.filed", "assets.before_commit"])
async def test_attachments_and_images_survive_a_kill_on_either_side_of_a_commit(
    db: Database, database_url: str, tmp_path: Path, cache_dir: Path, point: str
) -> None:
    """Promises 1 and 4, C26."""
    memo = samples.docx(samples.paragraph("Spelt today."), {"word/media/image1.png": samples.png()})
    path = samples.save(tmp_path, "all.zip", samples.zipped({"memo.docx": memo, "list.txt": "Oats."}))
    base = await bases.create(db, "inside", HashedEmbedder(dimensions=64), {})
    new = NewItem("file", "all.zip", str(path), source={"path": str(path), "local": True})
    await add.add(db, base.id, [add.ItemToAdd(new, FileSource(path, 1 << 30))], UNLIMITED)

    async def fetch_row(statement: str) -> object:
        async with db.connection() as tx:
            return await (await tx.execute(statement.encode())).fetchone()

    async def at_rest() -> bool:
        waiting = (
            "select 1 where exists (select from job where state <> 'dead') or not exists (select from asset)"
        )
        return await fetch_row(waiting) is None

    with serve() as seer:
        seer.respond = lambda _: DESCRIPTION
        settings = {"database_url": database_url, "lease": "PT1S", "embedder": "hashed", "log_level": "error"}
        settings |= {"vision_url": seer.url, "vision_model": "seer"}
        env = {**environment(tmp_path / "data", cache_dir, **settings), "PYTHONPATH": str(ROOT)}
        arguments = ["tests.ingest.worker", "64", "0", str(tmp_path / "counted")]
        daemon = Daemon(arguments, {**env, "GRISTMILL_FAULTS": f"{point}=kill"}, tmp_path / "log")
        again = Daemon(arguments, env, tmp_path / "log")
        try:
            await daemon.start()

            async def is_killed() -> bool:
                return daemon.process is not None and daemon.process.poll() is not None

            await wait_until(is_killed, limit=60)
            await again.start()
            await wait_until(at_rest, limit=60)
        finally:
            daemon.kill()
            again.kill()
        assert len(seer.requests) == 1
    assert await fetch_row("select count(*), count(*) filter (where status = 'completed') from item") == (
        3,
        3,
    )
    expected = "failed" if point == "assets.before_commit" else "described"
    assert await fetch_row("select state from asset") == (expected,)
    async with db.connection() as tx:
        assert await invariants.find_violations(tx) == []
