"""The reconciler: one pass repairs planted damage and does not touch active work."""

import asyncio
import random
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base
from gristmill.errors import SetupError
from gristmill.identity import LOCAL_ORG
from gristmill.integrity import reconcile
from gristmill.integrity.reconcile import DAMAGE, Reconciler
from gristmill.jobs import schedule
from gristmill.operations import bases, cancel, delete, uploads
from tests.database_clock import DatabaseClock
from tests.embedding.hashed import HashedEmbedder
from tests.operations.interleave import start_blocked
from tests.operations.manual_worker import (
    ManualWorker,
    byte_stream,
    folder_to_add,
    index_folder,
    items_by_title,
    note_to_add,
)

pytestmark = pytest.mark.slow


async def reconciler_events(worker: ManualWorker) -> list[events.RecordedEvent]:
    """The events in which the reconciler reports its repairs."""
    await events.sequence_all(worker.db)
    async with worker.db.connection() as tx:
        return await events.read(tx, LOCAL_ORG, after=0, limit=10_000, types=["Reconciled"])


async def test_a_healthy_system_gives_the_reconciler_nothing_to_repair(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S3-06, S3-12 and S3-13 as decided in C16: a safety net that is not needed."""
    await worker.add(base, note_to_add("rye"), folder_to_add(docs))
    while jobs_ := await worker.claim():
        assert await worker.reconcile() == {}
        await worker.run(jobs_[0])
    items = await items_by_title(worker, base)
    await delete.delete(worker.db, base.id, [items["deep"].id])
    await worker.reindex(base, items["rye"].id)
    assert await worker.reconcile() == {}
    await worker.work()
    await bases.delete(worker.db, base.id)
    assert await worker.reconcile() == {}
    await worker.work()
    assert await worker.reconcile() == {}
    assert await reconciler_events(worker) == []


async def test_deleted_jobs_are_restored_by_one_pass(worker: ManualWorker, base: Base, docs: Path) -> None:
    """Leaves, a folder that is not listed, one that is half listed, a deletion, a base's deletion; S3-06, S3-12, S3-13."""
    items = await index_folder(worker, base, docs)
    deleted_base = await bases.create(worker.db, "gone", HashedEmbedder(), {})
    await bases.delete(worker.db, deleted_base.id)
    await delete.delete(worker.db, base.id, [items["deep"].id])
    await worker.add(base, note_to_add("rye"), folder_to_add(docs.parent))
    await worker.rows("delete from job returning id")
    assert await worker.reconcile() == {"items": 2, "deletions": 2}
    assert await worker.reconcile() == {}, "what is repaired is well"
    await worker.work()
    await worker.assert_healthy()
    assert set((await worker.statuses()).values()) == {"completed"}
    (event,) = [event for event in await reconciler_events(worker) if event.data["items"]]
    assert (event.base_id, event.data["items"], event.data["deletions"]) == (base.id, 2, 1)
    assert await worker.rows("select id from base where status = 'deleting'") == []


async def test_a_folder_that_lost_its_job_in_the_middle_is_listed_to_its_end(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """Its first children are active: they don't hide that no job lists the rest."""
    await worker.add(base, folder_to_add(docs))
    listing = await worker.take("prepare_root")
    with faults.watch("expand.filed", hold=True) as fault:
        running = asyncio.create_task(worker.run(listing))
        await fault.passed.wait()
        await worker.rows("delete from job where id = %s returning id", listing.id)
        fault.hold.set()
        await running
    assert (await worker.statuses())["docs"] == "processing"
    assert await worker.reconcile() == {"items": 1}
    await worker.work()
    assert set((await worker.statuses()).values()) == {"completed"}


async def test_a_container_with_a_wrong_status_is_derived_again(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    await index_folder(worker, base, docs)
    await worker.rows("update item set status = 'processing' where title = 'deep' returning id")
    assert await worker.reconcile() == {"containers": 2}, "the one above it was not as it is either"
    await worker.rows("update item set status = 'failed' where title = 'docs' returning id")
    assert await worker.reconcile() == {"containers": 1}
    assert set((await worker.statuses()).values()) == {"completed"}


async def test_a_base_that_was_not_announced_is(worker: ManualWorker, base: Base) -> None:
    await worker.add(base, note_to_add("rye"))
    await worker.work()
    await worker.rows("update base set ingested = false returning id")
    assert await worker.reconcile() == {"announced": 1}
    await events.sequence_all(worker.db)
    async with worker.db.connection() as tx:
        ready = await events.read(
            tx, LOCAL_ORG, after=0, limit=100, types=["KnowledgeSpaceAllDocumentsIngested"]
        )
    assert len(ready) == 2


async def test_chunks_of_a_version_that_never_came_are_removed(worker: ManualWorker, base: Base) -> None:
    """Searchable chunks stay, and so do those that are being written."""
    await worker.add(base, note_to_add("rye"), note_to_add("oats"))
    await worker.work()
    await worker.rows(
        'insert into chunk (set_id, item_id, version, index, text, start, "end", embedding)'
        " select c.set_id, i, 7, 0, 'rye', 0, 1, c.embedding"
        " from chunk c, unnest(array[c.item_id, gen_random_uuid()]) i where c.text = 'rye text' returning 1"
    )
    await worker.add(base, note_to_add("barley"))
    job = await worker.take("index_document")
    with faults.watch("index.batch_written", hold=True) as fault:
        running = asyncio.create_task(worker.run(job))
        await fault.passed.wait()
        assert await worker.reconcile() == {"versions": 2}
        fault.hold.set()
        await running
    assert await worker.search_texts(base, "rye oats barley text") == ["barley text", "oats text", "rye text"]
    assert await worker.value("select count(*) from chunk") == 3


async def test_a_cancel_leaves_no_chunks_of_the_version_that_will_not_come(
    worker: ManualWorker, base: Base
) -> None:
    await worker.add(base, note_to_add("rye"))
    await worker.work()
    await bases.patch(worker.db, base.id, chunking={"maxTokens": 32})
    long = "\n\n".join(f"oats {number} " * 12 for number in range(200))
    await worker.add(base, note_to_add("rye", long), on_conflict="replace")
    job = await worker.take("index_document")
    with faults.watch("index.batch_written", hold=True) as fault:
        running = asyncio.create_task(worker.run(job))
        await fault.passed.wait()
        assert await worker.value("select count(*) from chunk") > 1
        await cancel.cancel(worker.db, job.id)
        fault.hold.set()
        await running
    assert await worker.value("select count(*) from chunk") == 1
    assert await worker.reconcile() == {}
    assert await worker.search_texts(base, "rye") == ["rye text"]


async def test_the_progress_of_what_ended_is_forgotten_after_a_while(
    worker: ManualWorker, base: Base, clock: DatabaseClock
) -> None:
    """S4-64: not at once, and never that of what is being worked on."""
    await worker.add(base, note_to_add("done"))
    await worker.work()
    await worker.add(base, note_to_add("waits"))
    await worker.rows(
        "insert into progress (item_id, version, percent) select id, 1, 50 from item"
        " on conflict (item_id) do update set updated_at = excluded.updated_at returning item_id"
    )
    await worker.reconcile()
    assert await worker.value("select count(*) from progress") == 2
    await clock.advance(timedelta(minutes=6))
    await worker.reconcile()
    assert await worker.rows("select i.title from progress p join item i on i.id = p.item_id") == [("waits",)]


async def test_unused_rows_are_collected_after_a_while_and_count_as_no_damage(
    worker: ManualWorker, base: Base, clock: DatabaseClock
) -> None:
    blob = await uploads.store_upload(worker.db, worker.originals.blobs, lambda: byte_stream(b"rye"))
    await worker.rows("insert into content (hash) values ('\\\\x00') returning hash")
    reconciler = Reconciler(worker.db, worker.originals.blobs, timedelta(days=30))
    await worker.rows("update outbox set at = clock_now() returning n")
    await events.sequence_all(worker.db)
    assert sum((await reconciler.run_pass()).values()) == 0
    await clock.advance(timedelta(days=31))
    repairs = await reconciler.run_pass()
    assert {name: number for name, number in repairs.items() if number} == {
        "blobs": 1,
        "contents": 1,
        "events": 1,
    }
    assert not await worker.originals.blobs.exists(blob.name)
    assert await worker.value("select count(*) from content") == 0
    assert sum((await reconciler.run_pass()).values()) == 0


async def test_an_item_whose_job_is_just_being_queued_is_not_touched(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """It looks under the base's lock: it waits for transactions that file items."""
    await worker.add(base, note_to_add("lost"))
    await worker.rows("delete from job returning id")
    async with worker.db.transaction() as filing:
        await catalog.lock_base(filing, base.id)
        looking = await start_blocked(worker, worker.reconcile())
        (item,) = await catalog.insert_items(filing, base.id, None, [note_to_add("new").item], cause=uuid4())
        await reconcile.enqueue_next_jobs(filing, base, [item], jobs.Priority.NORMAL)
    assert await looking == {"items": 1}
    assert await worker.value("select count(*) from job") == 2
    await worker.work()
    assert set((await worker.statuses()).values()) == {"completed"}


async def test_concurrent_passes_and_workers_repair_everything_once(
    worker: ManualWorker, second_worker: ManualWorker, base: Base
) -> None:
    """Five percent of the jobs are deleted, again and again, while two workers run: one pass repairs everything."""
    chance = random.Random(5)
    await worker.add(base, *(note_to_add(f"n{number}") for number in range(120)))
    for _ in range(6):
        first_jobs, second_jobs = await worker.claim(5), await second_worker.claim(5)
        await asyncio.gather(
            *(worker.run(job) for job in first_jobs), *(second_worker.run(job) for job in second_jobs)
        )
        rows = [row[0] for row in await worker.rows("select id from job")]
        deleted_jobs = chance.sample(rows, max(1, len(rows) // 20))
        await worker.rows("delete from job where id = any (%s) returning id", deleted_jobs)
    passes = await asyncio.gather(worker.reconcile(), second_worker.reconcile())
    assert sum(repairs.get("items", 0) for repairs in passes) > 0
    await asyncio.gather(worker.work(), second_worker.work())
    assert set((await worker.statuses()).values()) == {"completed"}
    await worker.assert_healthy()
    assert await worker.reconcile() == {}
    await events.sequence_all(worker.db)
    async with worker.db.connection() as tx:
        completions = await events.read(
            tx, LOCAL_ORG, after=0, limit=10_000, types=["DocumentIngestionCompleted"]
        )
        ready = await events.read(
            tx, LOCAL_ORG, after=0, limit=100, types=["KnowledgeSpaceAllDocumentsIngested"]
        )
    assert len(completions) == len({event.subject for event in completions}) == 120
    assert [event.data for event in ready] == [{"completed": 120, "failed": 0}]


async def test_an_interrupted_pass_is_atomic_and_the_next_one_does_the_rest(
    worker: ManualWorker, base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "_armed", {})
    monkeypatch.setattr(reconcile, "BATCH_SIZE", 2)
    await worker.add(base, *(note_to_add(f"n{number}") for number in range(5)))
    await worker.rows("delete from job returning id")
    faults.arm("reconcile.before_commit=fail@2")
    with pytest.raises(faults.FaultInjected):
        await worker.reconcile()
    assert await worker.value("select count(*) from job") == 2
    assert await worker.reconcile() == {"items": 3}
    await worker.work()
    assert set((await worker.statuses()).values()) == {"completed"}


async def test_passes_are_scheduled_and_their_result_reports_the_repairs(
    worker: ManualWorker, base: Base, clock: DatabaseClock
) -> None:
    """Of its passes one an hour is thorough."""
    async with worker.db.transaction() as tx:
        await jobs.put_schedules(tx, reconcile.reconcile_schedule("*/5 * * * *"))
    thorough: list[bool] = []
    for _ in range(13):
        await clock.advance(timedelta(minutes=5))
        await worker.enrol()
        async with worker.db.connection() as tx:
            assert await schedule.fire_due(tx) == 1
        await worker.work()
    rows = await worker.rows("select result from job_history where kind = 'reconcile' order by finished_at")
    thorough = [row[0]["thorough"] for row in rows]
    assert thorough == [True, *[False] * 11, True]
    assert set(rows[0][0]) == {"thorough", *DAMAGE, *reconcile.UNUSED}


async def test_a_pass_can_be_requested(worker: ManualWorker, base: Base) -> None:
    job_id = await reconcile.enqueue_thorough_pass(worker.db)
    assert await reconcile.enqueue_thorough_pass(worker.db) == job_id
    await worker.work()
    assert await worker.value("select result ->> 'thorough' from job_history where id = %s", job_id) == "true"


def test_a_time_that_never_comes_stops_the_start() -> None:
    with pytest.raises(SetupError) as caught:
        reconcile.reconcile_schedule("every day")
    assert caught.value.code == "bad_setting"


async def test_a_webhook_without_a_job_is_woken(worker: ManualWorker, base: Base) -> None:
    async with worker.db.connection() as tx:
        await tx.execute(
            "insert into webhook (url, secret, cursor) values ('http://localhost', '', 0),"
            " ('http://localhost/2', '', 100)"
        )
    await events.sequence_all(worker.db)
    assert await worker.value("select count(*) from job") == 2
    await worker.rows("delete from job returning id")
    assert await worker.reconcile() == {"webhooks": 1}, "the other has all behind it"
    assert await worker.value("select count(*) from job where kind = 'deliver_events'") == 1
    assert await worker.reconcile() == {}
