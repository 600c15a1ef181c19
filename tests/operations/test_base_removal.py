"""The removal of a base: in batches that survive a failure on either side, and that no other base notices."""

from uuid import uuid4

import pytest

from gristmill import faults
from gristmill.catalog import Base
from gristmill.ingest import remove
from gristmill.jobs import JobId, retry, store
from gristmill.operations import bases
from gristmill.search import removal
from tests.operations.interleave import pause_at
from tests.operations.manual_worker import ManualWorker, note_to_add

NOTES = 3
RECEIPT = {"items": NOTES, "chunks": NOTES, "contents": NOTES, "blobs": 0}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each batch remove one row, and disarm all faults before each test."""
    monkeypatch.setattr(removal, "CHUNKS_PER_BATCH", 1)
    monkeypatch.setattr(removal, "SEGMENTS_PER_BATCH", 1)
    monkeypatch.setattr(remove, "BATCH", 1)
    monkeypatch.setattr(faults, "_armed", {})


async def fill(worker: ManualWorker, base: Base) -> None:
    """Index some notes with a segment each, and record a chunk as deleted."""
    for number in range(NOTES):
        await worker.add(base, note_to_add(f"n{number}", f"{base.name} rye {number}"))
        await worker.work()
    await worker.rows("insert into deleted_chunk (set_id, no) values (%s, 1) returning no", base.id)
    assert await rows_in_index(worker, base) == [NOTES, NOTES, 1]


async def rows_in_index(worker: ManualWorker, base: Base) -> list[int]:
    """The number of chunks, segments and deleted numbers of a base."""
    (counts,) = await worker.rows(
        "select (select count(*)::int from chunk c where c.set_id = b.id),"
        " (select count(*)::int from segment s where s.set_id = b.id),"
        " (select count(*)::int from deleted_chunk d where d.set_id = b.id) from (select %s::uuid as id) b",
        base.id,
    )
    return list(counts)


async def receipt(worker: ManualWorker, job_id: JobId) -> dict[str, int]:
    """What a finished removal counted."""
    return await worker.value("select result from job_history where id = %s and outcome = 'done'", job_id)


async def removal_events(worker: ManualWorker) -> list[dict[str, int]]:
    """The receipts of the events that announce a removal."""
    rows = await worker.rows(
        "select data from outbox where type = 'BaseRemoved' union all select data from event where type = 'BaseRemoved'"
    )
    return [row[0] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["remove.before_commit", "remove.batch"])
async def test_a_removal_that_fails_at_every_batch_goes_on_and_counts_everything_once(
    worker: ManualWorker, base: Base, point: str
) -> None:
    """S0-34, S1-19, S1-20: nothing of the base is visible meanwhile, and its removal is announced when all is gone."""
    neighbour = await worker.base("neighbour")
    await fill(worker, base)
    await fill(worker, neighbour)
    job_id = await bases.delete(worker.db, base.id)
    failures = 0
    faults.arm(f"{point}=fail@1")
    while not isinstance(await worker.step(), retry.Complete):
        failures += 1
        assert await worker.search_texts(base, "rye") == []
        assert await removal_events(worker) == []
        await worker.assert_healthy()
        assert await worker.reconcile() == {}
        await worker.make_due()
        faults.arm(f"{point}=fail@{failures + 1}")
    assert failures >= NOTES, "too few batches were interrupted"
    assert await receipt(worker, job_id) == RECEIPT
    assert await removal_events(worker) == [RECEIPT]
    assert await rows_in_index(worker, base) == [0, 0, 0]
    assert await rows_in_index(worker, neighbour) == [NOTES, NOTES, 1]
    assert len(await worker.search_texts(neighbour, "rye")) == NOTES


@pytest.mark.parametrize("batches_before", [0, NOTES, 2 * NOTES + 1, 3 * NOTES + 2])
async def test_a_worker_that_lost_its_lease_removes_nothing_more_of_a_base(
    worker: ManualWorker, second_worker: ManualWorker, base: Base, batches_before: int
) -> None:
    """S1-18, S1-19: among its chunks, segments or items, its successor removes the rest, and each row counts once."""
    await fill(worker, base)
    job_id = await bases.delete(worker.db, base.id)
    if batches_before:
        faults.arm(f"remove.batch=fail@{batches_before}")
        assert isinstance(await worker.step(), retry.Postpone)
        await worker.make_due()
    job = await worker.take("delete_base")
    async with pause_at("remove.batch", worker.run(job)) as late:
        async with worker.db.transaction() as tx:
            assert await store.unregister_worker(tx, worker.id) == 1
        await second_worker.work()
        assert await receipt(worker, job_id) == RECEIPT
    assert isinstance(await late, retry.Ignore)
    assert await receipt(worker, job_id) == RECEIPT
    assert await removal_events(worker) == [RECEIPT]
    assert await rows_in_index(worker, base) == [0, 0, 0]
    assert await worker.remaining_rows() == {}


async def test_other_bases_work_while_a_batch_of_a_removal_is_open(
    worker: ManualWorker, second_worker: ManualWorker, base: Base
) -> None:
    """Promise 6: no lock of a removal, nor of a creation, concerns another base; no table is created or dropped."""
    neighbour = await worker.base("neighbour")
    await fill(worker, base)
    await fill(worker, neighbour)
    tables = await worker.value("select array_agg(oid order by oid) from pg_class")
    await bases.delete(worker.db, base.id)
    job = await worker.take("delete_base")
    async with pause_at("remove.before_commit", worker.run(job)):
        created = await second_worker.base("created")
        await second_worker.add(created, note_to_add("n", "rye"))
        await second_worker.work()
        assert await second_worker.search_texts(created, "rye") == ["rye"]
        assert len(await second_worker.search_texts(neighbour, "rye")) == NOTES
        await bases.delete(worker.db, created.id)
        await second_worker.work()
        strong_locks = await worker.rows(
            "select relation::regclass::text, mode from pg_locks where relation is not null and database ="
            " (select oid from pg_database where datname = current_database())"
            " and mode not in ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')"
        )
        assert strong_locks == []
    assert await worker.value("select array_agg(oid order by oid) from pg_class") == tables
    assert await worker.rows("select name from base") == [("neighbour",)]


async def test_the_reconciler_deletes_chunks_of_a_base_that_is_gone(worker: ManualWorker, base: Base) -> None:
    """Promise 3: they would be of no use to anyone, and would never go away."""
    await fill(worker, base)
    await worker.rows("update chunk set set_id = %s where set_id = %s returning no", uuid4(), base.id)
    await worker.rows("delete from base where id = %s returning id", base.id)
    repairs = await worker.reconcile()
    assert repairs == {"versions": NOTES}
    assert await worker.remaining_rows() == {"contents": NOTES}
