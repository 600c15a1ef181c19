"""A simple model of the catalog, and the checks that compare the database with it after any sequence of operations.

The model knows which roots and notes exist, what is on the disk, and what was deleted. At the end everything that exists is
re-indexed: then exactly the current texts are searchable. After that everything is deleted: nothing is left.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from gristmill import faults
from gristmill.catalog import Base, ItemId
from gristmill.db import Database
from gristmill.jobs import Job, store
from gristmill.operations import delete
from gristmill.settings import Settings
from tests.database_clock import DatabaseClock
from tests.operations.manual_worker import ManualWorker

Result = TypeVar("Result")
FOLDERS = ["A", "A/s", "A/s/t", "B"]


class Model(RuleBasedStateMachine):
    """One base at a time, some folders on the disk, one worker and its ghosts."""

    url: str  # set by the test: a database of its own
    app_settings: Settings
    worker: ManualWorker
    base: Base

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.db = Database(self.url)
        self.clock = DatabaseClock(self.db)
        self.disk = Path(tempfile.mkdtemp(prefix="gristmill-machine-"))
        self.files: dict[Path, str | None] = {}  # what they hold; None: nothing that can be read
        self.roots: dict[ItemId, Path] = {}
        self.texts: dict[ItemId, str] = {}  # of notes and uploads
        self.parents: dict[ItemId, ItemId | None] = {}
        self.deleted: set[ItemId] = set()
        self.ghosts: list[Job] = []
        self.count = 0
        self.started = False

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(work)

    @initialize()
    def start(self) -> None:
        async def begin() -> None:
            await self.db.open()
            async with self.db.transaction() as tx:
                await tx.execute("truncate job, job_history, worker, lane, schedule")
                await tx.execute("delete from base")
                await tx.execute("truncate content, blob, pending_blob_name cascade")
            self.worker = await ManualWorker.start(self.db, self.app_settings)
            await self.new_base()

        for name in FOLDERS:
            (self.disk / name).mkdir()
        self.run(begin())
        self.started = True

    def teardown(self) -> None:
        try:
            if self.started:
                self.run(self.end())
        finally:
            vars(faults)["_armed"].clear()
            self.run(self.db.close())
            self.runner.close()
            shutil.rmtree(self.disk)

    # ── what must be true ────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def the_promises_hold(self) -> None:
        if self.started:
            self.run(self.look())

    async def look(self) -> None:
        await self.worker.assert_healthy()
        shown = await self.worker.rows(
            "select id from item where status <> 'deleting' and id = any (%s) and base_id in"
            " (select id from base where status <> 'deleting')",
            list(self.deleted),
        )
        assert shown == [], "something deleted is visible"
        lost = {*self.roots, *self.texts} - {row[0] for row in await self.worker.rows("select id from item")}
        assert not lost, "something is lost that was not deleted"
        under = await self.worker.rows(
            "select c.title from item c join item p on p.id = c.parent_id"
            " where p.status = 'deleting' and c.status <> 'deleting'"
        )
        assert under == [], "something lives below what is being deleted"

    async def everything(self) -> list[Any]:
        return [
            await self.worker.rows("select * from item order by id"),
            await self.worker.rows("select item_id, version, index, text from chunk order by 1, 2, 3"),
            await self.worker.rows("select * from item_version order by item_id, version"),
            await self.worker.rows("select id, state, lease, attempt, result from job order by id"),
        ]

    async def end(self) -> None:
        """Finish all work; re-index everything and finish; delete everything and finish."""
        await self.to_rest()
        for path in self.roots.values():  # one that is gone would be refused, and stay as it was
            path.mkdir(parents=True, exist_ok=True)
        if roots := await self.live_roots():
            await self.worker.reindex(self.base, *roots)
            await self.to_rest()
        expected = Counter(self.texts.values())
        spoiled = 0
        for path in self.roots.values():
            below = [text for file, text in self.files.items() if file.is_relative_to(path)]
            expected.update(text for text in below if text is not None)
            spoiled += below.count(None)
        completed = await self.worker.rows(
            "select c.text from chunk c join item i on i.id = c.item_id and c.version = i.live_version"
            " where i.status = 'completed'"
        )
        assert Counter(row[0] for row in completed) == expected
        failed = await self.worker.rows(
            "select error_code from item where status = 'failed' and type = 'file' order by 1"
        )
        assert failed == [("unsupported_type",)] * spoiled
        if expected.total() < 100:
            assert expected - Counter(await self.worker.search_texts(self.base, "rye")) == Counter()
        if roots:
            gone = await self.below(roots)
            await delete.delete(self.db, self.base.id, roots)
            self.forget(gone)
            await self.look()
        await self.to_rest()
        left = await self.worker.remaining_rows()
        left["jobs"] = await self.worker.value("select count(*) from job where kind <> 'reindex_subtree'")
        assert not any(left.values()), left
        assert [blob async for blob in self.worker.originals.blobs.list()] == []

    async def to_rest(self) -> None:
        for _ in range(100):
            await self.clock.advance(timedelta(minutes=20))
            async with self.db.connection() as tx:
                await store.tick(tx)
            await self.worker.enrol()
            await self.worker.work()
            if not await self.worker.rows("select from job where state <> 'dead'"):
                break
        else:
            raise AssertionError("some work never ends")
        await self.look()
        assert set((await self.worker.statuses()).values()) <= {"completed", "failed"}

    # ── the model ────────────────────────────────────────────────────────────────────────────────────────

    async def new_base(self) -> None:
        self.count += 1
        self.base = await self.worker.base(f"base {self.count}")

    def text(self) -> str:
        self.count += 1
        return f"rye {self.count}"

    def root(self, chosen: int | None) -> ItemId | None:
        roots = sorted(self.roots)
        return roots[chosen % len(roots)] if chosen is not None and roots else None

    async def live(self, chosen: Sequence[int]) -> list[ItemId]:
        rows = await self.worker.rows(
            "select id from item where base_id = %s and status <> 'deleting' order by id", self.base.id
        )
        return [rows[choice % len(rows)][0] for choice in chosen] if rows else []

    async def live_roots(self) -> list[ItemId]:
        return [
            row[0]
            for row in await self.worker.rows(
                "select id from item where base_id = %s and parent_id is null", self.base.id
            )
        ]

    async def below(self, ids: Sequence[ItemId]) -> list[ItemId]:
        """These items and all below them, found by another query than the code's own."""
        found = list(ids)
        while ids := [
            row[0]
            for row in await self.worker.rows("select id from item where parent_id = any (%s)", list(ids))
        ]:
            found += ids
        return found

    def forget(self, gone: Sequence[ItemId]) -> None:
        self.deleted |= set(gone)
        for item_id in gone:
            for known in (self.roots, self.texts, self.parents):
                known.pop(item_id, None)
