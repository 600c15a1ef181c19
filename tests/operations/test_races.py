"""Two operations at once, paused at named points on real connections: delete wins, nothing is lost, and all work ends."""

import asyncio
from pathlib import Path

import pytest

from gristmill.catalog import Base
from gristmill.errors import NotFound
from gristmill.ingest import remove
from gristmill.jobs import retry
from gristmill.operations import add, bases, delete
from gristmill.operations.reindex import SubtreeActive
from gristmill.sources import directory
from tests.operations.interleave import pause_at, start_blocked
from tests.operations.manual_worker import (
    UNLIMITED,
    ManualWorker,
    file_to_add,
    folder_to_add,
    index_folder,
    note_to_add,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ends_healthy")]


# ── a deletion and a listing ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_removed", [False, True])
@pytest.mark.parametrize("point", ["expand.opened", "expand.listed", "expand.filed"])
async def test_a_folder_deleted_while_it_is_listed_gets_no_more_children(
    worker: ManualWorker, second_worker: ManualWorker, base: Base, docs: Path, point: str, is_removed: bool
) -> None:
    """S0-43, S0-45, S0-47: before expansion, before the first batch is filed, and after it."""
    (root,) = await worker.add(base, folder_to_add(docs))
    job = await worker.take("prepare_root")
    async with pause_at(point, worker.run(job)):
        await delete.delete(worker.db, base.id, [root.id])
        before = await worker.statuses()
        assert set(before.values()) == {"deleting"}
        assert len(before) == (4 if point == "expand.filed" else 1)
        if is_removed:
            await second_worker.work()
            before = {}
    assert await worker.statuses() == before
    await second_worker.work()
    assert await worker.remaining_rows() == {}


@pytest.mark.parametrize("point", ["schedule.before_enqueue", "expand.before_commit"])
async def test_a_deletion_waits_for_the_batch_that_is_being_filed_and_takes_it_too(
    worker: ManualWorker, base: Base, docs: Path, point: str
) -> None:
    """S0-11: the deletion takes the subtree as it is when it gets the lock."""
    (root,) = await worker.add(base, folder_to_add(docs))
    job = await worker.take("prepare_root")
    async with pause_at(point, worker.run(job)):
        deletion = await start_blocked(worker, delete.delete(worker.db, base.id, [root.id]))
    await deletion
    assert set((await worker.statuses()).values()) == {"deleting"}
    await worker.work()
    assert await worker.remaining_rows() == {}


async def test_a_folder_deleted_between_its_listing_and_that_of_the_folder_in_it(
    worker: ManualWorker, base: Base, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-43: the inner listing finds nothing to do."""
    monkeypatch.setattr(directory, "TREE_BATCH", 0)
    (root,) = await worker.add(base, folder_to_add(docs))
    await worker.step()
    jobs = {job.kind: job for job in await worker.claim(5)}
    async with pause_at("expand.listed", worker.run(jobs["prepare_root"])):
        await delete.delete(worker.db, base.id, [root.id])
    await worker.run(jobs["index_document"])
    await worker.work()
    assert await worker.remaining_rows() == {}


# ── a deletion and a rebuild ─────────────────────────────────────────────────────────────────────────────


async def test_a_deletion_between_the_check_of_a_reindex_and_its_job_wins(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-39: the deletion waits for the request, and the job that the request queued passes it over."""
    items = await index_folder(worker, base, docs)
    async with pause_at(
        "reindex.checked", worker.reindex(base, items["docs"].id, items["deep"].id)
    ) as request:
        deletion = await start_blocked(worker, delete.delete(worker.db, base.id, [items["b.md"].id]))
    await deletion
    assert (await request).root_ids == [items["docs"].id]
    jobs = {job.kind: job for job in await worker.claim(5)}
    assert isinstance(await worker.run(jobs["reindex_subtree"]), retry.Complete)
    assert await worker.value("select max(wanted_version) from item") == 1
    await worker.run(jobs["delete_subtree"])
    assert await worker.search_texts(base, "rye") == ["rye a"]


async def test_a_deletion_at_the_entry_of_the_rebuild_wins(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-39: the status is checked again under the lock."""
    items = await index_folder(worker, base, docs)
    await worker.reindex(base, items["docs"].id)
    job = await worker.take("reindex_subtree")
    async with pause_at("rebuild.begun", worker.run(job)):
        await delete.delete(worker.db, base.id, [items["docs"].id])
    assert set((await worker.statuses()).values()) == {"deleting"}
    assert await worker.rows("select kind from job") == [("delete_subtree",)]


async def test_a_deletion_that_comes_after_the_reset_stops_what_the_rebuild_began(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-39, S0-47."""
    items = await index_folder(worker, base, docs)
    await worker.reindex(base, items["docs"].id)
    job = await worker.take("reindex_subtree")
    async with pause_at("rebuild.reset", worker.run(job)):
        deletion = await start_blocked(worker, delete.delete(worker.db, base.id, [items["docs"].id]))
    await deletion
    assert set((await worker.statuses()).values()) == {"deleting"}
    await worker.work()
    assert await worker.remaining_rows() == {}


async def test_a_reindex_that_comes_during_a_deletion_is_refused(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-15."""
    items = await index_folder(worker, base, docs)
    async with pause_at("delete.marked", delete.delete(worker.db, base.id, [items["b.md"].id])):
        request = await start_blocked(worker, worker.reindex(base, items["docs"].id))
    with pytest.raises(SubtreeActive):
        await request


@pytest.mark.parametrize("inner_first", [True, False])
async def test_two_reindexes_of_overlapping_selections_both_complete(
    worker: ManualWorker, base: Base, docs: Path, inner_first: bool
) -> None:
    """S0-40: the second one waits for active items below its root, or finds the whole tree being re-indexed."""
    items = await index_folder(worker, base, docs)
    (docs / "a.md").write_text("rye new a")
    (docs / "deep/b.md").write_text("rye new b")
    selections = [[items["b.md"].id], [items["docs"].id]]
    for ids in selections if inner_first else reversed(selections):
        await worker.reindex(base, *ids)
    first, then = await worker.claim(2)
    async with pause_at("rebuild.reset", worker.run(first)):
        racing = await start_blocked(worker, worker.run(then))
    assert isinstance(await racing, retry.Postpone if inner_first else retry.Complete)
    await worker.assert_healthy()
    await worker.work()
    await worker.make_due()
    await worker.work()
    assert await worker.search_texts(base, "rye") == ["rye new a", "rye new b"]
    assert await worker.value("select count(*) from job") == 0


async def test_two_rebuilds_of_the_same_leaf_make_it_once(worker: ManualWorker, base: Base) -> None:
    """S4-26: the second selection holds another item too, so that it is a job of its own."""
    first, second = await worker.add(base, note_to_add("one"), note_to_add("two"))
    await worker.work()
    await worker.reindex(base, first.id)
    await worker.reindex(base, first.id, second.id)
    await asyncio.gather(*(worker.run(job) for job in await worker.claim(2)))
    versions = await worker.rows("select title, wanted_version from item order by 1")
    assert versions == [("one", 2), ("two", 2)]
    await worker.assert_healthy()


# ── a deletion and an addition ───────────────────────────────────────────────────────────────────────────


async def test_an_item_added_while_its_parent_is_deleted_is_deleted_with_it(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-47: the addition came first."""
    items = await index_folder(worker, base, docs)
    adding = add.add(
        worker.db, base.id, [note_to_add("late", "rye late")], UNLIMITED, parent_id=items["deep"].id
    )
    async with pause_at("add.rows_inserted", adding):
        deletion = await start_blocked(worker, delete.delete(worker.db, base.id, [items["docs"].id]))
    await deletion
    assert (await worker.statuses())["late"] == "deleting"
    await worker.work()
    assert await worker.remaining_rows() == {}


async def test_an_item_added_to_a_parent_that_is_being_deleted_is_refused(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-47: the deletion came first."""
    items = await index_folder(worker, base, docs)
    async with pause_at("delete.marked", delete.delete(worker.db, base.id, [items["docs"].id])):
        adding = await start_blocked(
            worker, add.add(worker.db, base.id, [note_to_add("late")], UNLIMITED, parent_id=items["deep"].id)
        )
    with pytest.raises(NotFound):
        await adding
    assert "late" not in await worker.statuses()


# ── a deletion and the indexing of a document ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_removed", [False, True])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("point", ["index.opened", "index.embedded"])
async def test_a_late_write_for_an_item_that_was_deleted_leaves_nothing(
    worker: ManualWorker,
    second_worker: ManualWorker,
    base: Base,
    tmp_path: Path,
    point: str,
    version: int,
    is_removed: bool,
) -> None:
    """Promise 3, S3-05: before its first and before its last write, new or re-indexed, with the rows gone or not; S1-18."""
    path = tmp_path / "a.md"
    path.write_text("rye")
    (item,) = await worker.add(base, file_to_add(path))
    if version == 2:
        await worker.work()
        path.write_text("rye and more")
        await worker.reindex(base, item.id)
        await worker.step()
    job = await worker.take("index_document")
    async with pause_at(point, worker.run(job)) as late:
        await delete.delete(worker.db, base.id, [item.id])
        assert await worker.search_texts(base, "rye") == []
        if is_removed:
            await second_worker.work()
    assert isinstance(await late, retry.Complete | retry.Ignore)
    assert await worker.search_texts(base, "rye") == []
    await second_worker.work()
    assert await worker.remaining_rows() == {}


async def test_a_deletion_waits_for_the_switch_of_versions_and_takes_what_it_made(
    worker: ManualWorker, base: Base
) -> None:
    """S0-11: it is the last write that it waits for, never the work before."""
    (item,) = await worker.add(base, note_to_add("n", "rye"))
    job = await worker.take("index_document")
    async with pause_at("publish.before_commit", worker.run(job)):
        deletion = await start_blocked(worker, delete.delete(worker.db, base.id, [item.id]))
    await deletion
    assert await worker.search_texts(base, "rye") == []
    await worker.work()
    assert await worker.remaining_rows() == {}


@pytest.mark.parametrize("kind", ["index_document", "prepare_root"])
async def test_a_base_deleted_while_its_items_are_worked_on_waits_for_them_and_then_is_gone(
    worker: ManualWorker, second_worker: ManualWorker, base: Base, docs: Path, kind: str
) -> None:
    """S0-34: running jobs are cancelled, and their last write can't come after the base is gone."""
    await worker.add(base, folder_to_add(docs), note_to_add("n", "rye"))
    (job,) = [job for job in await worker.claim(2) if job.kind == kind]
    point = "index.embedded" if kind == "index_document" else "expand.listed"
    async with pause_at(point, worker.run(job)):
        await bases.delete(worker.db, base.id)
        assert await worker.value("select cancelling from job where id = %s", job.id)
        removal = await second_worker.take("delete_base")
        assert isinstance(await second_worker.run(removal), retry.Postpone)
        assert await worker.value("select count(*) from base") == 1
    await worker.rows("delete from job where kind <> 'delete_base' returning id")  # the other claimed job
    await worker.make_due()
    await second_worker.work()
    assert await worker.remaining_rows() == {}
    assert await worker.value("select count(*) from base") == 0


# ── two deletions ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_deletion_above_one_that_is_running_finishes_it(
    worker: ManualWorker, second_worker: ManualWorker, base: Base, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each removes what it finds, and the receipts together count everything once."""
    monkeypatch.setattr(remove, "BATCH", 1)
    for number in range(4):
        (docs / f"deep/{number}.md").write_text(f"rye {number}")
    items = await index_folder(worker, base, docs)
    inner = await delete.delete(worker.db, base.id, [items["deep"].id])
    async with pause_at("remove.batch", worker.run(await worker.take("delete_subtree"))):
        outer = await delete.delete(worker.db, base.id, [items["docs"].id])
        await second_worker.work()
        assert await worker.statuses() == {}
    receipts = [
        await worker.value("select result from job_history where id = %s", job_id)
        for job_id in (inner.job_id, outer.job_id)
    ]
    assert [receipt["items"] for receipt in receipts] == [1, 7]
    assert sum(receipt["contents"] for receipt in receipts) == 6
    assert await worker.remaining_rows() == {}


async def test_overlapping_deletions_in_one_tree_never_deadlock(
    worker: ManualWorker,
    second_worker: ManualWorker,
    base: Base,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No deadlock: four removals of nested selections at once; S1-18."""
    monkeypatch.setattr(remove, "BATCH", 7)
    for name in ("top/x/y/z", "top/w"):
        for part in (tmp_path / name, *(tmp_path / name).parents):
            if part.is_relative_to(tmp_path / "top") and not (part / "0.md").exists():
                part.mkdir(parents=True, exist_ok=True)
                for number in range(10):
                    (part / f"{number}.md").write_text(f"{part.name} {number}")
    items = await index_folder(worker, base, tmp_path / "top")
    for title in ("z", "x", "y", "top"):
        await delete.delete(worker.db, base.id, [items[title].id])
    removals = await worker.claim(4)
    assert {job.kind for job in removals} == {"delete_subtree"}
    await asyncio.gather(*(worker.run(job) for job in removals))
    assert await worker.remaining_rows() == {}
