"""Attachments: filed as children with their own jobs, and in step with their document."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gristmill import faults
from gristmill.catalog import Base, ItemId, NewItem
from gristmill.db import Database
from gristmill.ingest import ReaderPool
from gristmill.operations import add, delete, uploads
from gristmill.settings import Settings
from tests.operations.manual_worker import UNLIMITED, ManualWorker
from tests.readers import samples

pytestmark = pytest.mark.slow


@pytest.fixture
async def worker(db: Database, settings: Settings) -> AsyncGenerator[ManualWorker]:
    """A manual worker that reads all formats."""
    async with ReaderPool(1) as pool:
        yield await ManualWorker.start(db, settings, pool=pool)


async def upload(worker: ManualWorker, base: Base, name: str, data: bytes) -> ItemId:
    """Add a file, or give it other bytes."""

    async def blocks() -> AsyncGenerator[bytes]:
        yield data

    blob = await uploads.store_upload(worker.db, worker.originals.blobs, blocks)
    new = NewItem("file", name, name, source={"name": name}, blob=blob.hash, size_bytes=blob.size)
    result = await add.add(worker.db, base.id, [add.ItemToAdd(new, None)], UNLIMITED, on_conflict="replace")
    await uploads.remove_unused(worker.db, worker.originals.blobs, result.released)
    return result.created[0].id


async def tree(worker: ManualWorker) -> dict[str, tuple[str, str | None]]:
    """Every visible item: its status and the title of its parent."""
    rows = await worker.rows(
        "select i.title, i.status, p.title from item i left join item p on p.id = i.parent_id"
        " where i.status <> 'deleting' order by i.id"
    )
    return {title: (status, holder) for title, status, holder in rows}


async def titles_matching(worker: ManualWorker, base: Base, words: str) -> list[str]:
    """The titles of the hits."""
    query = (
        "select distinct i.title from chunk c join item i on i.id = c.item_id and i.live_version = c.version"
        " where i.base_id = %s and strpos(lower(c.text), %s) > 0 and i.type = 'file' and i.status <> 'deleting'"
    )
    return [row[0] for row in await worker.rows(query, base.id, words)]


async def event_data(worker: ManualWorker, kind: str) -> list[Any]:
    """The data of all events of a type."""
    return [row[0] for row in await worker.rows("select data from outbox where type = %s order by n", kind)]


def archive(**entries: str) -> bytes:
    return samples.zipped({name.replace("_", "."): text for name, text in entries.items()})


async def test_what_is_inside_becomes_a_child_with_a_job_of_its_own(worker: ManualWorker, base: Base) -> None:
    """S3-15: a mail with a zip that holds a mail, each a document below the one it is in."""
    inner = samples.mail("Rye in the inner one.", {"deep.txt": b"Emmer lies deep."}).as_bytes()
    archive_bytes = samples.zipped({"folder/inner.eml": inner, "list.txt": "Oats by the sack."})
    await upload(
        worker, base, "mail.eml", samples.mail("Spelt today.", {"all.zip": archive_bytes}).as_bytes()
    )
    await worker.work()
    assert await tree(worker) == {
        "mail.eml": ("completed", None),
        "all.zip": ("completed", "mail.eml"),
        "inner.eml": ("completed", "all.zip"),
        "list.txt": ("completed", "all.zip"),
        "deep.txt": ("completed", "inner.eml"),
    }
    assert await titles_matching(worker, base, "emmer") == ["deep.txt"]
    assert [data["documents"] for data in await event_data(worker, "EmbeddedDocumentsExtracted")] == [1, 2, 1]
    await worker.assert_healthy()


async def test_a_base_is_ready_once_what_is_inside_its_documents_is_indexed_too(
    worker: ManualWorker, base: Base
) -> None:
    """S3-21: the document itself is completed before."""
    await upload(worker, base, "a.zip", archive(rye_txt="rye"))
    await worker.step()
    assert await tree(worker) == {"a.zip": ("completed", None), "rye.txt": ("processing", "a.zip")}
    assert await event_data(worker, "KnowledgeSpaceAllDocumentsIngested") == []
    await worker.work()
    ready = await event_data(worker, "KnowledgeSpaceAllDocumentsIngested")
    assert ready == [{"completed": 2, "failed": 0}]


async def test_children_follow_their_document(worker: ManualWorker, base: Base) -> None:
    """An equal attachment stays, a changed one is indexed again, a new one is added, a missing one is deleted."""
    await upload(worker, base, "a.zip", archive(same_txt="rye", other_txt="oats", gone_txt="spelt"))
    await worker.work()
    before = dict(await worker.rows("select title, id from item"))
    await upload(worker, base, "a.zip", archive(same_txt="rye", other_txt="barley", new_txt="emmer"))
    await worker.work()
    after = dict(await worker.rows("select title, id from item"))
    assert set(after) == {"a.zip", "same.txt", "other.txt", "new.txt"}
    assert all(after[title] == before[title] for title in ("a.zip", "same.txt", "other.txt"))
    live = dict(await worker.rows("select title, live_version from item"))
    assert (live["same.txt"], live["other.txt"]) == (1, 2)
    assert await titles_matching(worker, base, "oats") == []
    assert await titles_matching(worker, base, "spelt") == []
    assert await titles_matching(worker, base, "barley") == ["other.txt"]
    assert await worker.value("select count(*) from blob") == 4
    await worker.assert_healthy()


async def test_an_unchanged_document_leaves_its_children_alone_and_tries_failed_ones_again(
    worker: ManualWorker, base: Base
) -> None:
    item = await upload(worker, base, "a.zip", archive(good_txt="rye", bad_pdf="%PDF-1.7 no more"))
    await worker.work()
    assert (await tree(worker))["bad.pdf"] == ("failed", "a.zip")
    await worker.reindex(base, item)
    await worker.work()
    versions = dict(await worker.rows("select title, wanted_version from item"))
    assert versions == {"a.zip": 2, "good.txt": 1, "bad.pdf": 2}
    await worker.assert_healthy()


async def test_deleting_a_document_takes_all_that_was_inside(worker: ManualWorker, base: Base) -> None:
    """Promise 3: neither rows nor bytes are left."""
    inner = archive(deep_txt="emmer")
    item = await upload(worker, base, "a.zip", samples.zipped({"b.zip": inner, "c.txt": "rye"}))
    await worker.work()
    await delete.delete(worker.db, base.id, [item])
    await worker.work()
    for table in ("item", "blob", "content", "attachment", "chunk", "pending_blob_name"):
        assert await worker.value(f"select count(*) from {table}") == 0, table
    assert [blob async for blob in worker.originals.blobs.list()] == []
    await worker.assert_healthy()


@pytest.mark.parametrize("point", ["embedded.before_commit", "embedded.filed", "publish.before_commit"])
async def test_an_attempt_that_stops_anywhere_files_each_child_once(
    worker: ManualWorker, base: Base, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 1: on either side of the filing, the next attempt ends with the same."""
    monkeypatch.setattr(faults, "_armed", {})
    await upload(worker, base, "a.zip", archive(one_txt="rye", two_txt="oats"))
    faults.arm(f"{point}=fail")
    await worker.work()
    await worker.make_due()
    await worker.work()
    assert {title: status for title, (status, _) in (await tree(worker)).items()} == {
        "a.zip": "completed",
        "one.txt": "completed",
        "two.txt": "completed",
    }
    assert len(await event_data(worker, "EmbeddedDocumentsExtracted")) == 1
    await worker.assert_healthy()


async def test_nothing_is_filed_for_what_is_deleted_meanwhile(worker: ManualWorker, base: Base) -> None:
    """Delete wins: the document is read, and gone before what it holds is filed."""
    item = await upload(worker, base, "a.zip", archive(one_txt="rye"))
    job = await worker.take("index_document")
    await delete.delete(worker.db, base.id, [item])
    await worker.run(job)
    await worker.work()
    assert await tree(worker) == {}
    await worker.assert_healthy()


async def test_nesting_ends_and_says_so(worker: ManualWorker, base: Base) -> None:
    """Documents inside documents are opened three deep; what is below is counted, and not taken."""
    data = b"emmer at the bottom"
    for depth in range(5, 0, -1):
        data = samples.zipped({f"{depth}.zip" if depth < 5 else "bottom.txt": data})
    await upload(worker, base, "0.zip", data)
    await worker.work()
    assert list(await tree(worker)) == ["0.zip", "1.zip", "2.zip", "3.zip"]
    assert await worker.value("select warnings from item where title = '3.zip'") == ["embedded_left_out:1"]


async def test_equal_documents_are_opened_once(worker: ManualWorker, base: Base) -> None:
    """Promise 4: the second one gets its children from the stored content of the first."""
    data = archive(one_txt="rye")
    await upload(worker, base, "a.zip", data)
    await worker.work()
    await worker.rows("update attachment set name = 'kept.txt' returning 1")
    await upload(worker, base, "b.zip", data)
    await worker.work()
    assert (await tree(worker))["kept.txt"] == ("completed", "b.zip")


async def test_a_message_without_text_is_no_failure_when_it_holds_documents(
    worker: ManualWorker, base: Base
) -> None:
    """C7: it has children, so it is neither empty nor without text."""
    message = samples.mail("", {"a.txt": b"rye"})
    for name in ("Subject", "From", "To", "Date"):
        del message[name]
    await upload(worker, base, "m.eml", message.as_bytes())
    await worker.work()
    assert (await tree(worker))["a.txt"] == ("completed", "m.eml")
    assert await worker.value("select warnings from item where title = 'm.eml'") == []


async def test_children_inherit_the_access_list_of_their_document(worker: ManualWorker, base: Base) -> None:
    item = await upload(worker, base, "a.zip", archive(one_txt="rye"))
    await worker.rows("select item_set_acl(%s, array['team:mill'])", item)
    await worker.work()
    assert await worker.value("select acl_from from item where title = 'one.txt'") == item
