"""Any sequence of operations, jobs, failures, crashes and ghosts: the promises hold after every step."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, LiteralString

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from gristmill import catalog, faults
from gristmill.catalog import ItemId
from gristmill.db import Database
from gristmill.errors import Conflict, RequestError
from gristmill.jobs import Job, JobId, store
from gristmill.operations import add, bases, cancel, delete, queue
from gristmill.operations import retry as retrying
from gristmill.operations.add import OnConflict
from gristmill.operations.reindex import SubtreeActive
from gristmill.operations.uploads import store_upload
from gristmill.settings import Settings
from gristmill.work import OnActive
from tests.database_clock import stop_clock
from tests.operations.interleave import pause_at
from tests.operations.manual_worker import (
    LEASE,
    UNLIMITED,
    ManualWorker,
    byte_stream,
    folder_to_add,
    note_to_add,
    upload_to_add,
)
from tests.operations.model import FOLDERS, Model
from tests.thorough import examples

pytestmark = pytest.mark.slow

PATIENT = settings(
    max_examples=examples(8, 40),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

CHOICE = st.integers(0, 1000)
CHOICES = st.lists(CHOICE, min_size=1, max_size=3)
POINTS = {
    "index_document": ["index.opened", "index.embedded", "publish.before_commit", "index.batch_written"],
    "prepare_root": ["expand.opened", "expand.listed", "schedule.before_enqueue", "expand.filed"],
    "reindex_subtree": ["rebuild.begun", "rebuild.reset", "schedule.before_enqueue"],
    "delete_subtree": ["remove.batch", "remove.names_found", "remove.bytes_gone"],
    "delete_base": ["remove.batch", "remove.names_found", "remove.bytes_gone"],
}
# Points outside transactions, so that other workers can continue.
OPEN = {
    "index.opened",
    "index.embedded",
    "expand.opened",
    "expand.listed",
    "expand.filed",
    "rebuild.begun",
    "remove.names_found",
    "remove.bytes_gone",
}


class Catalog(Model):
    """Every operation, failure and crash, as rules."""

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────

    @rule(name=st.sampled_from(["A", "A/s", "B"]), on_conflict=st.sampled_from(["rename", "skip", "replace"]))
    def add_folder(self, name: str, on_conflict: OnConflict) -> None:
        path = self.disk / name
        if not path.exists():
            return
        for item in self.run(self.worker.add(self.base, folder_to_add(path), on_conflict=on_conflict)):
            self.roots[item.id] = path

    @rule(
        title=st.sampled_from("xyz"),
        where=CHOICE | st.none(),
        on_conflict=st.sampled_from(["rename", "skip", "replace"]),
    )
    def add_note(self, title: str, where: int | None, on_conflict: OnConflict) -> None:
        parent = self.pick_root(where)
        text = self.new_text()
        entry = note_to_add(title, text)
        for item in self.run(self.worker.add(self.base, entry, parent_id=parent, on_conflict=on_conflict)):
            self.texts[item.id], self.parents[item.id] = text, parent

    @rule(which=st.sampled_from([1, 2]), where=CHOICE | st.none())
    def upload(self, which: int, where: int | None) -> None:
        """Equal bytes are uploaded repeatedly, so that they are shared, removed and stored again."""
        text, parent = f"rye upload {which}", self.pick_root(where)

        async def go() -> None:
            blob = await store_upload(
                self.db, self.worker.originals.blobs, lambda: byte_stream(text.encode())
            )
            (item,) = await self.worker.add(
                self.base, upload_to_add("u.md", blob.hash, blob.size), parent_id=parent
            )
            self.texts[item.id], self.parents[item.id] = text, parent

        self.run(go())

    @rule(selection=CHOICES)
    def delete(self, selection: list[int]) -> None:
        self.run(self.delete_some(selection))

    async def delete_some(self, selection: Sequence[int]) -> None:
        if ids := await self.pick_live_items(selection):
            removed_ids = await self.with_descendants(ids)
            await delete.delete(self.db, self.base.id, ids)
            self.forget(removed_ids)

    @rule(selection=CHOICES, on_active=st.sampled_from(["reject", "skip", "after"]))
    def reindex(self, selection: list[int], on_active: OnActive) -> None:
        self.run(self.reindex_some(selection, on_active))

    async def reindex_some(self, selection: Sequence[int], on_active: OnActive) -> None:
        if ids := await self.pick_live_items(selection):
            async with self.db.connection() as tx:
                busy = await catalog.find_unfinished_items(tx, ids)
            try:
                await self.worker.reindex(self.base, *ids, on_active=on_active)
            except SubtreeActive:
                assert busy, "refused, though all was at rest"
            except Conflict as error:
                if error.code != "source_unavailable":
                    raise

    @rule(selection=CHOICE)
    def cancel(self, selection: int) -> None:
        self.run(self.on_some_job(selection, "state <> 'dead'", cancel.cancel))

    @rule(selection=CHOICE)
    def retry(self, selection: int) -> None:
        self.run(self.on_some_job(selection, "state = 'dead'", retrying.retry))

    async def on_some_job(
        self, selection: int, which: str, operation: Callable[[Database, JobId], Awaitable[object]]
    ) -> None:
        async with self.db.connection() as tx:
            job_row = await (
                await tx.execute(f"select id from job where {which} order by id".encode())
            ).fetchall()
        if job_row:
            try:
                await operation(self.db, JobId(job_row[selection % len(job_row)][0]))
            except Conflict as error:
                if error.code not in ("job_not_cancellable", "job_outdated", "job_not_dead"):
                    raise

    @rule(policy=st.sampled_from(["resume", "park"]), decide=st.sampled_from([queue.recover, queue.dismiss]))
    def restart_policy(self, policy: catalog.OnRestart, decide: Callable[..., Awaitable[int]]) -> None:
        async def go() -> None:
            await bases.patch(self.db, self.base.id, on_restart=policy)
            await decide(self.db, self.base.id)

        self.run(go())

    @rule(sure=st.integers(0, 9))
    def delete_base(self, sure: int) -> None:
        if sure:
            return

        async def go() -> None:
            removed_ids = [row[0] for row in await self.worker.rows("select id from item")]
            await bases.delete(self.db, self.base.id)
            self.forget(removed_ids)
            await self.new_base()

        self.run(go())

    # ── the disk ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(where=st.sampled_from(FOLDERS), name=st.sampled_from(["p.md", "q.md"]), readable=st.booleans())
    def write(self, where: str, name: str, readable: bool) -> None:
        path = self.disk / where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.files[path] = self.new_text() if readable else None
        path.write_text(self.files[path] or "\0\0")

    @rule(where=st.sampled_from(["A/s", "A/s/t"]))
    def remove_folder(self, where: str) -> None:
        shutil.rmtree(self.disk / where, ignore_errors=True)
        self.files = {path: text for path, text in self.files.items() if path.exists()}

    @rule(selection=CHOICE)
    def unlink(self, selection: int) -> None:
        if self.files:
            path = sorted(self.files)[selection % len(self.files)]
            path.unlink()
            del self.files[path]

    # ── the work ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(number=st.integers(1, 8))
    def work(self, number: int) -> None:
        """Run some jobs concurrently."""

        async def go() -> None:
            await asyncio.gather(*(self.worker.run(job) for job in await self.worker.claim(number)))

        self.run(go())

    @rule(selection=CHOICE)
    def fail(self, selection: int) -> None:
        """An attempt that fails somewhere on its way."""

        async def go() -> None:
            for job in await self.worker.claim(1):
                points = POINTS[job.kind]
                faults.arm(f"{points[selection % len(points)]}=fail")
                await self.worker.run(job)
                vars(faults)["_armed"].clear()

        self.run(go())

    @rule(number=st.integers(1, 3))
    def crash(self, number: int) -> None:
        """A worker claims jobs and dies; another starts. Its jobs are queued again when its lease expires."""

        async def go() -> None:
            self.ghosts += await self.worker.claim(number)
            await self.worker.enrol()

        self.run(go())

    @rule(seconds=st.sampled_from([1, 30, 600]))
    def time_passes(self, seconds: int) -> None:
        async def go() -> None:
            await self.clock.advance(timedelta(seconds=seconds))
            async with self.db.connection() as tx:
                await store.renew_lease(tx, self.worker.id, LEASE)
                await store.tick(tx)

        self.run(go())

    @rule(selection=CHOICE)
    def ghost(self, selection: int) -> None:
        """A worker that was considered dead runs its job after all; if another worker has it by now, nothing changes."""

        async def go() -> None:
            # Not a precondition: which worker claims which job depends on the database and differs between runs.
            if not self.ghosts:
                return
            job = self.ghosts.pop(selection % len(self.ghosts))
            held_still = await self.worker.rows(
                "select from job where id = %s and lease = %s", job.id, job.lease
            )
            before = await self.snapshot()
            await self.worker.run(job)
            assert held_still or await self.snapshot() == before, "a ghost wrote something"

        self.run(go())

    @rule(selection=CHOICES, event=st.sampled_from(["delete", "reindex", "replace", "cancel", "time"]))
    def interrupt_a_job(self, selection: list[int], event: str) -> None:
        """An operation comes while a job is in the middle of its work."""

        async def go() -> None:
            for job in await self.worker.claim(1):
                points = [point for point in POINTS[job.kind] if point in OPEN] or ["none"]
                async with pause_at(
                    points[selection[0] % len(points)], self.worker.run(job), must_reach=False
                ):
                    match event:
                        case "delete":
                            await self.delete_subject(job, selection)
                        case "reindex":
                            await self.reindex_some(selection, "after")
                        case "replace":
                            await self.replace_subject(job)
                        case "cancel":
                            await self.on_some_job(selection[0], "state = 'running'", cancel.cancel)
                        case _:
                            await self.clock.advance(2 * LEASE)
                            await self.worker.enrol()
                            async with self.db.connection() as tx:
                                await store.tick(tx)

        self.run(go())

    async def delete_subject(self, job: Job, selection: Sequence[int]) -> None:
        """Delete the job's item; in half of the cases another worker removes it at once."""
        if job.subject is None or not await self.worker.rows("select from item where id = %s", job.subject):
            return
        removed_ids = await self.with_descendants([ItemId(job.subject)])
        if set(removed_ids) & self.deleted_ids:
            return
        await delete.delete(self.db, self.base.id, [ItemId(job.subject)])
        self.forget(removed_ids)
        if selection[-1] % 2:
            second_worker = await ManualWorker.start(self.db, self.app_settings)
            await second_worker.work()

    async def replace_subject(self, job: Job) -> None:
        if job.subject is not None and job.subject in self.texts and job.subject not in self.deleted_ids:
            ((title, type_),) = await self.worker.rows(
                "select title, type from item where id = %s", job.subject
            )
            if type_ == "note":
                text = self.new_text()
                parent = self.parents[ItemId(job.subject)]
                (item,) = await self.worker.add(
                    self.base, note_to_add(title, text), parent_id=parent, on_conflict="replace"
                )
                self.texts[item.id] = text

    @rule(selection=CHOICES, deleting=st.booleans())
    def concurrent_calls(self, selection: list[int], deleting: bool) -> None:
        """Calls and jobs run concurrently, each on its own connection."""
        self.run(self.run_concurrently(selection, deleting=deleting))

    async def run_concurrently(self, selection: list[int], *, deleting: bool) -> None:
        root = self.pick_root(selection[0])
        if root is None:
            return
        removed_ids, text = await self.with_descendants([root]), self.new_text()
        calls: list[Coroutine[Any, Any, Any]] = [
            self.worker.reindex(self.base, root, on_active="after"),
            add.add(self.db, self.base.id, [note_to_add("w", text)], UNLIMITED, parent_id=root),
            *(self.worker.run(job) for job in await self.worker.claim(3)),
        ]
        if deleting:
            calls.append(delete.delete(self.db, self.base.id, [root]))
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, RequestError):
                raise result
        if isinstance(results[1], add.AddResult):
            (item,) = results[1].created
            self.texts[item.id], self.parents[item.id] = text, root
            removed_ids.append(item.id)
        if deleting:
            self.forget(removed_ids)


@pytest.fixture
def machine(database_url: str, settings: Settings) -> type[Catalog]:
    """The machine, on a database and a blob store of its own."""
    asyncio.run(stop_clock(database_url))
    return type("OnOwnDatabase", (Catalog,), {"url": database_url, "app_settings": settings})


def test_no_sequence_of_operations_breaks_a_promise(machine: type[Catalog]) -> None:
    """Promises 1 to 3; S0-10, S0-11, S0-39, S0-47, S1-19; S3-02."""
    run_state_machine_as_test(machine, settings=PATIENT)


PLANTED: dict[str, LiteralString] = {
    "derives no status of containers": (
        "create or replace function container_derive_status(p_item uuid) returns boolean language sql as 'select false'"
    ),
    "raises no version": (
        "create function stay() returns trigger language plpgsql as"
        " $$ begin new.wanted_version := old.wanted_version; return new; end $$;"
        "create trigger stay before update on item for each row execute function stay()"
    ),
}


@pytest.mark.parametrize("fault", [*PLANTED])
def test_the_machine_catches_a_database_that(machine: type[Catalog], database_url: str, fault: str) -> None:
    """The test above can fail: a short sequence that meets the fault planted here breaks a promise, and no other one does."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(PLANTED[fault])
    with pytest.raises((AssertionError, psycopg.IntegrityError)):
        run_sequence(machine())


def test_the_same_sequence_breaks_no_promise_otherwise(machine: type[Catalog]) -> None:
    run_sequence(machine())


def run_sequence(catalog_machine: Catalog) -> None:
    """Add a folder and a note, index them, reindex each item, some of them while they are at work, and delete one."""
    catalog_machine.start()
    try:
        for step in steps(catalog_machine):
            step()
            catalog_machine.the_promises_hold()
    except BaseException:
        catalog_machine.is_started = False  # what is left may never end
        raise
    finally:
        catalog_machine.teardown()


def steps(catalog_machine: Catalog) -> Iterator[Callable[[], None]]:
    """The operations of `run_sequence`, in order."""
    work = partial(catalog_machine.work, number=8)
    for folder in ("A", "A/s"):
        yield partial(catalog_machine.write, where=folder, name="p.md", readable=True)
    yield partial(catalog_machine.add_folder, name="A", on_conflict="rename")
    yield partial(catalog_machine.work, number=1)
    yield partial(catalog_machine.interrupt_a_job, selection=[0], event="reindex")
    yield work
    yield partial(catalog_machine.add_note, title="t", where=0, on_conflict="rename")
    yield work
    for number in range(5):
        yield partial(catalog_machine.reindex, selection=[number], on_active="after")
        yield partial(catalog_machine.interrupt_a_job, selection=[number], event="reindex")
        yield partial(catalog_machine.reindex, selection=[number], on_active="after")
        yield work
    yield partial(catalog_machine.delete, selection=[2])
    yield work
