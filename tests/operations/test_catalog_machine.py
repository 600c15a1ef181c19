"""Any sequence of operations, jobs, failures, crashes and zombies: the promises hold after every step.

The model knows which roots and notes live, what is on the disk, and what was deleted. In the end everything that
lives is wanted anew and worked off: then exactly the present texts answer. After that all is deleted: nothing is left.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gristmill import catalog, faults
from gristmill.catalog import Base, ItemId
from gristmill.db import Database
from gristmill.errors import Conflict, RequestError
from gristmill.jobs import Job, JobId, store
from gristmill.operations import add, bases, cancel, delete, queue
from gristmill.operations import retry as retrying
from gristmill.operations.add import OnConflict
from gristmill.operations.reindex import SubtreeActive
from gristmill.operations.uploads import keep
from gristmill.settings import Settings
from gristmill.work import OnActive
from tests.clock import Clock
from tests.operations.hand import LEASE, WIDE, Hand, folder, note, pieces, upload
from tests.operations.meeting import held

Result = TypeVar("Result")
PATIENT = settings(
    max_examples=20,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

FOLDERS = ["A", "A/s", "A/s/t", "B"]
CHOICE = st.integers(0, 1000)
CHOICES = st.lists(CHOICE, min_size=1, max_size=3)
POINTS = {
    "index_document": ["index.opened", "index.batch_written", "publish.before_commit", "publish.committed"],
    "prepare_root": ["expand.opened", "expand.listed", "schedule.before_enqueue", "expand.filed"],
    "reindex_subtree": ["rebuild.begun", "rebuild.reset", "schedule.before_enqueue"],
    "delete_subtree": ["remove.batch", "remove.blobs_locked"],
    "delete_base": ["remove.batch", "remove.blobs_locked"],
}
# Where no transaction is open, so that others can go ahead.
OPEN = {
    "index.opened",
    "index.batch_written",
    "expand.opened",
    "expand.listed",
    "expand.filed",
    "rebuild.begun",
}


class Catalog(RuleBasedStateMachine):
    """One base at a time, some folders on the disk, one worker and its ghosts."""

    url: str  # set by the test: a database of its own
    given: Settings

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.db = Database(self.url)
        self.clock = Clock(self.db)
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
                await tx.execute("truncate content, blob cascade")
            self.hand = await Hand.at(self.db, self.given)
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

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────

    @rule(name=st.sampled_from(["A", "A/s", "B"]), on_conflict=st.sampled_from(["rename", "skip", "replace"]))
    def add_folder(self, name: str, on_conflict: OnConflict) -> None:
        path = self.disk / name
        if not path.exists():
            return
        for item in self.run(self.hand.add(self.base, folder(path), on_conflict=on_conflict)):
            self.roots[item.id] = path

    @rule(
        title=st.sampled_from("xyz"),
        where=CHOICE | st.none(),
        on_conflict=st.sampled_from(["rename", "skip", "replace"]),
    )
    def add_note(self, title: str, where: int | None, on_conflict: OnConflict) -> None:
        parent = self.root(where)
        text = self.text()
        entry = note(title, text)
        for item in self.run(self.hand.add(self.base, entry, parent_id=parent, on_conflict=on_conflict)):
            self.texts[item.id], self.parents[item.id] = text, parent

    @rule(which=st.sampled_from([1, 2]), where=CHOICE | st.none())
    def upload(self, which: int, where: int | None) -> None:
        """Equal bytes come again and again, so that they are shared, removed and stored anew."""
        text, parent = f"rye upload {which}", self.root(where)

        async def go() -> None:
            blob = await keep(self.db, self.hand.originals.blobs, lambda: pieces(text.encode()))
            (item,) = await self.hand.add(self.base, upload("u.md", blob.hash, blob.size), parent_id=parent)
            self.texts[item.id], self.parents[item.id] = text, parent

        self.run(go())

    @rule(chosen=CHOICES)
    def delete(self, chosen: list[int]) -> None:
        self.run(self.delete_some(chosen))

    async def delete_some(self, chosen: Sequence[int]) -> None:
        if ids := await self.live(chosen):
            gone = await self.below(ids)
            await delete.delete(self.db, self.base.id, ids)
            self.forget(gone)

    @rule(chosen=CHOICES, on_active=st.sampled_from(["reject", "skip", "after"]))
    def reindex(self, chosen: list[int], on_active: OnActive) -> None:
        self.run(self.reindex_some(chosen, on_active))

    async def reindex_some(self, chosen: Sequence[int], on_active: OnActive) -> None:
        if ids := await self.live(chosen):
            async with self.db.connection() as tx:
                busy = await catalog.unrested(tx, ids)
            try:
                await self.hand.reindex(self.base, *ids, on_active=on_active)
            except SubtreeActive:
                assert busy, "refused, though all was at rest"
            except Conflict as error:
                assert error.code == "source_unavailable"

    @rule(chosen=CHOICE)
    def cancel(self, chosen: int) -> None:
        self.run(self.on_some_job(chosen, "state <> 'dead'", cancel.cancel))

    @rule(chosen=CHOICE)
    def retry(self, chosen: int) -> None:
        self.run(self.on_some_job(chosen, "state = 'dead'", retrying.retry))

    async def on_some_job(
        self, chosen: int, which: str, ask: Callable[[Database, JobId], Awaitable[object]]
    ) -> None:
        async with self.db.connection() as tx:
            found = await (
                await tx.execute(f"select id from job where {which} order by id".encode())
            ).fetchall()
        if found:
            try:
                await ask(self.db, JobId(found[chosen % len(found)][0]))
            except Conflict as error:
                assert error.code in ("job_not_cancellable", "job_outdated", "job_not_dead")

    @rule(policy=st.sampled_from(["resume", "park"]), hand=st.sampled_from([queue.recover, queue.dismiss]))
    def restart_policy(self, policy: catalog.OnRestart, hand: Callable[..., Awaitable[int]]) -> None:
        async def go() -> None:
            await bases.patch(self.db, self.base.id, on_restart=policy)
            await hand(self.db, self.base.id)

        self.run(go())

    @rule(sure=st.integers(0, 9))
    def delete_base(self, sure: int) -> None:
        if sure:
            return

        async def go() -> None:
            gone = [row[0] for row in await self.hand.fetch("select id from item")]
            await bases.delete(self.db, self.base.id)
            self.forget(gone)
            await self.new_base()

        self.run(go())

    # ── the disk ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(where=st.sampled_from(FOLDERS), name=st.sampled_from(["p.md", "q.md"]), readable=st.booleans())
    def write(self, where: str, name: str, readable: bool) -> None:
        path = self.disk / where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.files[path] = self.text() if readable else None
        path.write_text(self.files[path] or "\0\0")

    @rule(where=st.sampled_from(["A/s", "A/s/t"]))
    def remove_folder(self, where: str) -> None:
        shutil.rmtree(self.disk / where, ignore_errors=True)
        self.files = {path: text for path, text in self.files.items() if path.exists()}

    @rule(chosen=CHOICE)
    @precondition(lambda self: self.files)
    def unlink(self, chosen: int) -> None:
        path = sorted(self.files)[chosen % len(self.files)]
        path.unlink()
        del self.files[path]

    # ── the work ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(number=st.integers(1, 8))
    def work(self, number: int) -> None:
        """Some jobs, side by side."""

        async def go() -> None:
            await asyncio.gather(*(self.hand.run(job) for job in await self.hand.claim(number)))

        self.run(go())

    @rule(chosen=CHOICE)
    def fail(self, chosen: int) -> None:
        """An attempt that fails somewhere on its way."""

        async def go() -> None:
            for job in await self.hand.claim(1):
                points = POINTS[job.kind]
                faults.arm(f"{points[chosen % len(points)]}=fail")
                await self.hand.run(job)
                vars(faults)["_armed"].clear()

        self.run(go())

    @rule(number=st.integers(1, 3))
    def crash(self, number: int) -> None:
        """A worker takes jobs and is gone; another starts. What it held comes back when its lease is out."""

        async def go() -> None:
            self.ghosts += await self.hand.claim(number)
            await self.hand.enrol()

        self.run(go())

    @rule(seconds=st.sampled_from([1, 30, 600]))
    def time_passes(self, seconds: int) -> None:
        async def go() -> None:
            await self.clock.advance(timedelta(seconds=seconds))
            async with self.db.connection() as tx:
                await store.beat(tx, self.hand.id, LEASE)
                await store.tick(tx)

        self.run(go())

    @rule(chosen=CHOICE)
    @precondition(lambda self: self.ghosts)
    def ghost(self, chosen: int) -> None:
        """A worker that was thought dead runs its job after all; if another has it by now, nothing changes."""

        async def go() -> None:
            job = self.ghosts.pop(chosen % len(self.ghosts))
            held_still = await self.hand.fetch(
                "select from job where id = %s and lease = %s", job.id, job.lease
            )
            before = await self.everything()
            await self.hand.run(job)
            assert held_still or await self.everything() == before, "a ghost wrote something"

        self.run(go())

    @rule(chosen=CHOICES, what=st.sampled_from(["delete", "reindex", "replace", "cancel", "time"]))
    def meanwhile(self, chosen: list[int], what: str) -> None:
        """Something is asked while a job is in the middle of its work."""

        async def go() -> None:
            for job in await self.hand.claim(1):
                points = [point for point in POINTS[job.kind] if point in OPEN] or ["none"]
                async with held(points[chosen[0] % len(points)], self.hand.run(job), surely=False):
                    match what:
                        case "delete":
                            await self.delete_about(job, chosen)
                        case "reindex":
                            await self.reindex_some(chosen, "after")
                        case "replace":
                            await self.replace_about(job)
                        case "cancel":
                            await self.on_some_job(chosen[0], "state = 'running'", cancel.cancel)
                        case _:
                            await self.clock.advance(2 * LEASE)
                            await self.hand.enrol()
                            async with self.db.connection() as tx:
                                await store.tick(tx)

        self.run(go())

    async def delete_about(self, job: Job, chosen: Sequence[int]) -> None:
        """Delete what the job is about, or the root above it; all of it goes at once in half of the cases."""
        if job.subject is None or not await self.hand.fetch("select from item where id = %s", job.subject):
            return
        gone = await self.below([ItemId(job.subject)])
        if set(gone) & self.deleted:
            return
        await delete.delete(self.db, self.base.id, [ItemId(job.subject)])
        self.forget(gone)
        if chosen[-1] % 2:
            other = await Hand.at(self.db, self.given)
            await other.work()

    async def replace_about(self, job: Job) -> None:
        if job.subject in self.texts and job.subject not in self.deleted:
            ((title, type_),) = await self.hand.fetch(
                "select title, type from item where id = %s", job.subject
            )
            if type_ == "note":
                text = self.text()
                parent = self.parents[ItemId(job.subject)]
                (item,) = await self.hand.add(
                    self.base, note(title, text), parent_id=parent, on_conflict="replace"
                )
                self.texts[item.id] = text

    @rule(chosen=CHOICES, deleting=st.booleans())
    def all_at_once(self, chosen: list[int], deleting: bool) -> None:
        """Callers and jobs side by side, on their own connections."""
        self.run(self.everybody(chosen, deleting=deleting))

    async def everybody(self, chosen: list[int], *, deleting: bool) -> None:
        root = self.root(chosen[0])
        if root is None:
            return
        gone, text = await self.below([root]), self.text()
        asked: list[Coroutine[Any, Any, Any]] = [
            self.hand.reindex(self.base, root, on_active="after"),
            add.add(self.db, self.base.id, [note("w", text)], WIDE, parent_id=root),
            *(self.hand.run(job) for job in await self.hand.claim(3)),
        ]
        if deleting:
            asked.append(delete.delete(self.db, self.base.id, [root]))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, RequestError):
                raise answer
        if isinstance(answers[1], add.Added):
            (item,) = answers[1].created
            self.texts[item.id], self.parents[item.id] = text, root
            gone.append(item.id)
        if deleting:
            self.forget(gone)

    # ── what must be true ────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def the_promises_hold(self) -> None:
        if self.started:
            self.run(self.look())

    async def look(self) -> None:
        await self.hand.healthy()
        shown = await self.hand.fetch(
            "select id from item where status <> 'deleting' and id = any (%s) and base_id in"
            " (select id from base where status <> 'deleting')",
            list(self.deleted),
        )
        assert shown == [], "something deleted is visible"
        lost = {*self.roots, *self.texts} - {row[0] for row in await self.hand.fetch("select id from item")}
        assert not lost, "something that nobody deleted is gone"
        under = await self.hand.fetch(
            "select c.title from item c join item p on p.id = c.parent_id"
            " where p.status = 'deleting' and c.status <> 'deleting'"
        )
        assert under == [], "something lives below what is being deleted"

    async def everything(self) -> list[Any]:
        return [
            await self.hand.fetch("select * from item order by id"),
            await self.hand.fetch("select item_id, version, index, text from chunk order by 1, 2, 3"),
            await self.hand.fetch("select * from item_version order by item_id, version"),
            await self.hand.fetch("select id, state, lease, attempt, result from job order by id"),
        ]

    async def end(self) -> None:
        """Rest; everything anew; rest; everything away; rest."""
        await self.to_rest()
        if roots := await self.live_roots():
            await self.hand.reindex(self.base, *roots)
            await self.to_rest()
        expected = Counter(self.texts.values())
        spoiled = 0
        for path in self.roots.values():
            below = [text for file, text in self.files.items() if file.is_relative_to(path)]
            expected.update(text for text in below if text is not None)
            spoiled += below.count(None)
        completed = await self.hand.fetch(
            "select c.text from chunk c join item i on i.id = c.item_id and c.version = i.live_version"
            " where i.status = 'completed'"
        )
        assert Counter(row[0] for row in completed) == expected
        failed = await self.hand.fetch(
            "select error_code from item where status = 'failed' and type = 'file' order by 1"
        )
        assert failed == [("unsupported_type",)] * spoiled
        if expected.total() < 100:
            assert expected - Counter(await self.hand.texts(self.base, "rye")) == Counter()
        if roots:
            await delete.delete(self.db, self.base.id, roots)
        await self.to_rest()
        left = await self.hand.left()
        left["jobs"] = await self.hand.one("select count(*) from job where kind <> 'reindex_subtree'")
        assert not any(left.values()), left
        assert [blob async for blob in self.hand.originals.blobs.list()] == []

    async def to_rest(self) -> None:
        for _ in range(100):
            await self.clock.advance(timedelta(minutes=20))
            async with self.db.connection() as tx:
                await store.tick(tx)
            await self.hand.enrol()
            await self.hand.work()
            if not await self.hand.fetch("select from job where state <> 'dead'"):
                break
        else:
            raise AssertionError("some work never ends")
        await self.look()
        assert set((await self.hand.statuses()).values()) <= {"completed", "failed"}

    # ── the model ────────────────────────────────────────────────────────────────────────────────────────

    async def new_base(self) -> None:
        self.count += 1
        self.base: Base = await self.hand.base(f"base {self.count}")

    def text(self) -> str:
        self.count += 1
        return f"rye {self.count}"

    def root(self, chosen: int | None) -> ItemId | None:
        roots = sorted(self.roots)
        return roots[chosen % len(roots)] if chosen is not None and roots else None

    async def live(self, chosen: Sequence[int]) -> list[ItemId]:
        rows = await self.hand.fetch(
            "select id from item where base_id = %s and status <> 'deleting' order by id", self.base.id
        )
        return [rows[choice % len(rows)][0] for choice in chosen] if rows else []

    async def live_roots(self) -> list[ItemId]:
        return [
            row[0]
            for row in await self.hand.fetch(
                "select id from item where base_id = %s and parent_id is null", self.base.id
            )
        ]

    async def below(self, ids: Sequence[ItemId]) -> list[ItemId]:
        return [row[0] for row in await self.hand.fetch("select id from item_subtree(%s)", list(ids))]

    def forget(self, gone: Sequence[ItemId]) -> None:
        self.deleted |= set(gone)
        for item_id in gone:
            for known in (self.roots, self.texts, self.parents):
                known.pop(item_id, None)


@pytest.fixture
def machine(database_url: str, settings: Settings) -> type[Catalog]:
    """The machine, on a database and a blob store of its own."""

    async def stop_the_clock() -> None:
        db = Database(database_url)
        await db.open()
        await Clock.install(db)
        await db.close()

    asyncio.run(stop_the_clock())
    return type("OnOwnDatabase", (Catalog,), {"url": database_url, "given": settings})


def test_no_sequence_of_operations_breaks_a_promise(machine: type[Catalog]) -> None:
    """Promises 1 to 3; S0-10, S0-11, S0-39, S0-47, S1-19."""
    run_state_machine_as_test(machine, settings=PATIENT)


EAGER = settings(PATIENT, max_examples=300, print_blob=False, database=None)


def test_the_machine_catches_containers_that_are_not_derived(
    machine: type[Catalog], database_url: str
) -> None:
    """The test above can fail: here nothing tells a container how its children are."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "create or replace function item_settle(p_item uuid) returns void language sql as 'select'"
        )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=EAGER)


def test_the_machine_catches_a_worker_that_writes_what_is_no_longer_wanted(
    machine: type[Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same: here a job goes on writing for an item that was deleted or replaced meanwhile."""

    async def always(*_: object) -> bool:
        return True

    monkeypatch.setattr(catalog, "is_wanted", always)
    with pytest.raises((AssertionError, psycopg.errors.ForeignKeyViolation)):
        run_state_machine_as_test(machine, settings=EAGER)
