"""Any sequence of operations, jobs, failures, crashes and ghosts: the promises hold after every step."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure
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
from tests.database_clock import DatabaseClock
from tests.operations.interleave import paused_at
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

pytestmark = pytest.mark.slow

PATIENT = settings(
    max_examples=20,
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
# Where no transaction is open, so that others can go ahead.
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
    """All that may happen."""

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
        parent = self.root(where)
        text = self.text()
        entry = note_to_add(title, text)
        for item in self.run(self.worker.add(self.base, entry, parent_id=parent, on_conflict=on_conflict)):
            self.texts[item.id], self.parents[item.id] = text, parent

    @rule(which=st.sampled_from([1, 2]), where=CHOICE | st.none())
    def upload(self, which: int, where: int | None) -> None:
        """Equal bytes come again and again, so that they are shared, removed and stored anew."""
        text, parent = f"rye upload {which}", self.root(where)

        async def go() -> None:
            blob = await store_upload(
                self.db, self.worker.originals.blobs, lambda: byte_stream(text.encode())
            )
            (item,) = await self.worker.add(
                self.base, upload_to_add("u.md", blob.hash, blob.size), parent_id=parent
            )
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
                busy = await catalog.find_unfinished_items(tx, ids)
            try:
                await self.worker.reindex(self.base, *ids, on_active=on_active)
            except SubtreeActive:
                assert busy, "refused, though all was at rest"
            except Conflict as error:
                if error.code != "source_unavailable":
                    raise

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
            gone = [row[0] for row in await self.worker.rows("select id from item")]
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
    def unlink(self, chosen: int) -> None:
        if self.files:
            path = sorted(self.files)[chosen % len(self.files)]
            path.unlink()
            del self.files[path]

    # ── the work ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(number=st.integers(1, 8))
    def work(self, number: int) -> None:
        """Some jobs, side by side."""

        async def go() -> None:
            await asyncio.gather(*(self.worker.run(job) for job in await self.worker.claim(number)))

        self.run(go())

    @rule(chosen=CHOICE)
    def fail(self, chosen: int) -> None:
        """An attempt that fails somewhere on its way."""

        async def go() -> None:
            for job in await self.worker.claim(1):
                points = POINTS[job.kind]
                faults.arm(f"{points[chosen % len(points)]}=fail")
                await self.worker.run(job)
                vars(faults)["_armed"].clear()

        self.run(go())

    @rule(number=st.integers(1, 3))
    def crash(self, number: int) -> None:
        """A worker takes jobs and is gone; another starts. What it held comes back when its lease is out."""

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

    @rule(chosen=CHOICE)
    def ghost(self, chosen: int) -> None:
        """A worker that was thought dead runs its job after all; if another has it by now, nothing changes."""

        async def go() -> None:
            # Not as a precondition: who claims what is for the database to say, and not the same in every run.
            if not self.ghosts:
                return
            job = self.ghosts.pop(chosen % len(self.ghosts))
            held_still = await self.worker.rows(
                "select from job where id = %s and lease = %s", job.id, job.lease
            )
            before = await self.everything()
            await self.worker.run(job)
            assert held_still or await self.everything() == before, "a ghost wrote something"

        self.run(go())

    @rule(chosen=CHOICES, what=st.sampled_from(["delete", "reindex", "replace", "cancel", "time"]))
    def meanwhile(self, chosen: list[int], what: str) -> None:
        """Something is asked while a job is in the middle of its work."""

        async def go() -> None:
            for job in await self.worker.claim(1):
                points = [point for point in POINTS[job.kind] if point in OPEN] or ["none"]
                async with paused_at(points[chosen[0] % len(points)], self.worker.run(job), must_reach=False):
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
                            await self.worker.enrol()
                            async with self.db.connection() as tx:
                                await store.tick(tx)

        self.run(go())

    async def delete_about(self, job: Job, chosen: Sequence[int]) -> None:
        """Delete what the job is about, or the root above it; all of it goes at once in half of the cases."""
        if job.subject is None or not await self.worker.rows("select from item where id = %s", job.subject):
            return
        gone = await self.below([ItemId(job.subject)])
        if set(gone) & self.deleted:
            return
        await delete.delete(self.db, self.base.id, [ItemId(job.subject)])
        self.forget(gone)
        if chosen[-1] % 2:
            other = await ManualWorker.start(self.db, self.app_settings)
            await other.work()

    async def replace_about(self, job: Job) -> None:
        if job.subject is not None and job.subject in self.texts and job.subject not in self.deleted:
            ((title, type_),) = await self.worker.rows(
                "select title, type from item where id = %s", job.subject
            )
            if type_ == "note":
                text = self.text()
                parent = self.parents[ItemId(job.subject)]
                (item,) = await self.worker.add(
                    self.base, note_to_add(title, text), parent_id=parent, on_conflict="replace"
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
            self.worker.reindex(self.base, root, on_active="after"),
            add.add(self.db, self.base.id, [note_to_add("w", text)], UNLIMITED, parent_id=root),
            *(self.worker.run(job) for job in await self.worker.claim(3)),
        ]
        if deleting:
            asked.append(delete.delete(self.db, self.base.id, [root]))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, RequestError):
                raise answer
        if isinstance(answers[1], add.AddResult):
            (item,) = answers[1].created
            self.texts[item.id], self.parents[item.id] = text, root
            gone.append(item.id)
        if deleting:
            self.forget(gone)


@pytest.fixture
def machine(database_url: str, settings: Settings) -> type[Catalog]:
    """The machine, on a database and a blob store of its own."""

    async def stop_the_clock() -> None:
        db = Database(database_url)
        await db.open()
        await DatabaseClock.install(db)
        await db.close()

    asyncio.run(stop_the_clock())
    return type("OnOwnDatabase", (Catalog,), {"url": database_url, "app_settings": settings})


def test_no_sequence_of_operations_breaks_a_promise(machine: type[Catalog]) -> None:
    """Promises 1 to 3; S0-10, S0-11, S0-39, S0-47, S1-19; S3-02."""
    run_state_machine_as_test(machine, settings=PATIENT)


# It is enough that one is found, by few steps; that they can be made fewer is not what these are about.
EAGER = settings(
    PATIENT,
    max_examples=2_000,
    stateful_step_count=12,
    phases=[Phase.generate],
    print_blob=False,
    database=None,
    report_multiple_bugs=False,
)


PLANTED: dict[str, LiteralString] = {
    "tells no container how its children are": (
        "create or replace function item_derive_status(p_item uuid) returns void language sql as 'select'"
    ),
    "raises no version": (
        "create function stay() returns trigger language plpgsql as"
        " $$ begin new.wanted_version := old.wanted_version; return new; end $$;"
        "create trigger stay before update on item for each row execute function stay()"
    ),
}


@pytest.mark.parametrize("planted", [*PLANTED])
def test_the_machine_catches_a_database_that(machine: type[Catalog], database_url: str, planted: str) -> None:
    """The test above can fail: it finds what is planted here."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(PLANTED[planted])
    found = (AssertionError, psycopg.IntegrityError)
    # Jobs race, so that the same steps may go another way when they are tried again: then both are told.
    with pytest.raises((*found, FlakyFailure)) as caught:
        run_state_machine_as_test(machine, settings=EAGER)
    if isinstance(caught.value, FlakyFailure):
        assert all(isinstance(error, found) for error in caught.value.exceptions), caught.value
