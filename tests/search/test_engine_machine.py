"""Any sequence of changes, with an engine that fails, repeats, loses and delays: PostgreSQL says what a search must return.

Every chunk has the word of the query, so that a search must return exactly the chunks that are live and visible to the
caller: no more, whatever the engine has, and no fewer, whatever it lacks of what was not acknowledged.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

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
from gristmill.search.index.engine_indexes import EngineIndexes
from gristmill.search.index.opensearch import OpenSearch
from gristmill.settings import Settings
from gristmill.work import SweepIndex
from tests.operations.manual_worker import ManualWorker, note_to_add
from tests.search.faulty_index import FAULTS, Fault, FaultyEngine, FaultyIndex
from tests.search.index_setup import EMBEDDER, PREFIX, points
from tests.search.opensearch_cluster import Cluster
from tests.search.shared_cluster import ALL_TESTS

pytestmark = pytest.mark.slow

PATIENT = settings(
    max_examples=30 if ALL_TESTS else 3,
    stateful_step_count=20 if ALL_TESTS else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
CHOICE = st.integers(0, 1000)
PLANS = st.lists(st.sampled_from(FAULTS), max_size=4)
ACLS = st.sampled_from([None, ["org:*"], ["user_email:a@x.org"], ["user_email:b@x.org"], []])
VIEWERS = [ADMIN, member("a@x.org"), member("b@x.org")]
Result = TypeVar("Result")


class EngineMachine(RuleBasedStateMachine):
    """One base in a faulty engine, and one worker."""

    url: str  # set by the test
    app_settings: Settings
    cluster: Cluster
    worker: ManualWorker
    base: Base

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.db = Database(self.url)
        self.engine = FaultyEngine(OpenSearch(self.cluster.urls, prefix=PREFIX))
        self.indexes = EngineIndexes(self.engine)
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
            self.run(self.indexes.close())
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
        self.engine.stale_copies.clear()
        if is_stale:
            self.engine.remember(self.cluster, self.base.id)

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
        """Once nothing fails any more, all items are completed, and the engine has exactly the live chunks with their labels."""
        self.engine.plan = []
        self.engine.stale_copies.clear()
        await self.engine.deliver_late()
        for _ in range(20):
            await queue_updates(self.db)
            await self.worker.make_due()
            if not await self.worker.work():
                break
        await self.worker.assert_healthy()
        assert {*(await self.worker.statuses()).values()} <= {"completed"}
        assert await self.worker.value("select count(*) from index_task") == 0
        assert await self.worker.value("select count(*) from deleted_chunk") == 0
        await self.queue_sweep()
        await self.worker.work()
        indexed = points(self.cluster, self.base.id)
        live = await self.worker.rows(
            "select c.no from chunk c join item i on i.id = c.item_id and i.live_version = c.version order by c.no"
        )
        assert [point["no"] for point in indexed] == [no for (no,) in live]
        async with self.db.connection() as tx:
            labels = await tasks.labels(tx, [ItemId(UUID(point["item"])) for point in indexed])
        assert [point["labels"] for point in indexed] == [
            labels[ItemId(UUID(point["item"]))].key for point in indexed
        ]


@pytest.fixture
def machine(
    database_url: str, settings: Settings, opensearch: Cluster, monkeypatch: pytest.MonkeyPatch
) -> type[EngineMachine]:
    monkeypatch.setattr(engine_put, "_PATIENCE", timedelta(0))  # the job goes back to the queue at once
    values = {"url": database_url, "app_settings": settings, "cluster": opensearch}
    return type("Machine", (EngineMachine,), values)


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

Step = Callable[[EngineMachine], object]


def add(title: str, *, words: int = 5, acl: list[str] | None = None) -> Step:
    return lambda machine: machine.add_note(title, words, acl)


def work(*plan: Fault) -> Step:
    return lambda machine: machine.work([*plan], 4)


def change_access(acl: list[str]) -> Step:
    return lambda machine: machine.change_access(0, acl)


def delete_item(machine: EngineMachine) -> None:
    machine.delete_item(0)


@dataclass(frozen=True)
class PlantedFault:
    """A function that is replaced by one that does nothing, and the shortest sequence of steps that shows it."""

    module: Any
    name: str
    result: Any
    steps: tuple[Step, ...]


FOR_BOB, FOR_ALL = ["user_email:b@x.org"], ["org:*"]
PLANTED = {
    "publishes before the engine has it": PlantedFault(
        engine_put.EngineStage, "_try_put", None, (add("x"), work())
    ),
    "changes no labels": PlantedFault(
        FaultyIndex, "relabel", None, (add("x", acl=FOR_BOB), work(), change_access(FOR_ALL), work())
    ),
    "does not remove what was deleted": PlantedFault(
        FaultyIndex, "remove", None, (add("x"), work(), delete_item, work())
    ),
    "forgets what was deleted": PlantedFault(
        tasks, "numbers_to_remove", [], (add("x"), work(), delete_item, work())
    ),
    "does not search what the engine has yet to learn": PlantedFault(
        tasks, "items_with_tasks", [], (add("x", acl=FOR_BOB), work(), change_access(FOR_ALL))
    ),
    "does not repeat a put whose acknowledgement was lost": PlantedFault(
        tasks, "puts_of_version", [], (add("x"), work("unavailable"), work())
    ),
}


def run_steps(machine: EngineMachine, steps: Sequence[Step]) -> None:
    """Start, do the steps, check after each of them and at the end."""
    machine.start()
    try:
        for step in steps:
            step(machine)
            machine.searches_return_what_the_tables_say()
    except BaseException:
        machine.is_started = False
        raise
    finally:
        machine.teardown()


@pytest.mark.thorough
@pytest.mark.usefixtures("by_labels")
@pytest.mark.parametrize("fault", [*PLANTED])
def test_the_machine_catches_code_that(
    machine: type[EngineMachine], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The tests above can fail: a few steps show that a function does nothing, and break nothing if it works."""
    planted = PLANTED[fault]
    run_steps(machine(), planted.steps)

    async def do_nothing(*_: Any, **__: Any) -> Any:
        return planted.result

    monkeypatch.setattr(planted.module, planted.name, do_nothing)
    with pytest.raises(AssertionError):
        run_steps(machine(), planted.steps)
