"""Workers are killed at every step of a move to another base, while both bases are searched."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from gristmill import catalog, clock
from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.integrity import invariants
from gristmill.operations.move import move
from gristmill.search import Searcher, SearchRequest, Target
from gristmill.settings import Settings
from tests.crash.test_kill_swap import KilledWorker
from tests.embedding.hashed import HashedEmbedder
from tests.operations.manual_worker import ManualWorker, note_to_add
from tests.wait_until import wait_until

POINTS = ("swap.batch_written", "move.built", "move.before_switch", "move.switched", "move.cleaned")
NOTES = 8


class Watcher:
    """Lists and searches both bases all the time: every note is in exactly one of them."""

    def __init__(self, db: Database, *bases: Base) -> None:
        self._db, self._bases = db, bases
        self.answers = 0

    async def run(self) -> None:
        """Look until cancelled."""
        searcher = Searcher(self._db, cache_bytes=2**20)
        while True:
            async with self._db.connection() as tx:
                rows = await (
                    await tx.execute(
                        "select count(*) filter (where base_id = %s), count(*) from item where live_version is not null",
                        [self._bases[1].id],
                    )
                ).fetchone()
            assert rows in ((0, NOTES), (NOTES, NOTES)), "all of them move in one moment"
            titles: list[list[str]] = []
            for base in self._bases:
                target = Target(base, HashedEmbedder())
                hits = await searcher.search([target], SearchRequest("flour", limit=20, mode="text"))
                titles.append([hit.title for hit in hits])
            # The switch may be between the two searches: then both see them, or the second alone does.
            assert all(len(found) in (0, NOTES) for found in titles)
            assert any(titles)
            self.answers += 1
            await clock.pause(timedelta(milliseconds=20))  # the worker needs a core too


@pytest.mark.slow
async def test_a_move_survives_kills_and_shows_its_items_in_one_base_at_every_moment(
    db: Database, database_url: str, settings: Settings, tmp_path: Path, cache_dir: Path
) -> None:
    """After kill -9 at any step the next worker goes on; at the end nothing is left behind, and no text was embedded again."""
    manual = await ManualWorker.start(db, settings)
    base, target = await manual.base(), await manual.base("target")
    await manual.add(base, *(note_to_add(f"note-{n}", f"flour of mill{n}") for n in range(NOTES)))
    await manual.work()
    async with db.connection() as tx:
        ids = [item.id for item in await catalog.list_items(tx, base.id, catalog.ItemFilter(), limit=NOTES)]
    watcher = Watcher(db, base, target)
    watching = asyncio.create_task(watcher.run())
    await move(db, base.id, ids, to_base=target.id)
    worker = KilledWorker(database_url, tmp_path, cache_dir)
    for point in POINTS:
        await worker.run_until_killed(point)
        assert not watching.done(), watching.exception()
    workers = [worker, KilledWorker(database_url, tmp_path, cache_dir)]
    try:
        for each in workers:
            await each.start()

        async def is_done() -> bool:
            async with db.connection() as tx:
                row = await (
                    await tx.execute("select count(*) from job where kind = 'move_items'")
                ).fetchone()
                return row == (0,)

        await wait_until(is_done, limit=60)
    finally:
        for each in workers:
            each.stop()
    assert not watching.done(), watching.exception()
    watching.cancel()
    assert watcher.answers
    async with db.connection() as tx:
        counts = await (await tx.execute("select set_id, count(*) from chunk group by 1")).fetchall()
        missing = await (await tx.execute("select count(*) from missing_item")).fetchone()
        violations = await invariants.find_violations(tx)
    assert (counts, missing, violations) == ([(target.chunk_set, NOTES)], (0,), [])
