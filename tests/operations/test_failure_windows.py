"""The seeds' failure windows, which one transaction closes: every injected failure leaves the state unchanged.

S0-26, S0-30, S0-41 and S0-46 say how to mend rows whose job could not be queued. Here rows and jobs commit together
(C3, C4), so there is nothing to mend; each point below is a place where those repairs would have been needed.
"""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from gristmill import faults
from gristmill.catalog import Base
from gristmill.jobs import retry
from gristmill.operations import add, bases, cancel, delete, queue
from gristmill.operations import retry as retrying
from tests.operations.manual_worker import (
    UNLIMITED,
    ManualWorker,
    folder_to_add,
    index_folder,
    note_to_add,
)

pytestmark = pytest.mark.slow

NO_JOBS = (
    "create function refuse() returns trigger language plpgsql as"
    " $$ begin raise exception 'no more jobs'; end $$;"
    " create trigger refuse before insert on job for each statement execute function refuse()"
)


@pytest.fixture(autouse=True)
def disarm_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disarm all faults before each test."""
    monkeypatch.setattr(faults, "_armed", {})


async def state(worker: ManualWorker) -> list[list[tuple[Any, ...]]]:
    """Everything that an operation may change, except the attempts and errors that record a failure."""
    return [
        await worker.rows(
            "select id, status, wanted_version, expanded_version, error_code from item order by 1"
        ),
        await worker.rows("select id, kind, subject from job order by 1"),
        await worker.rows("select id, status from base order by 1"),
        await worker.rows("select item_id, version, index from chunk order by 1, 2, 3"),
    ]


@pytest.mark.parametrize(
    ("operation", "points"),
    [
        ("add", ["add.rows_inserted", "schedule.before_enqueue", "add.before_commit"]),
        ("delete", ["delete.marked", "delete.before_commit"]),
        ("reindex", ["reindex.checked"]),
        ("delete base", ["delete_base.marked"]),
        ("recover", ["schedule.before_enqueue"]),
    ],
)
async def test_an_operation_that_fails_in_the_middle_leaves_no_change(
    worker: ManualWorker, base: Base, docs: Path, operation: str, points: list[str]
) -> None:
    """S0-24, S0-26, S0-30, S0-36."""
    items = await index_folder(worker, base, docs)
    await worker.rows(
        "update item set status = 'failed', error_code = 'interrupted' where title = 'a.md' returning id"
    )
    before = await state(worker)

    async def run_operation() -> None:
        match operation:
            case "add":
                await add.add(worker.db, base.id, [note_to_add("n"), folder_to_add(docs)], UNLIMITED)
            case "delete":
                await delete.delete(worker.db, base.id, [items["docs"].id])
            case "reindex":
                await worker.reindex(base, items["docs"].id)
            case "delete base":
                await bases.delete(worker.db, base.id)
            case _:
                await queue.recover(worker.db, base.id)

    for point in points:
        faults.arm(f"{point}=fail")
        with pytest.raises(faults.FaultInjected):
            await run_operation()
        assert await state(worker) == before, point


async def test_a_queue_that_takes_no_jobs_leaves_every_operation_undone(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-26, S0-30, S0-36: the caller sees the queue's own error; S0-49."""
    items = await index_folder(worker, base, docs)
    before = await state(worker)
    async with worker.db.connection() as tx:
        await tx.execute(NO_JOBS)
    many = [note_to_add(f"n{n}") for n in range(50)]  # so many go by COPY
    for asking in (
        add.add(worker.db, base.id, [note_to_add("n")], UNLIMITED),
        add.add(worker.db, base.id, many, UNLIMITED),
        delete.delete(worker.db, base.id, [items["docs"].id]),
        worker.reindex(base, items["docs"].id),
        bases.delete(worker.db, base.id),
    ):
        with pytest.raises(psycopg.errors.RaiseException, match="no more jobs"):
            await asking
        assert await state(worker) == before


async def test_a_rebuild_that_fails_to_queue_its_work_resets_nothing(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-41: no item is ever active without a job."""
    items = await index_folder(worker, base, docs)
    await worker.reindex(base, items["docs"].id)
    before = await state(worker)
    for point in ("rebuild.reset", "schedule.before_enqueue"):
        faults.arm(f"{point}=fail")
        job = await worker.take("reindex_subtree")
        assert isinstance(await worker.run(job), retry.Postpone)
        assert await state(worker) == before, point
        await worker.assert_healthy()
        await worker.make_due()
    await worker.work()
    assert set((await worker.statuses()).values()) == {"completed"}
    assert await worker.value("select min(wanted_version) from item where type = 'file'") == 2


@pytest.mark.parametrize("attempts", ["left", "none left"])
async def test_a_listing_that_fails_to_queue_its_children_files_none_of_that_batch(
    worker: ManualWorker, base: Base, docs: Path, attempts: str
) -> None:
    """S0-46: with attempts left it continues from there; without, the container has failed and nothing is stuck."""
    await worker.add(base, folder_to_add(docs))
    faults.arm("schedule.before_enqueue=fail")
    job = await worker.take("prepare_root")
    if attempts == "none left":
        job.attempt = job.max_attempts
    await worker.run(job)
    expected = "preparing" if attempts == "left" else "failed"
    assert await worker.statuses() == {"docs": expected}
    await worker.assert_healthy()
    if attempts == "left":
        await worker.make_due()
    else:
        await retrying.retry(worker.db, job.id)
    await worker.work()
    assert await worker.search_texts(base, "rye") == ["rye a", "rye b"]
    await worker.assert_healthy()


async def test_a_listing_that_fails_at_its_end_keeps_its_children_and_is_done_again(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-44, S0-46: the second attempt skips what the first one filed."""
    items = await index_folder(worker, base, docs)
    (docs / "a.md").unlink()
    await worker.reindex(base, items["docs"].id)
    await worker.step()
    faults.arm("expand.before_commit=fail")
    job = await worker.take("prepare_root")
    assert isinstance(await worker.run(job), retry.Postpone)
    assert (await worker.statuses())["a.md"] == "completed"
    await worker.assert_healthy()
    versions = await worker.rows("select title, wanted_version from item where title = 'deep'")
    await worker.make_due()
    await worker.work()
    assert await worker.rows("select title, wanted_version from item where title = 'deep'") == versions
    assert await worker.search_texts(base, "rye") == ["rye b"]
    await worker.assert_healthy()


async def test_a_removal_that_fails_between_batches_goes_on_from_there(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-33, S1-19: and its receipt counts everything once; S1-20."""
    items = await index_folder(worker, base, docs)
    deletion = await delete.delete(worker.db, base.id, [items["docs"].id])
    for point in ("remove.batch", "remove.names_found", "remove.bytes_gone"):
        faults.arm(f"{point}=fail")
        assert isinstance(await worker.step(), retry.Postpone)
        await worker.make_due()
        assert await worker.search_texts(base, "rye") == []
    await worker.work()
    receipt = await worker.value("select result from job_history where id = %s", deletion.job_id)
    assert receipt == {"items": 4, "chunks": 2, "contents": 2, "blobs": 0}
    assert await worker.remaining_rows() == {}


async def test_cancelling_a_listing_leaves_a_container_with_the_status_of_its_children(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-10, S4-49: failed as cancelled, once what it filed is done."""
    await worker.add(base, folder_to_add(docs))
    job = await worker.take("prepare_root")
    faults.arm("expand.filed=fail")
    await worker.run(job)
    await cancel.cancel(worker.db, job.id)
    assert (await worker.statuses())["docs"] == "processing"
    await worker.assert_healthy()
    await worker.work()
    row = await worker.rows("select status, error_code from item where title = 'docs'")
    assert row == [("failed", "cancelled")]
    await worker.assert_healthy()
