"""What deletions, rebuilds and replacements leave behind: nothing."""

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from gristmill import faults
from gristmill.catalog import Base
from gristmill.ingest import remove
from gristmill.integrity import invariants
from gristmill.jobs import retry
from gristmill.operations import bases, delete
from gristmill.operations.uploads import collect_garbage, store_upload
from gristmill.settings import Settings
from tests.database_clock import DatabaseClock
from tests.operations.manual_worker import (
    ManualWorker,
    byte_stream,
    file_to_add,
    folder_to_add,
    note_to_add,
    upload_to_add,
)


async def store_bytes(worker: ManualWorker, data: bytes) -> tuple[bytes, int]:
    blob = await store_upload(worker.db, worker.originals.blobs, lambda: byte_stream(data))
    return blob.hash, blob.size


async def test_the_receipt_of_a_deletion_counts_what_was_removed(
    worker: ManualWorker, base: Base, tmp_path: Path
) -> None:
    """S1-12: items, chunks, contents and blobs; S0-12."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text("rye")
    (root,) = await worker.add(base, folder_to_add(tmp_path / "docs"))
    await worker.add(base, upload_to_add("b.md", *await store_bytes(worker, b"oats")), parent_id=root.id)
    await worker.work()
    deletion = await delete.delete(worker.db, base.id, [root.id])
    await worker.work()
    receipt = await worker.value("select result from job_history where id = %s", deletion.job_id)
    assert receipt == {"items": 3, "chunks": 2, "contents": 2, "blobs": 1}
    assert await worker.remaining_rows() == {}


async def test_a_tree_larger_than_a_batch_is_removed_from_its_leaves_up(
    worker: ManualWorker, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 3: no parent goes before its children, which would go with it and leave their contents; S0-13."""
    monkeypatch.setattr(remove, "BATCH", 3)
    for name in ("x", "x/y", "x/y/z", "w"):
        (tmp_path / "top" / name).mkdir(parents=True)
        for number in range(4):
            (tmp_path / "top" / name / f"{number}.md").write_text(f"{name} {number}")
    (root,) = await worker.add(base, folder_to_add(tmp_path / "top"))
    await worker.work()
    deletion = await delete.delete(worker.db, base.id, [root.id])
    await worker.work()
    receipt = await worker.value("select result from job_history where id = %s", deletion.job_id)
    assert receipt == {"items": 21, "chunks": 16, "contents": 16, "blobs": 0}
    assert await worker.remaining_rows() == {}


async def test_a_base_leaves_no_content_and_no_blob_of_its_trees(
    worker: ManualWorker, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 3, S0-34; S0-13."""
    monkeypatch.setattr(remove, "BATCH", 3)
    (tmp_path / "docs/deep").mkdir(parents=True)
    for number in range(5):
        (tmp_path / "docs/deep" / f"{number}.md").write_text(f"grain {number}")
    (root,) = await worker.add(base, folder_to_add(tmp_path / "docs"))
    await worker.add(base, upload_to_add("b.md", *await store_bytes(worker, b"oats")), parent_id=root.id)
    await worker.work()
    job_id = await bases.delete(worker.db, base.id)
    await worker.work()
    receipt = await worker.value("select result from job_history where id = %s", job_id)
    assert receipt == {"items": 8, "chunks": 6, "contents": 6, "blobs": 1}
    assert await worker.remaining_rows() == {}
    assert [blob async for blob in worker.originals.blobs.list()] == []
    assert await worker.value("select count(*) from lane") == 0


async def test_a_rebuild_forgets_the_content_of_the_version_before(
    worker: ManualWorker, base: Base, tmp_path: Path
) -> None:
    """Promise 3: a text that is no longer searchable is not kept."""
    path = tmp_path / "a.md"
    path.write_text("old rye")
    (item,) = await worker.add(base, file_to_add(path))
    await worker.work()
    path.write_text("new rye")
    await worker.reindex(base, item.id)
    await worker.work()
    assert await worker.search_texts(base, "rye") == ["new rye"]
    assert await worker.rows("select text from content_part") == [("new rye",)]
    assert await worker.remaining_rows() == {"items": 1, "versions": 1, "chunks": 1, "contents": 1}


async def test_a_content_that_another_item_uses_outlives_a_rebuild(
    worker: ManualWorker, base: Base, tmp_path: Path
) -> None:
    path = tmp_path / "a.md"
    path.write_text("same rye")
    item, _ = await worker.add(base, file_to_add(path), note_to_add("n", "same rye"))
    await worker.work()
    path.write_text("new rye")
    await worker.reindex(base, item.id)
    await worker.work()
    assert await worker.search_texts(base, "rye") == ["new rye", "same rye"]
    assert await worker.value("select count(*) from content") == 2
    await worker.assert_healthy()


async def test_a_deleted_item_takes_its_dead_jobs_with_it(
    worker: ManualWorker, base: Base, tmp_path: Path
) -> None:
    """No job is left."""
    path = tmp_path / "a.md"
    path.write_bytes(b"\0")
    (item,) = await worker.add(base, file_to_add(path))
    assert isinstance(await worker.step(), retry.Bury)
    assert await worker.remaining_rows() == {"items": 1, "jobs": 1}
    await delete.delete(worker.db, base.id, [item.id])
    await worker.work()
    assert await worker.remaining_rows() == {}


async def test_a_failed_attempt_leaves_no_chunks_of_what_it_did_not_finish(
    worker: ManualWorker, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4-48: what the version before has stays."""
    path = tmp_path / "a.md"
    path.write_text("old rye")
    (item,) = await worker.add(base, file_to_add(path))
    await worker.work()
    path.write_text("\n\n".join(f"new rye {number} " + "oats " * 200 for number in range(300)))
    await worker.reindex(base, item.id)
    await worker.step()
    (job,) = await worker.claim()
    monkeypatch.setattr(faults, "_armed", {})
    faults.arm("index.batch_written=fail")
    assert isinstance(await worker.run(job), retry.Postpone)
    assert await worker.rows("select distinct version from chunk order by 1") == [(1,), (2,)]
    await worker.make_due()
    (job,) = await worker.claim()
    job.attempt = job.max_attempts
    faults.arm("index.embedded=fail")
    assert isinstance(await worker.run(job), retry.Bury)
    assert await worker.rows("select version, text from chunk") == [(1, "old rye")]
    assert await worker.search_texts(base, "rye") == ["old rye"]
    await worker.assert_healthy()


async def test_a_start_removes_abandoned_temporary_files(worker: ManualWorker, settings: Settings) -> None:
    """A killed upload leaves one; a file that is still being written stays."""
    folder_of_temporaries = settings.data_dir / "blobs/tmp"
    for name, age in (("old", 2), ("young", 0)):
        path = folder_of_temporaries / name
        path.write_bytes(b"rye")
        modified_at = time.time() - 3600 * age
        os.utime(path, (modified_at, modified_at))
    await collect_garbage(worker.db, worker.originals.blobs)
    assert [path.name for path in folder_of_temporaries.iterdir()] == ["young"]


async def test_bytes_that_should_have_been_removed_violate_an_invariant(
    worker: ManualWorker, clock: DatabaseClock, base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 3: also when a removal was never finished."""
    (item,) = await worker.add(base, upload_to_add("b.md", *await store_bytes(worker, b"oats")))
    await worker.work()
    await delete.delete(worker.db, base.id, [item.id])
    monkeypatch.setattr(faults, "_armed", {})
    faults.arm("remove.names_found=fail")
    await worker.step()
    await worker.assert_healthy()
    await clock.advance(timedelta(hours=2))
    async with worker.db.connection() as tx:
        assert [violation.promise for violation in await invariants.find_violations(tx)] == [
            "nothing_comes_back"
        ]
    await worker.make_due()
    await worker.work()
    await worker.assert_healthy()
