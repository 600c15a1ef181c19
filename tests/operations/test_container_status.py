"""Whatever changes the status of an item, the containers above it say so in the same transaction."""

import os
from pathlib import Path

import pytest

from gristmill.catalog import Base, Item
from gristmill.errors import Permanent
from gristmill.operations import cancel, delete, queue
from tests.operations.interleave import pause_at
from tests.operations.manual_worker import ManualWorker, folder_to_add, index_folder, note_to_add

COMPLETED = dict.fromkeys(["docs", "deep", "a.md", "b.md"], "completed")


@pytest.fixture
def unreadable(docs: Path) -> Path:
    """The folder, with a file whose name is not text."""
    Path(os.fsdecode(os.fsencode(docs) + b"/\xff.md")).write_text("rye")
    return docs


@pytest.fixture
async def active(worker: ManualWorker, base: Base, docs: Path) -> Item:
    """A note that waits to be indexed, in docs/deep; the rest of the folder is indexed."""
    items = await index_folder(worker, base, docs)
    (note,) = await worker.add(base, note_to_add("n", "rye n"), parent_id=items["deep"].id)
    assert await worker.statuses() == COMPLETED | {
        "docs": "processing",
        "deep": "processing",
        "n": "processing",
    }
    return note


async def test_a_deletion_completes_the_containers_that_waited_for_it(
    worker: ManualWorker, base: Base, active: Item
) -> None:
    """S0-10, S0-28: at once, although the item is still to be cleaned up."""
    await delete.delete(worker.db, base.id, [active.id])
    assert await worker.statuses() == COMPLETED | {"n": "deleting"}


async def test_a_failure_completes_the_containers_that_waited_for_it(
    worker: ManualWorker, active: Item
) -> None:
    """S0-10: they have other items that are completed."""
    job = await worker.take("index_document")
    record_failure = worker.handlers[job.kind].on_dead
    assert record_failure is not None
    async with worker.db.transaction() as tx:
        await record_failure(tx, job, Permanent("The note is broken.", code="unreadable"))
    assert await worker.statuses() == COMPLETED | {"n": "failed"}


async def test_a_cancel_completes_the_containers_that_waited_for_it(
    worker: ManualWorker, active: Item
) -> None:
    """S0-10, S4-49."""
    job_id = await worker.value("select id from job where subject = %s", active.id)
    await cancel.cancel(worker.db, job_id)
    assert await worker.statuses() == COMPLETED | {"n": "failed"}


async def test_stuck_items_that_are_dismissed_complete_the_containers_above(
    worker: ManualWorker, base: Base, active: Item
) -> None:
    """S0-10, S4-61."""
    await worker.rows("delete from job where subject = %s returning id", active.id)
    assert await queue.dismiss(worker.db, base.id) == 1
    assert await worker.statuses() == COMPLETED | {"n": "failed"}


async def test_a_container_is_active_again_when_an_item_below_it_is(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-10: until it is completed, also when nothing has changed."""
    items = await index_folder(worker, base, docs)
    await worker.reindex(base, items["b.md"].id)
    await worker.step()
    assert await worker.statuses() == COMPLETED | {
        "docs": "processing",
        "deep": "processing",
        "b.md": "processing",
    }
    await worker.step()
    assert await worker.statuses() == COMPLETED


async def test_a_folder_is_processing_while_its_entries_are_filed(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-45: from the first batch on, before its listing has ended."""
    await worker.add(base, folder_to_add(docs))
    async with pause_at("expand.filed", worker.run(await worker.take("prepare_root"))):
        statuses = await worker.statuses()
        assert (statuses["docs"], statuses["a.md"]) == ("processing", "processing")


async def test_a_folder_without_files_is_completed_by_its_listing(
    worker: ManualWorker, base: Base, tmp_path: Path
) -> None:
    """S0-10: no child will do it."""
    (tmp_path / "empty").mkdir()
    await worker.add(base, folder_to_add(tmp_path / "empty"))
    await worker.step()
    assert await worker.statuses() == {"empty": "completed"}


async def test_an_entry_that_cannot_be_read_is_failed_by_every_listing(
    worker: ManualWorker, base: Base, unreadable: Path
) -> None:
    """S0-25, S0-10: it has no job, and the folder's other files are indexed."""
    await worker.add(base, folder_to_add(unreadable))
    for version in (1, 2):
        await worker.run(await worker.take("prepare_root"))
        failed = await worker.rows(
            "select id, wanted_version, error_code, error_message from item where status = 'failed'"
        )
        ((item_id, wanted, code, message),) = failed
        assert (wanted, code) == (version, "undecodable_name")
        assert message
        assert await worker.rows("select id from job where subject = %s", item_id) == []
        await worker.work()
        assert COMPLETED.items() <= (await worker.statuses()).items()
        if version == 1:
            root = await worker.value("select id from item where title = 'docs'")
            await worker.reindex(base, root)
            await worker.run(await worker.take("reindex_subtree"))
    await worker.assert_healthy()


async def test_a_folder_whose_listing_is_cancelled_has_failed_when_its_last_child_ends(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-10, S4-49: as long as a child is active, so is the folder."""
    items = await index_folder(worker, base, docs)
    await worker.reindex(base, items["docs"].id)
    await worker.step()
    await worker.add(base, note_to_add("n", "rye n"), parent_id=items["docs"].id)
    job_id = await worker.value("select id from job where kind = 'prepare_root'")
    await cancel.cancel(worker.db, job_id)
    assert (await worker.statuses())["docs"] == "processing"
    await worker.work()
    assert await worker.statuses() == COMPLETED | {"docs": "failed", "n": "completed"}
