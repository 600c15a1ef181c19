"""A change of status that comes too late changes nothing: the item wants another version by now, or is being deleted."""

from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest

from gristmill import catalog
from gristmill.catalog import Base, Item, NewItem
from gristmill.catalog.transitions import ExpandedContainer, LeasedVersion
from gristmill.db import Tx
from gristmill.jobs import Job
from gristmill.operations import delete
from tests.operations.manual_worker import ManualWorker, note_to_add

Change = Callable[[Tx, Item, Job], Awaitable[object]]
OF_A_VERSION: dict[str, Change] = {
    "lock_wanted_versions": lambda tx, item, _: catalog.lock_wanted_versions(tx, [(item.id, 1)]),
    "requeue_version": lambda tx, item, _: catalog.requeue_version(tx, item.id, 1),
    "begin_listing": lambda tx, item, _: catalog.begin_listing(tx, item.id, 1),
    "begin_reading": lambda tx, item, _: catalog.begin_reading(tx, [(item.id, 1)]),
    "begin_embedding": lambda tx, item, job: catalog.begin_embedding(
        tx, [LeasedVersion(item.id, 1, job.id, job.lease)]
    ),
    "mark_expanded": lambda tx, item, _: catalog.mark_expanded(tx, [ExpandedContainer(item.id, 1, {})]),
    "publish_versions": lambda tx, item, _: catalog.publish_versions(
        tx, [{"id": str(item.id), "version": 1, "chunks": 7, "warnings": [], "size_bytes": 7}]
    ),
    "finish_unchanged": lambda tx, item, _: catalog.finish_unchanged(tx, [(item.id, 1)]),
    "fail_version": lambda tx, item, _: catalog.fail_version(tx, item.id, 1, "unreadable", "It is broken."),
}
OF_AN_ITEM: dict[str, Change] = {
    "request_version": lambda tx, item, _: catalog.request_version(tx, [item.id], uuid4()),
    "replace_item": lambda tx, item, _: catalog.replace_item(
        tx, item.id, NewItem("note", "n", "n", body="new"), uuid4()
    ),
    "abandon": lambda tx, item, _: catalog.abandon(tx, item.id, "cancelled", "It was cancelled."),
    "dismiss": lambda tx, item, _: catalog.dismiss(tx, [item.id]),
}
OF_NOTHING: dict[str, Change] = {
    "request_attachment_versions": lambda tx, _, __: catalog.request_attachment_versions(tx, [], 1),
    "begin_embedding": lambda tx, _, __: catalog.begin_embedding(tx, []),
}


async def change(worker: ManualWorker, change: Change, item: Item, job: Job) -> tuple[object, bool]:
    """What a change returns, and whether it left the item's row as it was."""
    before = await worker.rows("select * from item")
    async with worker.db.transaction() as tx:
        result = await change(tx, item, job)
    return result, await worker.rows("select * from item") == before


@pytest.mark.parametrize("name", OF_A_VERSION)
async def test_a_change_for_a_version_that_was_replaced_changes_nothing(
    worker: ManualWorker, base: Base, name: str
) -> None:
    """S3-05."""
    (item,) = await worker.add(base, note_to_add("n", "rye"))
    job = await worker.take("index_document")
    await worker.add(base, note_to_add("n", "oats"), on_conflict="replace")
    result, is_same = await change(worker, OF_A_VERSION[name], item, job)
    assert is_same
    assert not result


@pytest.mark.parametrize("name", OF_A_VERSION | OF_AN_ITEM)
async def test_a_change_of_an_item_that_is_being_deleted_changes_nothing(
    worker: ManualWorker, base: Base, name: str
) -> None:
    """S0-39."""
    (item,) = await worker.add(base, note_to_add("n", "rye"))
    job = await worker.take("index_document")
    await delete.delete(worker.db, base.id, [item.id])
    result, is_same = await change(worker, (OF_A_VERSION | OF_AN_ITEM)[name], item, job)
    assert is_same
    assert not result
    assert await worker.statuses() == {"n": "deleting"}


@pytest.mark.parametrize("name", OF_NOTHING)
async def test_a_change_of_no_item_is_none(worker: ManualWorker, base: Base, name: str) -> None:
    (item,) = await worker.add(base, note_to_add("n", "rye"))
    job = await worker.take("index_document")
    assert await change(worker, OF_NOTHING[name], item, job) == ([], True)


async def test_only_an_item_that_is_completed_or_failed_gets_a_new_version(
    worker: ManualWorker, base: Base
) -> None:
    """S0-40: the job of an active one goes on."""
    (item,) = await worker.add(base, note_to_add("n", "rye"))
    job = await worker.take("index_document")
    assert await change(worker, OF_AN_ITEM["request_version"], item, job) == ([], True)
    await worker.run(job)
    async with worker.db.transaction() as tx:
        (requested,) = await catalog.request_version(tx, [item.id], uuid4())
    assert (requested.wanted_version, await worker.statuses()) == (2, {"n": "processing"})
