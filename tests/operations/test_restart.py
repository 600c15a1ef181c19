"""What a stopped or killed worker leaves: resumed, parked and shown, or taken up again at start-up."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from gristmill import app, faults
from gristmill.catalog import Base
from gristmill.integrity import invariants, reconcile
from gristmill.jobs import Job, retry, store
from gristmill.jobs.worker import LOST_FACTOR
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
async def parking(hand: ManualWorker) -> Base:
    return await bases.create(hand.db, "parking", HashedEmbedder(), {}, on_restart="park")


async def lose(hand: ManualWorker, clock: DatabaseClock) -> Job:
    """A job whose worker is killed in the middle, as the next worker gets it."""
    await hand.claim()
    await clock.advance(2 * LEASE)
    async with hand.db.connection() as tx:
        assert (await store.tick(tx)).expired == 1
    await hand.enrol()
    (job,) = await hand.claim()
    return job


async def stop(hand: ManualWorker) -> Job:
    """A job whose worker is stopped in the middle, as the next worker gets it."""
    await hand.claim()
    async with hand.db.transaction() as tx:
        assert await store.unregister_worker(tx, hand.id) == 1
    await hand.enrol()
    (job,) = await hand.claim()
    return job


async def orphans(hand: ManualWorker, base: Base) -> list[object]:
    async with hand.db.connection() as tx:
        return list(await queue.find_orphans(tx, base.id))


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_a_base_that_parks_shows_what_was_interrupted_and_it_can_be_recovered(
    hand: ManualWorker, clock: DatabaseClock, parking: Base, how: str
) -> None:
    """S4-11, S4-59 to S4-61, C2: nothing is spent again without a hand, and nothing keeps spinning."""
    (item,) = await hand.add(parking, note_to_add("n", "rye"))
    job = await lose(hand, clock) if how == "killed" else await stop(hand)
    assert job.interrupted
    assert isinstance(await hand.run(job), retry.Bury)
    ((status, code),) = await hand.rows("select status, error_code from item")
    assert (status, code) == ("failed", "interrupted")
    assert await orphans(hand, parking) == [item.id]
    await hand.assert_healthy()
    assert await queue.recover(hand.db, parking.id) == 1
    assert await orphans(hand, parking) == []
    await hand.work()
    assert await hand.statuses() == {"n": "completed"}
    assert await hand.search_texts(parking, "rye") == ["rye"]
    assert await queue.recover(hand.db, parking.id) == 0
    await hand.assert_healthy()


async def test_what_is_dismissed_stays_failed_and_is_not_asked_about_again(
    hand: ManualWorker, clock: DatabaseClock, parking: Base, tmp_path: Path
) -> None:
    """S4-61."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("rye")
    await hand.add(parking, folder_to_add(tmp_path / "docs"))
    await hand.step()
    await hand.run(await lose(hand, clock))
    assert await hand.statuses() == {"docs": "failed", "a.md": "failed"}
    assert await queue.dismiss(hand.db, parking.id) == 1
    assert await orphans(hand, parking) == []
    assert await hand.value("select error_code from item where title = 'a.md'") == "dismissed"
    assert await hand.rows("select id from job where state = 'dead'") == [], "its dead job went with it"
    await hand.assert_healthy()


async def test_a_listing_that_was_interrupted_is_parked_like_a_document(
    hand: ManualWorker, clock: DatabaseClock, parking: Base, docs: Path
) -> None:
    """S4-11, C2: and its recovery lists it."""
    (root,) = await hand.add(parking, folder_to_add(docs))
    assert isinstance(await hand.run(await lose(hand, clock)), retry.Bury)
    ((status, code),) = await hand.rows("select status, error_code from item")
    assert (status, code) == ("failed", "interrupted")
    assert await orphans(hand, parking) == [root.id]
    await hand.assert_healthy()
    assert await queue.recover(hand.db, parking.id) == 1
    await hand.work()
    assert await hand.statuses() == dict.fromkeys(["docs", "deep", "a.md", "b.md"], "completed")
    await hand.assert_healthy()


@pytest.mark.parametrize("hand_of", [queue.recover, queue.dismiss])
async def test_all_that_was_interrupted_is_taken_in_portions(
    hand: ManualWorker, parking: Base, monkeypatch: pytest.MonkeyPatch, hand_of: Callable[..., Awaitable[int]]
) -> None:
    """S4-61: more than a portion of what is parked, and of what is stuck."""
    monkeypatch.setattr(queue, "BATCH_SIZE", 2)
    await hand.add(parking, *(note_to_add(f"n{number}") for number in range(10)))
    await hand.rows("delete from job returning id")
    await hand.rows(
        "update item set status = 'failed', error_code = 'interrupted' where title < 'n5' returning id"
    )
    assert len(await orphans(hand, parking)) == 10
    assert await hand_of(hand.db, parking.id) == 10
    assert await orphans(hand, parking) == []
    await hand.assert_healthy()
    await hand.work()
    expected = "completed" if hand_of is queue.recover else "failed"
    assert set((await hand.statuses()).values()) == {expected}


async def test_a_base_that_resumes_goes_on_by_itself(hand: ManualWorker, clock: DatabaseClock) -> None:
    """C2: the default."""
    base = await hand.base()
    await hand.add(base, note_to_add("n", "rye"))
    await hand.run(await lose(hand, clock))
    assert await hand.statuses() == {"n": "completed"}
    assert await orphans(hand, base) == []
    await hand.assert_healthy()


async def test_a_job_whose_worker_is_lost_at_every_attempt_ends_as_a_failed_item(
    hand: ManualWorker, clock: DatabaseClock
) -> None:
    """Promise 1: no document can keep killing workers for ever."""
    base = await hand.base()
    await hand.add(base, note_to_add("n", "rye"))
    job = await lose(hand, clock)
    while job.attempt <= LOST_FACTOR * job.max_attempts:
        await clock.advance(2 * LEASE)
        async with hand.db.connection() as tx:
            await store.tick(tx)
        await hand.enrol()
        (job,) = await hand.claim()
    await hand.run(job)
    assert await hand.rows("select status, error_code from item") == [("failed", "worker_lost")]
    await hand.assert_healthy()


async def test_stuck_items_are_shown_recovered_and_dismissed(hand: ManualWorker, tmp_path: Path) -> None:
    """S4-59, S4-60: of which there should be none, so they are made here by deleting their jobs."""
    base = await hand.base()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("rye")
    root, leaf = await hand.add(base, folder_to_add(tmp_path / "docs"), note_to_add("n", "oats"))
    for recovered in (True, False):
        await hand.rows("delete from job returning id")
        assert set(await orphans(hand, base)) == {root.id, leaf.id}
        async with hand.db.connection() as tx:
            assert len(await invariants.find_violations(tx)) == 2
        if recovered:
            assert await queue.recover(hand.db, base.id) == 2
        else:
            assert await queue.dismiss(hand.db, base.id) == 2
        await hand.assert_healthy()
    await hand.work()
    assert await hand.statuses() == {"docs": "failed", "n": "failed"}
    await hand.reindex(base, root.id, leaf.id)
    await hand.work()
    assert await hand.statuses() == {"docs": "completed", "a.md": "completed", "n": "completed"}
    await hand.assert_healthy()


async def test_an_item_whose_only_job_is_for_an_older_version_is_stuck(hand: ManualWorker) -> None:
    """The check looks at versions: a job that would do nothing keeps nobody from being stuck."""
    base = await hand.base()
    (item,) = await hand.add(base, note_to_add("n"))
    await hand.rows("update item set wanted_version = 2 returning id")
    async with hand.db.connection() as tx:
        assert [row.id for row in await queue.find_stuck_items(tx, None, 10)] == [item.id]


async def test_a_dead_listing_that_is_retried_lists_before_its_children_say_how_it_is(
    hand: ManualWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-10: a child that ends between retry and listing must not complete the container."""
    base = await hand.base()
    (tmp_path / "docs").mkdir()
    for name in ("a.md", "b.md"):
        (tmp_path / "docs" / name).write_text(f"rye {name}")
    (root,) = await hand.add(base, folder_to_add(tmp_path / "docs"))
    await hand.add(base, note_to_add("beside", "oats"), parent_id=root.id)
    claimed = {job.kind: job for job in await hand.claim(5)}
    listing, beside = claimed["prepare_root"], claimed["index_document"]
    listing.attempt = listing.max_attempts
    monkeypatch.setattr(faults, "_armed", {})
    faults.arm("expand.listed=fail")
    assert isinstance(await hand.run(listing), retry.Bury)
    assert (await hand.statuses())["docs"] == "processing"  # the note beside it is still under way
    await retrying.retry(hand.db, listing.id)
    await hand.run(beside)
    assert await hand.statuses() == {"docs": "preparing", "beside": "completed"}
    await hand.work()
    assert await hand.search_texts(base, "rye") == ["rye a.md", "rye b.md"]
    assert set((await hand.statuses()).values()) == {"completed"}
    await hand.assert_healthy()


async def test_deletions_without_a_job_are_taken_up_at_start_up_in_portions(
    hand: ManualWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-31: roots and bases; S4-39."""
    monkeypatch.setattr(reconcile, "_DELETIONS_AT_START", 3)
    one, two = await hand.base("one"), await hand.base("two")
    items = await hand.add(one, *(note_to_add(f"n{n}", f"rye {n}") for n in range(7)))
    await hand.add(two, note_to_add("n", "oats"))
    await hand.work()
    for item in items:
        await delete.delete(hand.db, one.id, [item.id])
    await bases.delete(hand.db, two.id)
    await hand.rows("delete from job returning id")
    async with hand.db.connection() as tx:
        assert len(await invariants.find_violations(tx)) == 8
    assert await reconcile.recover_deletions(hand.db) == 8
    assert await hand.value("select count(*) from job") == 4
    assert await reconcile.recover_deletions(hand.db) == 0
    await hand.assert_healthy()
    await hand.work()
    assert await hand.remaining_rows() == {}


async def test_a_mill_that_starts_finishes_what_was_being_deleted(
    hand: ManualWorker, settings: Settings
) -> None:
    """S0-31, end to end; S4-39."""
    base = await hand.base()
    (item,) = await hand.add(base, note_to_add("n", "rye"))
    await hand.work()
    await delete.delete(hand.db, base.id, [item.id])
    await hand.rows("delete from job returning id")
    async with app.gristmill(settings, work=True, extra_embedders={"hashed": HashedEmbedder()}):

        async def gone() -> bool:
            return await hand.remaining_rows() == {}

        await wait_until(gone)
    await hand.assert_healthy()


async def test_a_worker_stopped_in_the_middle_parks_and_the_queue_shows_it(settings: Settings) -> None:
    """S4-60, S4-61, through the API and with real workers."""
    quick = settings.model_copy(update={"stop_grace": LEASE * 0})
    hashed = {"hashed": HashedEmbedder()}
    with faults.watch("index.embedded", hold=True) as held:
        async with app.gristmill(quick, work=True, extra_embedders=hashed) as mill, client(mill) as http:
            base = await make_base(http, onRestart="park")
            (item,) = (await add_items(http, base, {"type": "note", "content": "rye"}))["created"]
            await held.passed.wait()
    async with app.gristmill(settings, work=True, extra_embedders=hashed) as mill, client(mill) as http:
        parked = await wait_until_ended(http, item["id"])
        assert (parked["status"], parked["error"]["code"]) == ("failed", "interrupted")
        shown = (await http.get(f"/api/knowledge-bases/{base}/queue")).json()
        assert shown["orphanItemIds"] == [item["id"]]
        recovered = await http.post(f"/api/knowledge-bases/{base}/queue/recover")
        assert recovered.json() == {"recovered": 1}
        assert (await wait_until_ended(http, item["id"]))["status"] == "completed"
        assert len(await search(http, base, "rye")) == 1
        assert (await http.post(f"/api/knowledge-bases/{base}/queue/dismiss")).json() == {"dismissed": 0}
        assert (await http.get("/api/health/invariants")).json() == {"violations": []}


def client(mill: app.Gristmill) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")
