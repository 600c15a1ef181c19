"""One durable stage per job: what each leaves behind, what it queues next, and what its job reports."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from gristmill import catalog
from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.embedding import TextRefused
from gristmill.errors import Permanent
from gristmill.jobs import Job, Priority, retry
from gristmill.operations import bases, cancel, delete
from gristmill.operations.next_job import enqueue_next_jobs
from gristmill.operations.uploads import store_upload
from gristmill.settings import Settings
from gristmill.sources import directory
from tests.ingest.counting import CountingEmbedder
from tests.operations.interleave import pause_at
from tests.operations.manual_worker import (
    ManualWorker,
    byte_stream,
    file_to_add,
    folder_to_add,
    note_to_add,
    upload_to_add,
)
from tests.wait_until import wait_until


async def living_jobs(worker: ManualWorker) -> list[tuple[str, str, str]]:
    return [
        (kind, state, title)
        for kind, state, title in await worker.rows(
            "select j.kind, j.state::text, i.title from job j join item i on i.id = j.subject order by 1, 2, 3"
        )
    ]


async def test_a_handler_ends_with_its_stage_and_the_next_one_is_a_job(
    worker: ManualWorker, base: Base, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-08, S1-07, S1-09: a listing reads no file; it files the children, and each has the job of its own stage, also a
    folder that is too large to be listed with the one above."""
    monkeypatch.setattr(directory, "TREE_BATCH", 0)
    await worker.add(base, folder_to_add(docs))
    assert await living_jobs(worker) == [("prepare_root", "queued", "docs")]
    await worker.run(await worker.take("prepare_root"))
    assert await worker.statuses() == {"docs": "processing", "a.md": "processing", "deep": "preparing"}
    assert await living_jobs(worker) == [
        ("index_document", "queued", "a.md"),
        ("prepare_root", "queued", "deep"),
    ]
    assert await worker.value("select count(*) from content") == 0
    await worker.run(await worker.take("index_document"))
    assert (await worker.statuses())["a.md"] == "completed"
    assert await living_jobs(worker) == [("prepare_root", "queued", "deep")]
    await worker.run(await worker.take("prepare_root"))
    assert await living_jobs(worker) == [("index_document", "queued", "b.md")]


async def test_an_item_whose_job_is_queued_again_has_one_job(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S4-26: also while the job runs."""
    items = await worker.add(base, note_to_add("n", "rye"), folder_to_add(docs))
    for state in ("queued", "running"):
        async with worker.db.transaction() as tx:
            await enqueue_next_jobs(tx, base, items, Priority.NORMAL)
        expected = [("index_document", state, "n"), ("prepare_root", state, "docs")]
        assert await living_jobs(worker) == expected
        await worker.claim(2)


async def test_a_reindex_keeps_the_original_of_an_upload(worker: ManualWorker, base: Base) -> None:
    """S0-42: the new version is read from the same bytes, which are stored once."""
    blob = await store_upload(worker.db, worker.originals.blobs, lambda: byte_stream(b"rye flour"))
    (item,) = await worker.add(base, upload_to_add("a.txt", blob.hash, blob.size))
    await worker.work()
    await bases.patch(worker.db, base.id, chunking={"maxTokens": 64})
    await worker.reindex(base, item.id)
    await worker.work()
    assert await worker.rows("select status, live_version, blob_hash from item") == [
        ("completed", 2, blob.hash)
    ]
    assert await worker.rows("select hash from blob") == [(blob.hash,)]
    assert await worker.search_texts(base, "rye") == ["rye flour"]


async def test_a_job_that_dies_after_a_deletion_leaves_its_item_deleting(
    worker: ManualWorker, base: Base
) -> None:
    """S0-33, S0-39: it doesn't become failed, which lists would show."""
    (item,) = await worker.add(base, note_to_add("n", "rye"))
    job = await worker.take("index_document")
    await delete.delete(worker.db, base.id, [item.id])
    record_failure = worker.handlers[job.kind].on_dead
    assert record_failure is not None
    async with worker.db.transaction() as tx:
        await record_failure(tx, job, Permanent("The file is broken.", code="unreadable"))
    assert await worker.rows("select status, error_code from item") == [("deleting", None)]


async def test_a_deletion_stops_the_running_work_of_what_it_deletes(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S4-05, S4-40: also below the item; other running jobs continue."""
    (root,) = await worker.add(base, folder_to_add(docs))
    await worker.step()
    (beside,) = await worker.add(base, note_to_add("beside", "rye"))
    await worker.claim(5)
    await delete.delete(worker.db, base.id, [root.id])
    running = await worker.rows("select subject, cancelling from job where state = 'running'")
    assert {cancelling for subject, cancelling in running if subject != beside.id} == {True}
    assert [cancelling for subject, cancelling in running if subject == beside.id] == [False]


async def test_adding_and_indexing_a_file_of_the_disk_stores_no_reference_to_it(
    worker: ManualWorker, base: Base, tmp_path: Path
) -> None:
    """S1-17: the item's source is all there is; only rows that need bytes refer to blobs, by foreign keys."""
    (tmp_path / "a.md").write_text("rye")
    await worker.add(base, file_to_add(tmp_path / "a.md"))
    await worker.work()
    assert await worker.statuses() == {"a.md": "completed"}
    assert (
        await worker.rows("select 1 from blob union all select 1 from item where blob_hash is not null") == []
    )
    tables = await worker.rows(
        "select distinct conrelid::regclass::text from pg_constraint"
        " where contype = 'f' and confrelid = 'blob'::regclass order by 1"
    )
    assert tables == [("attachment",), ("content_asset",), ("item",), ("item_version",), ("stored_file",)]


async def test_a_change_of_a_base_leaves_its_queue_alone(worker: ManualWorker, base: Base) -> None:
    """S4-10: running and waiting jobs are the same afterwards, and end as they would have."""
    await worker.add(base, *(note_to_add(name, f"rye {name}") for name in ("a", "b", "c")))
    job = await worker.take("index_document")
    queue = "select id, state::text, attempt, run_at, cancelling from job order by id"
    async with pause_at("index.opened", worker.run(job)):
        before = await worker.rows(queue)
        assert sorted(row[1] for row in before) == ["queued", "queued", "running"]
        await bases.patch(worker.db, base.id, name="renamed", chunking={"maxTokens": 64})
        assert await worker.rows(queue) == before
        assert set((await worker.statuses()).values()) == {"reading", "processing"}
    await worker.work()
    assert set((await worker.statuses()).values()) == {"completed"}
    assert await worker.rows("select distinct attempt, outcome from job_history") == [(1, "done")]


async def test_the_job_of_an_item_knows_its_size(worker: ManualWorker, base: Base, tmp_path: Path) -> None:
    """S4-13, S4-25: base, item, kind, and the bytes or the length of the text as its workload."""
    (tmp_path / "a.md").write_bytes(b"x" * 5_000)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "child.md").write_bytes(b"y" * 700)
    items = await worker.add(
        base, file_to_add(tmp_path / "a.md"), note_to_add("n", "z" * 300), folder_to_add(folder)
    )
    rows = await worker.rows("select subject, lane, kind, workload from job")
    kinds = ("index_document", "index_document", "prepare_root")
    sizes = (5_000.0, 300.0, 0.0)
    assert sorted(rows) == sorted(
        (item.id, str(base.id), kind, size) for item, kind, size in zip(items, kinds, sizes, strict=True)
    )
    await worker.work(limit=10)
    children = await worker.rows("select size_bytes from item where title = 'child.md'")
    assert children == [(700,)]


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


async def start_indexing(
    db: Database, settings: Settings, embedder: CountingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> tuple[ManualWorker, Job, "asyncio.Task[retry.Transition]", float]:
    """A document that waits for its embedder, with the progress that it shows."""
    monkeypatch.setattr("gristmill.ingest.progress.EVERY", timedelta(milliseconds=5))
    worker = await ManualWorker.start(db, settings, embedder)
    await worker.add(await worker.base(), note_to_add("n", "rye"))
    (job,) = await worker.claim()
    embedder.gate.clear()
    running = asyncio.ensure_future(worker.run(job))

    async def percent() -> float | None:
        rows = await worker.rows(
            "select p.percent from progress p join item i on i.id = p.item_id"
            " where i.status = 'embedding' and p.percent > 0"
        )
        return rows[0][0] if rows else None

    return worker, job, running, await wait_until(percent)


async def item_progress(worker: ManualWorker) -> float | None:
    ((item_id,),) = await worker.rows("select id from item")
    async with worker.db.connection() as tx:
        item = await catalog.find_item(tx, item_id)
    assert item is not None
    return item.percent


async def test_a_failure_keeps_the_last_progress(
    db: Database, settings: Settings, embedder: CountingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4-49, S4-37: the document was embedding, and is failed at the percentage that it had reached."""

    def refuse(_: object) -> None:
        raise TextRefused("No.", code="embedder_refused")

    worker, _, running, percent = await start_indexing(db, settings, embedder, monkeypatch)
    embedder.before = refuse
    embedder.gate.set()
    await running
    assert await worker.rows("select status, error_code from item") == [("failed", "embedder_refused")]
    assert await item_progress(worker) == percent == 60


async def test_a_cancelled_document_is_failed_and_says_so(
    db: Database, settings: Settings, embedder: CountingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4-49, S4-37."""
    worker, job, running, _ = await start_indexing(db, settings, embedder, monkeypatch)
    await cancel.cancel(worker.db, job.id)
    embedder.gate.set()
    await running
    ((status, code, message),) = await worker.rows("select status, error_code, error_message from item")
    assert (status, code) == ("failed", "cancelled")
    assert "cancelled" in message.lower()


async def test_a_document_is_reading_then_embedding_then_completed(
    db: Database, settings: Settings, embedder: CountingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4-14, S4-37, S4-28: pending until its job starts."""
    worker = await ManualWorker.start(db, settings, embedder)
    await worker.add(await worker.base("other"), note_to_add("waiting", "oats"))
    assert await worker.statuses() == {"waiting": "processing"}
    async with pause_at("index.opened", worker.run(await worker.take("index_document"))):
        assert await worker.statuses() == {"waiting": "reading"}
    worker, _, running, _ = await start_indexing(db, settings, embedder, monkeypatch)
    assert (await worker.statuses())["n"] == "embedding"
    embedder.gate.set()
    await running
    assert (await worker.statuses())["n"] == "completed"
