"""A simple model of the catalog, and the checks that compare the database with it after any sequence of operations.

The model knows which roots and notes exist, what is on the disk, and what was deleted. At the end everything that exists is
re-indexed: then exactly the current texts are searchable, except for what was deleted from a folder. After that everything is deleted: nothing is left.
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

    url: str  # set by the test
    app_settings: Settings
    worker: ManualWorker
    base: Base

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.db = Database(self.url)
        self.clock = DatabaseClock(self.db)
        self.disk = Path(tempfile.mkdtemp(prefix="gristmill-machine-"))
        self.files: dict[Path, str | None] = {}  # the text of each file; None when it can't be read
        self.roots: dict[ItemId, Path] = {}
        self.texts: dict[ItemId, str] = {}  # of notes and uploads
        self.parents: dict[ItemId, ItemId | None] = {}
        self.deleted_ids: set[ItemId] = set()
        self.ghosts: list[Job] = []
        self.count = 0
        self.is_started = False

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
        self.is_started = True

    def teardown(self) -> None:
        try:
            if self.is_started:
                self.run(self.finish_and_check())
        finally:
            vars(faults)["_armed"].clear()
            self.run(self.db.close())
            self.runner.close()
            shutil.rmtree(self.disk)

    # ── what must be true ────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def the_promises_hold(self) -> None:
        if self.is_started:
            self.run(self.check())

    async def check(self) -> None:
        await self.worker.assert_healthy()
        rows = await self.worker.rows(
            "select id from item where status <> 'deleting' and id = any (%s) and base_id in"
            " (select id from base where status <> 'deleting')",
            list(self.deleted_ids),
        )
        assert rows == [], "something deleted is visible"
        missing_ids = {*self.roots, *self.texts} - {
            row[0] for row in await self.worker.rows("select id from item")
        }
        assert not missing_ids, "something is lost that was not deleted"
        live_below_deleted = await self.worker.rows(
            "select c.title from item c join item p on p.id = c.parent_id"
            " where p.status = 'deleting' and c.status <> 'deleting'"
        )
        assert live_below_deleted == [], "something lives below what is being deleted"

    async def snapshot(self) -> list[Any]:
        return [
            await self.worker.rows("select * from item order by id"),
            await self.worker.rows("select item_id, version, index, text from chunk order by 1, 2, 3"),
            await self.worker.rows("select * from item_version order by item_id, version"),
            await self.worker.rows("select id, state, lease, attempt, result from job order by id"),
        ]

    async def finish_and_check(self) -> None:
        """Finish all work; re-index everything and finish; delete everything and finish."""
        await self.work_until_idle()
        for path in self.roots.values():  # a missing folder would be rejected and stay unchanged
            path.mkdir(parents=True, exist_ok=True)
        if roots := await self.live_roots():
            await self.worker.reindex(self.base, *roots)
            await self.work_until_idle()
        expected = Counter(self.texts.values())
        unreadable_count = 0
        excluded = await self.worker.rows("select root_id, source_key from exclusion")
        for root, path in self.roots.items():
            left_out = [Path(source) for owner, source in excluded if owner == root]
            below = [
                text
                for file, text in self.files.items()
                if file.is_relative_to(path) and not any(file.is_relative_to(each) for each in left_out)
            ]
            expected.update(text for text in below if text is not None)
            unreadable_count += below.count(None)
        completed_rows = await self.worker.rows(
            "select c.text from chunk c join item i on i.id = c.item_id and c.version = i.live_version"
            " where i.status = 'completed'"
        )
        assert Counter(row[0] for row in completed_rows) == expected
        failed_rows = await self.worker.rows(
            "select error_code from item where status = 'failed' and type = 'file' order by 1"
        )
        assert failed_rows == [("unsupported_type",)] * unreadable_count
        if expected.total() < 100:
            assert expected - Counter(await self.worker.search_texts(self.base, "rye")) == Counter()
        if roots:
            deleted_ids = await self.with_descendants(roots)
            await delete.delete(self.db, self.base.id, roots)
            self.forget(deleted_ids)
            await self.check()
        await self.work_until_idle()
        remaining = await self.worker.remaining_rows()
        remaining["jobs"] = await self.worker.value(
            "select count(*) from job where kind <> 'reindex_subtree'"
        )
        assert not any(remaining.values()), remaining
        assert [blob async for blob in self.worker.originals.blobs.list()] == []

    async def work_until_idle(self) -> None:
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
        await self.check()
        assert set((await self.worker.statuses()).values()) <= {"completed", "failed"}

    # ── the model ────────────────────────────────────────────────────────────────────────────────────────

    async def new_base(self) -> None:
        self.count += 1
        self.base = await self.worker.base(f"base {self.count}")

    def new_text(self) -> str:
        self.count += 1
        return f"rye {self.count}"

    def pick_root(self, selection: int | None) -> ItemId | None:
        roots = sorted(self.roots)
        return roots[selection % len(roots)] if selection is not None and roots else None

    async def pick_live_items(self, selection: Sequence[int]) -> list[ItemId]:
        rows = await self.worker.rows(
            "select id from item where base_id = %s and status <> 'deleting' order by id", self.base.id
        )
        return [rows[choice % len(rows)][0] for choice in selection] if rows else []

    async def live_roots(self) -> list[ItemId]:
        return [
            row[0]
            for row in await self.worker.rows(
                "select id from item where base_id = %s and parent_id is null", self.base.id
            )
        ]

    async def with_descendants(self, ids: Sequence[ItemId]) -> list[ItemId]:
        """These items and their descendants, by another query than the code's own."""
        descendants = list(ids)
        while ids := [
            row[0]
            for row in await self.worker.rows("select id from item where parent_id = any (%s)", list(ids))
        ]:
            descendants += ids
        return descendants

    def forget(self, ids: Sequence[ItemId]) -> None:
        self.deleted_ids |= set(ids)
        for item_id in ids:
            for mapping in (self.roots, self.texts, self.parents):
                mapping.pop(item_id, None)
