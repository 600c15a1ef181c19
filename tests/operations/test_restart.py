"""What a stopped or killed worker leaves: resumed, parked and shown, or taken up again at start-up."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from gristmill import app, faults
from gristmill.catalog import Base
from gristmill.integrity import invariants, reconcile
from gristmill.jobs import Job, retry, store
from gristmill.jobs.retry import LOST_FACTOR
from gristmill.operations import bases, delete, queue
from gristmill.operations import retry as retrying
from gristmill.settings import Settings
from tests.api_calls import add_items, make_base, search, wait_until_ended
from tests.database_clock import DatabaseClock
from tests.embedding.hashed import HashedEmbedder
from tests.operations.manual_worker import LEASE, ManualWorker, folder_to_add, note_to_add
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
async def parking(worker: ManualWorker) -> Base:
    return await bases.create(worker.db, "parking", HashedEmbedder(), {}, on_restart="park")


async def lose(worker: ManualWorker, clock: DatabaseClock) -> Job:
    """A job whose worker is killed in the middle, as the next worker gets it."""
    await worker.claim()
    await clock.advance(2 * LEASE)
    async with worker.db.connection() as tx:
        assert (await store.tick(tx)).expired == 1
    await worker.enrol()
    (job,) = await worker.claim()
    return job


async def stop(worker: ManualWorker) -> Job:
    """A job whose worker is stopped in the middle, as the next worker gets it."""
    await worker.claim()
    async with worker.db.transaction() as tx:
        assert await store.unregister_worker(tx, worker.id) == 1
    await worker.enrol()
    (job,) = await worker.claim()
    return job


async def orphans(worker: ManualWorker, base: Base) -> list[object]:
    async with worker.db.connection() as tx:
        return list(await queue.find_orphans(tx, base.id))


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_a_base_that_parks_shows_what_was_interrupted_and_it_can_be_recovered(
    worker: ManualWorker, clock: DatabaseClock, parking: Base, how: str
) -> None:
    """S4-11, S4-59 to S4-61, C2: nothing is spent again until a user decides, and nothing keeps spinning."""
    (item,) = await worker.add(parking, note_to_add("n", "rye"))
    job = await lose(worker, clock) if how == "killed" else await stop(worker)
    assert job.interrupted
    assert isinstance(await worker.run(job), retry.Bury)
    ((status, code),) = await worker.rows("select status, error_code from item")
    assert (status, code) == ("failed", "interrupted")
    assert await orphans(worker, parking) == [item.id]
    await worker.assert_healthy()
    assert await queue.recover(worker.db, parking.id) == 1
    assert await orphans(worker, parking) == []
    await worker.work()
    assert await worker.statuses() == {"n": "completed"}
    assert await worker.search_texts(parking, "rye") == ["rye"]
    assert await queue.recover(worker.db, parking.id) == 0
    await worker.assert_healthy()


async def test_a_dismissed_item_stays_failed_and_is_not_reported_again(
    worker: ManualWorker, clock: DatabaseClock, parking: Base, tmp_path: Path
) -> None:
    """S4-61."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("rye")
    await worker.add(parking, folder_to_add(tmp_path / "docs"))
    await worker.step()
    await worker.run(await lose(worker, clock))
    assert await worker.statuses() == {"docs": "failed", "a.md": "failed"}
    assert await queue.dismiss(worker.db, parking.id) == 1
    assert await orphans(worker, parking) == []
    assert await worker.value("select error_code from item where title = 'a.md'") == "dismissed"
    assert await worker.rows("select id from job where state = 'dead'") == [], "its dead job went with it"
    await worker.assert_healthy()


async def test_a_listing_that_was_interrupted_is_parked_like_a_document(
    worker: ManualWorker, clock: DatabaseClock, parking: Base, docs: Path
) -> None:
    """S4-11, C2: and its recovery lists it."""
    (root,) = await worker.add(parking, folder_to_add(docs))
    assert isinstance(await worker.run(await lose(worker, clock)), retry.Bury)
    ((status, code),) = await worker.rows("select status, error_code from item")
    assert (status, code) == ("failed", "interrupted")
    assert await orphans(worker, parking) == [root.id]
    await worker.assert_healthy()
    assert await queue.recover(worker.db, parking.id) == 1
    await worker.work()
    assert await worker.statuses() == dict.fromkeys(["docs", "deep", "a.md", "b.md"], "completed")
    await worker.assert_healthy()


@pytest.mark.parametrize("hand_of", [queue.recover, queue.dismiss])
async def test_interrupted_items_are_recovered_in_portions(
    worker: ManualWorker,
    parking: Base,
    monkeypatch: pytest.MonkeyPatch,
    hand_of: Callable[..., Awaitable[int]],
) -> None:
    """S4-61: more than a portion of what is parked, and of what is stuck."""
    monkeypatch.setattr(queue, "BATCH_SIZE", 2)
    await worker.add(parking, *(note_to_add(f"n{number}") for number in range(10)))
    await worker.rows("delete from job returning id")
    await worker.rows(
        "update item set status = 'failed', error_code = 'interrupted' where title < 'n5' returning id"
    )
    assert len(await orphans(worker, parking)) == 10
    assert await hand_of(worker.db, parking.id) == 10
    assert await orphans(worker, parking) == []
    await worker.assert_healthy()
    await worker.work()
    expected = "completed" if hand_of is queue.recover else "failed"
    assert set((await worker.statuses()).values()) == {expected}


async def test_a_base_that_resumes_continues_by_itself(worker: ManualWorker, clock: DatabaseClock) -> None:
    """C2: the default."""
    base = await worker.base()
    await worker.add(base, note_to_add("n", "rye"))
    await worker.run(await lose(worker, clock))
    assert await worker.statuses() == {"n": "completed"}
    assert await orphans(worker, base) == []
    await worker.assert_healthy()


async def test_a_job_whose_worker_is_lost_at_every_attempt_ends_as_a_failed_item(
    worker: ManualWorker, clock: DatabaseClock
) -> None:
    """Promise 1: no document can go on killing workers."""
    base = await worker.base()
    await worker.add(base, note_to_add("n", "rye"))
    job = await lose(worker, clock)
    while job.attempt <= LOST_FACTOR * job.max_attempts:
        await clock.advance(2 * LEASE)
        async with worker.db.connection() as tx:
            await store.tick(tx)
        await worker.enrol()
        (job,) = await worker.claim()
    await worker.run(job)
    assert await worker.rows("select status, error_code from item") == [("failed", "worker_lost")]
    await worker.assert_healthy()


async def test_stuck_items_are_shown_recovered_and_dismissed(worker: ManualWorker, tmp_path: Path) -> None:
    """S4-59, S4-60: there should be none, so the test makes some by deleting their jobs."""
    base = await worker.base()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("rye")
    root, leaf = await worker.add(base, folder_to_add(tmp_path / "docs"), note_to_add("n", "oats"))
    for recovers in (True, False):
        await worker.rows("delete from job returning id")
        assert set(await orphans(worker, base)) == {root.id, leaf.id}
        async with worker.db.connection() as tx:
            assert len(await invariants.find_violations(tx)) == 2
        if recovers:
            assert await queue.recover(worker.db, base.id) == 2
        else:
            assert await queue.dismiss(worker.db, base.id) == 2
        await worker.assert_healthy()
    await worker.work()
    assert await worker.statuses() == {"docs": "failed", "n": "failed"}
    await worker.reindex(base, root.id, leaf.id)
    await worker.work()
    assert await worker.statuses() == {"docs": "completed", "a.md": "completed", "n": "completed"}
    await worker.assert_healthy()


async def test_an_item_whose_only_job_is_for_an_older_version_is_stuck(worker: ManualWorker) -> None:
    """The check compares versions: a job for an older version does not count."""
    base = await worker.base()
    (item,) = await worker.add(base, note_to_add("n"))
    await worker.rows("update item set wanted_version = 2 returning id")
    async with worker.db.connection() as tx:
        assert [row.id for row in await queue.find_stuck_items(tx, None, 10)] == [item.id]


async def test_a_retried_listing_is_not_completed_by_its_children_before_it_lists(
    worker: ManualWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-10: a child that ends between retry and listing must not complete the container."""
    base = await worker.base()
    (tmp_path / "docs").mkdir()
    for name in ("a.md", "b.md"):
        (tmp_path / "docs" / name).write_text(f"rye {name}")
    (root,) = await worker.add(base, folder_to_add(tmp_path / "docs"))
    await worker.add(base, note_to_add("beside", "oats"), parent_id=root.id)
    jobs = {job.kind: job for job in await worker.claim(5)}
    listing, beside = jobs["prepare_root"], jobs["index_document"]
    listing.attempt = listing.max_attempts
    monkeypatch.setattr(faults, "_armed", {})
    faults.arm("expand.listed=fail")
    assert isinstance(await worker.run(listing), retry.Bury)
    assert (await worker.statuses())["docs"] == "processing"  # the note next to it is still active
    await retrying.retry(worker.db, listing.id)
    await worker.run(beside)
    assert await worker.statuses() == {"docs": "preparing", "beside": "completed"}
    await worker.work()
    assert await worker.search_texts(base, "rye") == ["rye a.md", "rye b.md"]
    assert set((await worker.statuses()).values()) == {"completed"}
    await worker.assert_healthy()


async def test_deletions_without_a_job_are_taken_up_at_start_up_in_portions(
    worker: ManualWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-31: roots and bases; S4-39."""
    monkeypatch.setattr(reconcile, "_DELETIONS_AT_START", 3)
    first_base, second_base = await worker.base("one"), await worker.base("two")
    items = await worker.add(first_base, *(note_to_add(f"n{n}", f"rye {n}") for n in range(7)))
    await worker.add(second_base, note_to_add("n", "oats"))
    await worker.work()
    for item in items:
        await delete.delete(worker.db, first_base.id, [item.id])
    await bases.delete(worker.db, second_base.id)
    await worker.rows("delete from job returning id")
    async with worker.db.connection() as tx:
        assert len(await invariants.find_violations(tx)) == 8
    assert await reconcile.recover_deletions(worker.db) == 8
    assert await worker.value("select count(*) from job") == 4
    assert await reconcile.recover_deletions(worker.db) == 0
    await worker.assert_healthy()
    await worker.work()
    assert await worker.remaining_rows() == {}


async def test_a_mill_that_starts_finishes_what_was_being_deleted(
    worker: ManualWorker, settings: Settings
) -> None:
    """S0-31, end to end; S4-39."""
    base = await worker.base()
    (item,) = await worker.add(base, note_to_add("n", "rye"))
    await worker.work()
    await delete.delete(worker.db, base.id, [item.id])
    await worker.rows("delete from job returning id")
    async with app.gristmill(settings, work=True, extra_embedders={"hashed": HashedEmbedder()}):

        async def is_removed() -> bool:
            return await worker.remaining_rows() == {}

        await wait_until(is_removed)
    await worker.assert_healthy()


async def test_a_worker_stopped_in_the_middle_parks_and_the_queue_shows_it(settings: Settings) -> None:
    """S4-60, S4-61, through the API and with real workers."""
    quick = settings.model_copy(update={"stop_grace": LEASE * 0})
    hashed = {"hashed": HashedEmbedder()}
    with faults.watch("index.embedded", hold=True) as fault:
        async with app.gristmill(quick, work=True, extra_embedders=hashed) as mill, client(mill) as http:
            base = await make_base(http, onRestart="park")
            (item,) = (await add_items(http, base, {"type": "note", "content": "rye"}))["created"]
            await fault.passed.wait()
    async with app.gristmill(settings, work=True, extra_embedders=hashed) as mill, client(mill) as http:
        parked_item = await wait_until_ended(http, item["id"])
        assert (parked_item["status"], parked_item["error"]["code"]) == ("failed", "interrupted")
        queue_json = (await http.get(f"/api/knowledge-bases/{base}/queue")).json()
        assert queue_json["orphanItemIds"] == [item["id"]]
        response = await http.post(f"/api/knowledge-bases/{base}/queue/recover")
        assert response.json() == {"recovered": 1}
        assert (await wait_until_ended(http, item["id"]))["status"] == "completed"
        assert len(await search(http, base, "rye")) == 1
        assert (await http.post(f"/api/knowledge-bases/{base}/queue/dismiss")).json() == {"dismissed": 0}
        assert (await http.get("/api/health/invariants")).json() == {"violations": []}


def client(mill: app.Gristmill) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")
