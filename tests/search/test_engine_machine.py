"""Any sequence of changes, with an engine that fails, repeats, loses and delays: PostgreSQL says what a search must return.

Every chunk has the word of the query, so that a search must return exactly the chunks that are live and visible to the
caller: no more, whatever the engine has, and no fewer, whatever it lacks of what was not acknowledged.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gristmill import catalog, jobs
from gristmill.catalog import ADMIN, Base, ItemId, Viewer
from gristmill.catalog.access import member
from gristmill.db import Database
from gristmill.ingest import engine_put
from gristmill.ingest.update_index import queue_updates
from gristmill.jobs import NewJob
from gristmill.operations import bases, delete
from gristmill.search import Searcher, SearchRequest, Target, selectivity
from gristmill.search.index import tasks
from gristmill.search.index.engines import Indexes
from gristmill.settings import Settings
from gristmill.work import SweepIndex
from tests.embedding.hashed import HashedEmbedder
from tests.operations.manual_worker import ManualWorker, note_to_add
from tests.search.faulty_index import WRITE_FAULTS, FaultyEngine, FaultyIndex

pytestmark = pytest.mark.slow

PATIENT = settings(
    max_examples=6,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
CHOICE = st.integers(0, 1000)
PLANS = st.lists(st.sampled_from(WRITE_FAULTS), max_size=4)
ACLS = st.sampled_from([None, ["org:*"], ["user_email:a@x.org"], ["user_email:b@x.org"], []])
VIEWERS = [ADMIN, member("a@x.org"), member("b@x.org")]
EMBEDDER = HashedEmbedder()
Result = TypeVar("Result")


class EngineMachine(RuleBasedStateMachine):
    """One base in a faulty engine, and one worker."""

    url: str  # set by the test
    app_settings: Settings
    worker: ManualWorker
    base: Base

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.db = Database(self.url)
        self.engine = FaultyEngine()
        self.indexes = Indexes(self.engine)
        self.searcher = Searcher(self.db, cache_bytes=2**20, indexes=self.indexes)
        self.count = 0
        self.is_started = False

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(work)

    @initialize()
    def start(self) -> None:
        async def begin() -> None:
            await self.db.open()
            async with self.db.transaction() as tx:
                await tx.execute(
                    "truncate job, job_history, worker, lane, schedule, index_task, deleted_chunk"
                )
                await tx.execute("delete from base")
                await tx.execute("truncate chunk, content, blob, pending_blob_name cascade")
            self.worker = await ManualWorker.start(self.db, self.app_settings, indexes=self.indexes)
            self.base = await bases.create(
                self.db, "b", EMBEDDER, {}, acl=["user_email:a@x.org"], index_kind="opensearch"
            )

        self.run(begin())
        self.is_started = True

    def teardown(self) -> None:
        try:
            if self.is_started:
                self.run(self.finish_and_check())
        finally:
            self.run(self.db.close())
            self.runner.close()

    # ── changes ──────────────────────────────────────────────────────────────────────────────────────────

    @rule(title=st.sampled_from("xyz"), words=st.integers(1, 900), acl=ACLS)
    def add_note(self, title: str, words: int, acl: list[str] | None) -> None:
        """A note of one chunk or of several; one of the same title is replaced."""
        self.count += 1
        text = f"wheel {self.count}. " + " ".join(f"wheel{n % 7}" for n in range(words))
        entry = note_to_add(title, text.replace("wheel0", "wheel"))

        async def go() -> None:
            for item in await self.worker.add(self.base, entry, on_conflict="replace"):
                async with self.db.transaction() as tx:
                    await catalog.set_acl(tx, item.id, acl)

        self.run(go())

    @rule(choice=CHOICE)
    def delete_item(self, choice: int) -> None:
        async def go() -> None:
            if (item_id := await self.pick_item(choice)) is not None:
                await delete.delete(self.db, self.base.id, [item_id])

        self.run(go())

    @rule(choice=CHOICE, acl=ACLS)
    def change_access(self, choice: int, acl: list[str] | None) -> None:
        async def go() -> None:
            if (item_id := await self.pick_item(choice)) is not None:
                async with self.db.transaction() as tx:
                    await catalog.set_acl(tx, item_id, acl)

        self.run(go())

    @rule(acl=st.sampled_from([["org:*"], ["user_email:b@x.org"], []]))
    def change_access_of_the_base(self, acl: list[str]) -> None:
        async def go() -> None:
            self.base = await bases.patch(self.db, self.base.id, acl=acl)

        self.run(go())

    async def pick_item(self, choice: int) -> ItemId | None:
        rows = await self.worker.rows("select id from item where status <> 'deleting' order by id")
        return rows[choice % len(rows)][0] if rows else None

    # ── work ─────────────────────────────────────────────────────────────────────────────────────────────

    @rule(plan=PLANS, number=st.integers(1, 4))
    def work(self, plan: list[Any], number: int) -> None:
        """Run some jobs, with an engine that fails as planned."""

        async def go() -> None:
            self.engine.plan = [*plan]
            await queue_updates(self.db)
            await self.worker.make_due()
            for job in await self.worker.claim(number):
                await self.worker.run(job)
            self.engine.plan = []

        self.run(go())

    @rule()
    def late_requests_arrive(self) -> None:
        self.run(self.engine.deliver_late())

    @rule(is_stale=st.booleans())
    def read_stale(self, is_stale: bool) -> None:
        """From now on searches read what the engine has at this moment, or again what it really has."""
        self.engine.remember()
        self.engine.is_stale = is_stale

    @rule()
    def sweep(self) -> None:
        self.run(self.queue_sweep())

    async def queue_sweep(self) -> None:
        async with self.db.transaction() as tx:
            await jobs.enqueue(tx, NewJob(SweepIndex(self.base.id), lane=self.base.lane))

    # ── what must be true ────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def searches_return_what_the_tables_say(self) -> None:
        if self.is_started:
            for viewer in VIEWERS:
                self.run(self.check_search(viewer))

    async def check_search(self, viewer: Viewer) -> None:
        expected = await self.visible_chunks(viewer)
        for mode, embedder in (("text", None), ("vector", EMBEDDER)):
            request = SearchRequest("wheel", limit=500, mode=mode, viewer=viewer)  # type: ignore[arg-type]
            hits = await self.searcher.search([Target(self.base, embedder)], request)
            found = {hit.chunk_id for hit in hits}
            assert found <= expected, f"{mode}: shown, though it is not live or not visible"
            if not self.engine.is_stale:
                assert found == expected, f"{mode}: not found, though it is live and visible"

    async def visible_chunks(self, viewer: Viewer) -> set[Any]:
        """By plain rules: live, not deleted, and allowed by the nearest list above."""
        rows = await self.worker.rows(
            "select c.id, coalesce(i.acl, b.acl) from chunk c join item i on i.id = c.item_id and i.live_version = c.version"
            " join base b on b.id = i.base_id where i.status <> 'deleting'"
        )
        return {chunk for chunk, acl in rows if viewer.sees(acl)}

    async def finish_and_check(self) -> None:
        """Once nothing fails any more, all work ends, the engine has exactly the live chunks, and their labels are right."""
        self.engine.plan, self.engine.is_stale = [], False
        await self.engine.deliver_late()
        for _ in range(20):
            await queue_updates(self.db)
            await self.worker.make_due()
            if not await self.worker.work():
                break
        await self.worker.assert_healthy()
        assert await self.worker.value("select count(*) from index_task") == 0
        assert await self.worker.value("select count(*) from deleted_chunk") == 0
        await self.queue_sweep()
        await self.worker.work()
        points = self.engine.inner.points(self.base.id)
        live = await self.worker.rows(
            "select c.no from chunk c join item i on i.id = c.item_id and i.live_version = c.version order by c.no"
        )
        assert [point.no for point in points] == [no for (no,) in live]
        async with self.db.connection() as tx:
            labels = await tasks.labels(tx, [point.item for point in points])
        assert [point.labels for point in points] == [labels[point.item] for point in points]


@pytest.fixture
def machine(database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> type[EngineMachine]:
    monkeypatch.setattr(engine_put, "_PATIENCE", timedelta(0))  # the job goes back to the queue at once
    return type("Machine", (EngineMachine,), {"url": database_url, "app_settings": settings})


@pytest.fixture
def by_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine filters by labels, as if many items were in scope."""
    monkeypatch.setattr(selectivity, "MAX_LISTED_ITEMS", -1)


def test_any_sequence_of_changes_and_faults_shows_what_the_tables_say(machine: type[EngineMachine]) -> None:
    run_state_machine_as_test(machine, settings=PATIENT)


@pytest.mark.usefixtures("by_labels")
def test_the_same_where_the_engine_filters_by_labels(machine: type[EngineMachine]) -> None:
    run_state_machine_as_test(machine, settings=PATIENT)


# ── planted faults ───────────────────────────────────────────────────────────────────────────────────────


def run_sequence(machine: EngineMachine) -> None:
    """Add, replace, hide and delete notes, with failures in between."""
    machine.start()
    try:
        for step in steps(machine):
            step()
            machine.searches_return_what_the_tables_say()
    except BaseException:
        machine.is_started = False
        raise
    finally:
        machine.teardown()


def steps(machine: EngineMachine) -> Iterator[Callable[[], None]]:
    """The changes of `run_sequence`, in order."""
    for number in range(3):
        yield partial(machine.add_note, "x", 5, None)
        yield partial(machine.work, ["lost"], 2)
        yield partial(machine.work, [], 4)
        yield partial(machine.add_note, "y", 900, ["org:*"])
        yield partial(machine.work, ["partial", "late"], 2)
        yield partial(machine.work, [], 4)
        for acl in (["user_email:b@x.org"], ["org:*"]):
            yield partial(machine.change_access, number, acl)
            yield partial(machine.work, ["unavailable"], 4)
            yield partial(machine.work, [], 4)
        yield partial(machine.add_note, "z", 5, None)
        yield partial(machine.work, [], 4)
        yield partial(machine.delete_item, 2)
        yield partial(machine.work, ["late"], 4)
        yield machine.late_requests_arrive


@pytest.mark.usefixtures("by_labels")
def test_a_plain_sequence_breaks_nothing(machine: type[EngineMachine]) -> None:
    run_sequence(machine())


async def _nothing(*_: Any, **__: Any) -> Any:
    return []


PLANTED: dict[str, tuple[Any, str]] = {
    "publishes before the engine has it": (engine_put.EngineStage, "_try_put"),
    "changes no labels": (FaultyIndex, "relabel"),
    "does not remove what was deleted": (FaultyIndex, "remove"),
    "forgets what was deleted": (tasks, "numbers_to_remove"),
    "does not search what the engine has yet to learn": (tasks, "items_with_tasks"),
}


@pytest.mark.usefixtures("by_labels")
@pytest.mark.parametrize("fault", [*PLANTED])
def test_the_machine_catches_code_that(
    machine: type[EngineMachine], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The tests above can fail: a step that does nothing here breaks a promise."""
    monkeypatch.setattr(
        *PLANTED[fault], _nothing if fault != "publishes before the engine has it" else _succeed
    )
    with pytest.raises(AssertionError):
        run_sequence(machine())


async def _succeed(*_: Any) -> None:
    return None
