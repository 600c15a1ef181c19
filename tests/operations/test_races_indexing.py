"""Cancel, retry and replace against the indexing of a document, and uploads against the removal of equal bytes."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gristmill.catalog import Base, ItemId
from gristmill.errors import Conflict, RequestError, Transient
from gristmill.jobs import JobId
from gristmill.operations import add, bases, cancel, delete
from gristmill.operations import retry as retrying
from gristmill.operations.uploads import delete_marked, store_upload
from gristmill.sources.blobs import Blob
from tests.database_clock import DatabaseClock
from tests.operations.interleave import pause_at, start_blocked
from tests.operations.manual_worker import (
    UNLIMITED,
    ManualWorker,
    byte_stream,
    file_to_add,
    folder_to_add,
    items_by_title,
    note_to_add,
    upload_to_add,
)

pytestmark = pytest.mark.usefixtures("ends_healthy")


async def test_a_cancel_that_comes_at_the_switch_of_versions_is_too_late(
    worker: ManualWorker, base: Base
) -> None:
    await worker.add(base, note_to_add("n", "rye"))
    job = await worker.take("index_document")
    async with pause_at("publish.before_commit", worker.run(job)):
        request = await start_blocked(worker, cancel.cancel(worker.db, job.id))
    with pytest.raises(Conflict) as caught:
        await request
    assert caught.value.code == "job_not_active"
    assert await worker.statuses() == {"n": "completed"}


async def test_a_version_cancelled_before_publication_is_never_searchable(
    worker: ManualWorker, base: Base
) -> None:
    """S4-27, S4-43, S4-49: even though its worker was not reached."""
    await worker.add(base, note_to_add("n", "rye"))
    job = await worker.take("index_document")
    async with pause_at("index.embedded", worker.run(job)):
        await cancel.cancel(worker.db, job.id)
    assert await worker.rows("select status, error_code from item") == [("failed", "cancelled")]
    assert await worker.search_texts(base, "rye") == []


async def test_a_retry_that_comes_while_a_newer_version_is_published_is_refused(
    worker: ManualWorker, base: Base, tmp_path: Path
) -> None:
    """S3-05: the dead job has ended with the version that took its place."""
    path = tmp_path / "a.md"
    path.write_bytes(b"\0")
    (item,) = await worker.add(base, file_to_add(path))
    await worker.step()
    ((dead,),) = await worker.rows("select id from job where state = 'dead'")
    path.write_text("rye")
    await worker.reindex(base, item.id)
    await worker.step()
    async with pause_at("publish.before_commit", worker.run(await worker.take("index_document"))):
        request = await start_blocked(worker, retrying.retry(worker.db, JobId(dead)))
    with pytest.raises(Conflict) as caught:
        await request
    assert caught.value.code == "job_not_dead"
    assert await worker.rows("select id from job") == []
    assert await worker.search_texts(base, "rye") == ["rye"]


async def test_a_retry_in_a_base_that_is_being_deleted_queues_nothing(
    worker: ManualWorker, base: Base, tmp_path: Path
) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"\0")
    await worker.add(base, file_to_add(path))
    await worker.step()
    ((dead,),) = await worker.rows("select id from job where state = 'dead'")
    async with pause_at("delete_base.marked", bases.delete(worker.db, base.id)):
        request = await start_blocked(worker, retrying.retry(worker.db, JobId(dead)))
    with pytest.raises(RequestError):
        await request
    await worker.work()
    assert await worker.remaining_rows() == {}


@pytest.mark.parametrize("point", ["index.opened", "index.embedded"])
async def test_a_note_replaced_while_it_is_indexed_is_found_only_by_its_new_text(
    worker: ManualWorker, base: Base, point: str
) -> None:
    """S3-05: the old job writes nothing more, and what it wrote is removed."""
    await worker.add(base, note_to_add("n", "rye old"))
    job = await worker.take("index_document")
    async with pause_at(point, worker.run(job)):
        (item,) = await worker.add(base, note_to_add("n", "rye new"), on_conflict="replace")
        assert item.wanted_version == 2
    assert await worker.search_texts(base, "rye") == []
    await worker.assert_healthy()
    await worker.work()
    assert await worker.search_texts(base, "rye") == ["rye new"]
    assert await worker.rows("select version, text from chunk") == [(2, "rye new")]
    assert await worker.rows("select text from content_part") == [("rye new",)]


async def test_a_folder_replaced_while_it_is_listed_is_listed_by_the_newer_job(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-45: the older job reads the folder's row again under the lock, and files nothing."""
    await worker.add(base, folder_to_add(docs))
    job = await worker.take("prepare_root")
    async with pause_at("expand.listed", worker.run(job)):
        await worker.add(base, folder_to_add(docs), on_conflict="replace")
    assert set(await items_by_title(worker, base)) == {"docs"}
    await worker.work()
    assert await worker.search_texts(base, "rye") == ["rye a", "rye b"]


# ── uploads of equal bytes ───────────────────────────────────────────────────────────────────────────────

RYE = b"rye by the sack"


def store_bytes(worker: ManualWorker) -> Coroutine[Any, Any, Blob]:
    return store_upload(worker.db, worker.originals.blobs, lambda: byte_stream(RYE))


async def add_upload(worker: ManualWorker, base: Base, name: str) -> ItemId:
    blob = await store_bytes(worker)
    (item,) = await worker.add(base, upload_to_add(name, blob.hash, blob.size))
    return item.id


async def store_names(worker: ManualWorker) -> list[str]:
    return sorted([blob.name async for blob in worker.originals.blobs.list()])


async def blob_names(worker: ManualWorker) -> list[str]:
    return sorted([row[0] for row in await worker.rows("select name from blob")])


async def assert_indexed_once(worker: ManualWorker, base: Base) -> None:
    """Assert that the bytes are stored once and readable, that the item is indexed from them, and that the store has nothing else."""
    await worker.work()
    assert await worker.rows("select status, error_code from item") == [("completed", None)]
    assert await worker.search_texts(base, "rye") == ["rye by the sack"]
    (name,) = await blob_names(worker)
    assert await store_names(worker) == [name]
    assert await worker.originals.blobs.get(name, 100) == RYE
    assert await worker.value("select count(*) from pending_blob_name") == 0


async def test_bytes_taken_into_use_while_their_last_item_is_removed_stay(
    worker: ManualWorker, second_worker: ManualWorker, base: Base
) -> None:
    """The converse of promise 3: the removal waits for the transaction that is about to use them, and then sees it."""
    other_base = await worker.base("other")
    old = await add_upload(worker, base, "old.md")
    await worker.work()
    await delete.delete(worker.db, base.id, [old])
    blob = await store_bytes(worker)
    adding = add.add(worker.db, other_base.id, [upload_to_add("new.md", blob.hash, blob.size)], UNLIMITED)
    async with pause_at("add.rows_inserted", adding):
        removal = await start_blocked(worker, second_worker.work())
    await removal
    assert (
        await worker.value("select result ->> 'blobs' from job_history where kind = 'delete_subtree'") == "0"
    )
    await assert_indexed_once(worker, other_base)


@pytest.mark.parametrize("point", ["remove.names_found", "remove.bytes_gone"])
async def test_bytes_uploaded_while_equal_bytes_are_removed_stay(
    worker: ManualWorker, second_worker: ManualWorker, base: Base, point: str
) -> None:
    """The converse of promise 3: they have another name. No one waits, and no transaction is open meanwhile."""
    old = await add_upload(worker, base, "old.md")
    await worker.work()
    await delete.delete(worker.db, base.id, [old])
    async with pause_at(point, second_worker.work()):
        assert (
            await worker.value(
                "select count(*) from pg_stat_activity"
                " where datname = current_database() and state = 'idle in transaction'"
            )
            == 0
        )
        await add_upload(worker, base, "new.md")
        await worker.work()
        assert await worker.search_texts(base, "rye") == ["rye by the sack"]
    await assert_indexed_once(worker, base)


@pytest.mark.parametrize(
    ("point", "other"),
    [("remove.names_found", "remove.bytes_gone"), ("remove.bytes_gone", "remove.names_found")],
)
async def test_a_late_removal_never_removes_bytes_that_were_stored_again(
    worker: ManualWorker, second_worker: ManualWorker, base: Base, point: str, other: str
) -> None:
    """Whatever it saw before: two removals, an upload, another removal of the same bytes, another upload."""
    old = await add_upload(worker, base, "old.md")
    (beside,) = await worker.add(base, note_to_add("beside"))
    await worker.work()
    for item_id in (old, beside.id):
        await delete.delete(worker.db, base.id, [item_id])
    first, late = await worker.claim(2)
    async with pause_at(point, worker.run(first)), pause_at(other, second_worker.run(late)):
        again = await add_upload(worker, base, "again.md")
        await delete.delete(worker.db, base.id, [again])
        await worker.work()
        assert await store_names(worker) == []
        await add_upload(worker, base, "new.md")
    await assert_indexed_once(worker, base)


async def test_a_completed_removal_leaves_nothing_even_if_another_removes_the_same_bytes(
    worker: ManualWorker, second_worker: ManualWorker, base: Base
) -> None:
    """Promise 3, S1-20: when the removal is done the bytes are gone, and not left to another removal."""
    old = await add_upload(worker, base, "old.md")
    (beside,) = await worker.add(base, note_to_add("beside"))
    await worker.work()
    for item_id in (old, beside.id):
        await delete.delete(worker.db, base.id, [item_id])
    first, late = await worker.claim(2)
    async with pause_at("remove.names_found", worker.run(first)):
        await second_worker.run(late)
        assert await store_names(worker) == []
        assert await worker.value("select count(*) from pending_blob_name") == 0


async def test_an_upload_that_was_given_up_is_stored_again(
    worker: ManualWorker, clock: DatabaseClock, base: Base
) -> None:
    """A process that was frozen for days between storing bytes and keeping them: they were removed meanwhile."""
    for point in ("uploads.announced", "uploads.stored"):
        async with pause_at(point, add_upload(worker, base, "new.md")):
            await clock.advance(timedelta(days=2))
            await delete_marked(worker.db, worker.originals.blobs)
            assert await store_names(worker) == []
            assert await worker.value("select count(*) from pending_blob_name") == 0
        await assert_indexed_once(worker, base)
        await delete.delete(
            worker.db, base.id, [item.id for item in (await items_by_title(worker, base)).values()]
        )
        await worker.work()


async def test_an_upload_that_is_being_given_up_at_this_moment_is_stored_again(
    worker: ManualWorker, clock: DatabaseClock, base: Base
) -> None:
    """The bytes are gone and the name is not forgotten yet: it can't be kept any more."""
    async with AsyncExitStack() as frozen:
        await frozen.enter_async_context(pause_at("uploads.stored", add_upload(worker, base, "new.md")))
        await clock.advance(timedelta(days=2))
        async with pause_at("remove.bytes_gone", delete_marked(worker.db, worker.originals.blobs)):
            await frozen.aclose()
    await assert_indexed_once(worker, base)


async def test_equal_bytes_that_are_kept_already_are_removed_again(worker: ManualWorker, base: Base) -> None:
    """C6: and a kill before that leaves a name that the next removal takes."""
    await add_upload(worker, base, "a.md")
    before = await store_names(worker)
    async with pause_at("remove.bytes_gone", store_bytes(worker)):
        assert await store_names(worker) == before
        assert await worker.value("select count(*) from pending_blob_name where deleting") == 1
        await delete_marked(worker.db, worker.originals.blobs)
        assert await worker.value("select count(*) from pending_blob_name") == 0
    assert await store_names(worker) == before == await blob_names(worker)


async def test_bytes_that_leave_between_upload_and_addition_are_asked_for_again(
    worker: ManualWorker, second_worker: ManualWorker, base: Base
) -> None:
    """Nothing is filed that could not be read."""
    old = await add_upload(worker, base, "old.md")
    await worker.work()
    await delete.delete(worker.db, base.id, [old])
    blob = await store_bytes(worker)
    async with pause_at("remove.names_found", second_worker.work()):
        with pytest.raises(Transient) as caught:
            await add.add(worker.db, base.id, [upload_to_add("new.md", blob.hash, blob.size)], UNLIMITED)
        assert caught.value.code == "upload_lost"
    assert await worker.remaining_rows() == {}
    await add_upload(worker, base, "new.md")
    await assert_indexed_once(worker, base)


async def test_two_uploads_of_equal_bytes_at_once_are_one_blob(worker: ManualWorker, base: Base) -> None:
    """C6."""
    await asyncio.gather(*(add_upload(worker, base, f"{n}.md") for n in range(4)))
    await worker.work()
    assert await worker.value("select count(*) from blob") == 1
    assert await worker.search_texts(base, "rye") == ["rye by the sack"] * 4
