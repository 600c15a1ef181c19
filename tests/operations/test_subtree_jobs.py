"""What the jobs behind the operations do: rebuild, list, remove; and which state they find and leave."""

import asyncio
from pathlib import Path

import pytest

from gristmill import contents
from gristmill.catalog import Base
from gristmill.db import Tx
from gristmill.errors import Conflict, SourceGone
from gristmill.jobs import retry
from gristmill.operations import bases, delete, reindex
from gristmill.sources import Original, directory
from tests.operations.manual_worker import (
    ManualWorker,
    folder_to_add,
    index_folder,
    items_by_title,
    note_to_add,
)

pytestmark = pytest.mark.slow


async def test_a_reindex_makes_its_roots_and_their_ancestors_active(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-10, S0-38, S0-41: searchable versions stay searchable meanwhile (C5b)."""
    items = await index_folder(worker, base, docs)
    await worker.reindex(base, items["b.md"].id)
    await worker.step()
    assert await worker.statuses() == {
        "docs": "processing", "deep": "processing", "b.md": "processing", "a.md": "completed",
    }  # fmt: skip
    assert await worker.search_texts(base, "rye") == ["rye a", "rye b"]
    await worker.work()
    assert set((await worker.statuses()).values()) == {"completed"}
    await worker.assert_healthy()


async def test_items_that_users_added_below_a_container_are_reindexed_with_it(
    worker: ManualWorker, base: Base, docs: Path, tmp_path: Path
) -> None:
    """S0-38: notes and folders, which no listing of the container's source returns."""
    items = await index_folder(worker, base, docs)
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "c.md").write_text("rye c")
    await worker.add(base, folder_to_add(beside), note_to_add("n", "rye n"), parent_id=items["docs"].id)
    await worker.work()
    (beside / "c.md").write_text("rye new")
    before = {title: item.wanted_version for title, item in (await items_by_title(worker, base)).items()}
    await worker.reindex(base, items["docs"].id)
    await worker.work()
    after = {title: item.wanted_version for title, item in (await items_by_title(worker, base)).items()}
    assert after == {title: version + 1 for title, version in before.items()}
    assert await worker.search_texts(base, "rye") == ["rye a", "rye b", "rye n", "rye new"]
    await worker.assert_healthy()


@pytest.mark.parametrize("how", ["missing", "deleting"])
async def test_a_listing_skips_a_root_that_is_missing_or_being_deleted(
    worker: ManualWorker, base: Base, docs: Path, how: str
) -> None:
    """S0-43: no child, no state, no error."""
    (root,) = await worker.add(base, folder_to_add(docs))
    job = await worker.take("prepare_root")
    if how == "deleting":
        await delete.delete(worker.db, base.id, [root.id])
    else:
        await worker.rows("delete from item returning id")
    assert isinstance(await worker.run(job), retry.Complete)
    assert await worker.statuses() == ({"docs": "deleting"} if how == "deleting" else {})


async def test_a_listing_removes_what_the_source_no_longer_has_except_what_is_being_deleted(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """S0-44: rows, chunks and contents of the one; the other has its own deletion."""
    items = await index_folder(worker, base, docs)
    (docs / "a.md").unlink()
    (docs / "deep/b.md").unlink()
    (docs / "deep").rmdir()
    await worker.reindex(base, items["docs"].id)
    await worker.step()
    listing = await worker.take("prepare_root")
    own = await delete.delete(worker.db, base.id, [items["a.md"].id])
    await worker.run(listing)
    deletions = await worker.rows("select id, payload -> 'root_ids' from job order by id")
    assert deletions == [(own.job_id, [str(items["a.md"].id)]), (deletions[1][0], [str(items["deep"].id)])]
    assert await worker.statuses() == {
        "docs": "completed", "a.md": "deleting", "deep": "deleting", "b.md": "deleting",
    }  # fmt: skip
    await worker.work()
    assert await worker.remaining_rows() == {"items": 1}


async def test_a_listing_makes_its_root_processing_and_large_child_containers_are_listed_in_turn(
    worker: ManualWorker, base: Base, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-45, S1-09; S1-10, S4-32."""
    monkeypatch.setattr(directory, "TREE_BATCH", 0)
    await worker.add(base, folder_to_add(docs))
    await worker.step()
    assert await worker.statuses() == {"docs": "processing", "deep": "preparing", "a.md": "processing"}
    assert sorted(await worker.rows("select kind from job")) == [("index_document",), ("prepare_root",)]


async def test_cleanup_that_fails_stays_hidden_and_is_tried_until_it_is_done(
    worker: ManualWorker, base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-33, S0-35: never failed, never visible; the job's error says what is wrong."""
    (item,) = await worker.add(base, note_to_add("n", "rye"))
    await worker.work()
    deletion = await delete.delete(worker.db, base.id, [item.id])

    async def broken(_tx: Tx, _ids: object) -> None:
        raise Conflict("The store is on fire.")

    with monkeypatch.context() as patch:
        patch.setattr(contents, "remove_items", broken)
        for attempt in range(1, 8):
            job = await worker.take("delete_subtree")
            assert isinstance(await worker.run(job), retry.Postpone)
            assert job.attempt == attempt
            assert await worker.statuses() == {"n": "deleting"}
            assert await worker.search_texts(base, "rye") == []
            await worker.make_due()
    assert await worker.value("select errors -> 0 ->> 'message' from job") == "The store is on fire."
    await worker.work()
    assert await worker.remaining_rows() == {}
    assert await worker.value("select outcome from job_history where id = %s", deletion.job_id) == "done"


async def test_a_base_that_is_deleted_takes_over_the_deletions_in_it(
    worker: ManualWorker, base: Base
) -> None:
    """S0-34: what waits is cancelled; the base's own job does all."""
    (item,) = await worker.add(base, note_to_add("n", "rye"))
    await worker.work()
    deletion = await delete.delete(worker.db, base.id, [item.id])
    job_id = await bases.delete(worker.db, base.id)
    assert await worker.rows("select id from job") == [(job_id,)]
    assert await worker.value("select outcome from job_history where id = %s", deletion.job_id) == "cancelled"
    await worker.assert_healthy()
    await worker.work()
    assert await worker.remaining_rows() == {}


async def test_a_rebuild_that_waits_for_what_is_active_comes_back_later(
    worker: ManualWorker, base: Base
) -> None:
    """C5, S0-40: it never cancels what runs."""
    (item,) = await worker.add(base, note_to_add("n"))
    indexing = await worker.take("index_document")
    await worker.reindex(base, item.id, on_active="after")
    waiting = await worker.take("reindex_subtree")
    assert isinstance(await worker.run(waiting), retry.Postpone)
    assert await worker.value("select cancelling from job where id = %s", indexing.id) is False
    await worker.run(indexing)
    assert await worker.statuses() == {"n": "completed"}
    assert await worker.value("select state from job") == "delayed"


async def test_a_rebuild_waits_for_the_deletion_of_something_below(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """C5: a folder is re-indexed although one of its files has just vanished; nothing is skipped silently."""
    items = await index_folder(worker, base, docs)
    await delete.delete(worker.db, base.id, [items["b.md"].id])
    deletion = await worker.take("delete_subtree")
    (docs / "a.md").write_text("rye new")
    await worker.reindex(base, items["docs"].id, on_active="after")
    waiting = await worker.take("reindex_subtree")
    assert isinstance(await worker.run(waiting), retry.Postpone)
    await worker.run(deletion)
    await worker.make_due()
    await worker.work()
    assert "rye new" in await worker.search_texts(base, "rye")
    await worker.assert_healthy()


class ConcurrentSources:
    """Sources that count how many of them are probed at the same time."""

    def __init__(self, waits_for: int) -> None:
        self.barrier, self.active, self.peak = asyncio.Barrier(waits_for), 0, 0

    async def probe(self) -> int:
        self.active += 1
        self.peak = max(self.peak, self.active)
        try:
            async with asyncio.timeout(60):
                await self.barrier.wait()
        finally:
            self.active -= 1
        raise SourceGone("It is not there.")

    async def read(self) -> Original:
        raise NotImplementedError


async def test_many_sources_are_probed_concurrently_up_to_a_limit(worker: ManualWorker, base: Base) -> None:
    """C5b: one slow site does not make the others wait, and no site is flooded."""
    items = await worker.add(base, *(note_to_add(f"n{number}") for number in range(48)))
    await worker.work()
    crowd = ConcurrentSources(16)
    result = await reindex.reindex(
        worker.db, base.id, [item.id for item in items], {item.id: crowd for item in items}, "reject"
    )
    assert (result.root_ids, list(result.refused)) == ([], [item.id for item in items])
    assert crowd.peak == 16
