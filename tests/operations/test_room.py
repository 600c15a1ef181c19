"""A full queue: requests are rejected, and jobs that create work wait; nothing fails or hangs because of it."""

from pathlib import Path

import pytest

from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.errors import LimitReached
from gristmill.ingest import Expander, Reindexer
from gristmill.jobs import Handler, Job, QueueLimits, retry
from gristmill.operations import add
from gristmill.settings import Settings
from gristmill.sources.directory import list_folder
from gristmill.sources.disk import EVERYWHERE
from gristmill.work import PrepareRoot, ReindexSubtree
from tests.operations.manual_worker import ManualWorker, folder_to_add, items_by_title, note_to_add

pytestmark = pytest.mark.usefixtures("ends_healthy")

TWO = QueueLimits(lane=2, total=100)


@pytest.fixture
async def worker(db: Database, settings: Settings) -> ManualWorker:
    """A worker whose listings and rebuilds keep to two jobs that wait."""
    worker = await ManualWorker.start(db, settings)
    expander = Expander(db, private=True, limits=TWO)
    worker.handlers[PrepareRoot.kind] = Handler(expander.prepare, expander.record_failure)
    worker.handlers[ReindexSubtree.kind] = Handler(Reindexer(db, TWO).reindex)
    return worker


async def waiting(worker: ManualWorker) -> list[str]:
    return sorted(
        row[0] for row in await worker.rows("select kind from job where state in ('queued', 'delayed')")
    )


async def take(worker: ManualWorker, kind: str) -> Job:
    """Claim the next job of a kind; the other claimed jobs are queued again."""
    await worker.make_due()
    jobs = await worker.claim(100)
    (wanted_job, *_) = (job for job in jobs if job.kind == kind)
    await worker.rows(
        "update job set state = 'queued', lease = null, worker = null, attempt = attempt - 1"
        " where state = 'running' and id <> %s returning id",
        wanted_job.id,
    )
    await worker.make_due()
    return wanted_job


async def test_a_long_listing_pauses_while_the_queue_is_full_and_reads_each_file_once(
    worker: ManualWorker, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4-54: a batch while there is room; then it waits until half of the room is free again, and says so."""
    monkeypatch.setattr(list_folder, "__defaults__", (None, 2, EVERYWHERE))
    (tmp_path / "docs").mkdir()
    for number in range(5):
        (tmp_path / "docs" / f"{number}.md").write_text(f"rye {number}")
    await worker.add(base, folder_to_add(tmp_path / "docs"))
    for file_count in (2, 4):
        move = await worker.run(await take(worker, "prepare_root"))
        assert isinstance(move, retry.Postpone)
        assert not move.counted
        ((waiting_for, errors),) = await worker.rows(
            "select r.waiting_for, jsonb_array_length(j.errors) from item_row r join job j on j.subject = r.id"
            " where r.type = 'directory'"
        )
        assert (waiting_for["code"], errors) == ("queue_full", 1)
        assert waiting_for["message"] == "The queue is full. Listing continues when there is room."
        assert waiting_for["next_attempt_at"] is not None
        assert await worker.value("select count(*) from item where type = 'file'") == file_count
        assert (await worker.statuses())["docs"] == "processing"
        await worker.assert_healthy()
        await worker.run(await take(worker, "index_document"))
        assert isinstance(await worker.run(await take(worker, "prepare_root")), retry.Postpone)
        assert await worker.value("select count(*) from item where type = 'file'") == file_count
        await worker.run(await take(worker, "index_document"))
    assert isinstance(await worker.run(await take(worker, "prepare_root")), retry.Complete)
    await worker.work()
    assert await worker.rows(
        "select distinct status, wanted_version, live_version from item where type = 'file'"
    ) == [("completed", 1, 1)]
    assert len(await worker.search_texts(base, "rye")) == 5


async def test_listings_that_wait_do_not_wait_for_each_other(
    worker: ManualWorker, base: Base, tmp_path: Path
) -> None:
    """Promise 1: more folders than may wait, and all of them come to their end."""
    for number in range(6):
        (tmp_path / "docs" / str(number)).mkdir(parents=True)
        (tmp_path / "docs" / str(number) / "a.md").write_text(f"rye {number}")
    await worker.add(base, folder_to_add(tmp_path / "docs"))
    # One at a time: the others wait, and would be counted.
    for _ in range(60):
        if not (jobs := await worker.claim()):
            await worker.make_due()
            jobs = await worker.claim()
        for job in jobs:
            await worker.run(job)
    assert len(await worker.search_texts(base, "rye")) == 6
    assert await waiting(worker) == []


async def test_a_rebuild_waits_for_room(worker: ManualWorker, base: Base) -> None:
    first, *_ = await worker.add(base, note_to_add("first", "rye"))
    await worker.work()
    await worker.add(base, note_to_add("a"), note_to_add("b"))
    await worker.reindex(base, first.id)
    assert isinstance(await worker.run(await take(worker, "reindex_subtree")), retry.Postpone)
    assert (await items_by_title(worker, base))["first"].wanted_version == 1
    for _ in range(2):
        await worker.run(await take(worker, "index_document"))
    assert isinstance(await worker.run(await take(worker, "reindex_subtree")), retry.Complete)
    assert (await items_by_title(worker, base))["first"].wanted_version == 2


async def test_jobs_that_wait_for_their_next_attempt_count_towards_the_queue_limit(
    worker: ManualWorker, base: Base
) -> None:
    """S4-54."""
    await worker.add(base, note_to_add("a"), note_to_add("b"))
    await worker.rows("update job set state = 'delayed' returning id")
    other_base = await worker.base("other")
    with pytest.raises(LimitReached) as caught:
        await add.add(worker.db, base.id, [note_to_add("c")], TWO)
    assert caught.value.code == "queue_full"
    with pytest.raises(LimitReached):
        await add.add(worker.db, other_base.id, [note_to_add("c")], QueueLimits(lane=2, total=2))
    assert len((await add.add(worker.db, other_base.id, [note_to_add("c")], TWO)).created) == 1
