"""A listing files the subfolders that fit in its batches: no jobs of their own, and the same result as with them."""

import shutil
from pathlib import Path

import pytest

from gristmill import faults
from gristmill.catalog import Base
from gristmill.jobs import retry
from gristmill.operations import delete
from gristmill.sources import directory
from tests.operations.interleave import pause_at
from tests.operations.manual_worker import ManualWorker, folder_to_add, index_folder, items_by_title

pytestmark = pytest.mark.slow


@pytest.fixture
def tree(docs: Path) -> Path:
    """docs/{a.md, deep/{b.md, deeper/c.md}, empty/}."""
    (docs / "deep/deeper").mkdir()
    (docs / "deep/deeper/c.md").write_text("rye c")
    (docs / "empty").mkdir()
    return docs


async def living_kinds(worker: ManualWorker) -> list[str]:
    return [row[0] for row in await worker.rows("select kind from job order by 1")]


async def test_a_tree_is_listed_by_one_job(worker: ManualWorker, base: Base, tree: Path) -> None:
    """S0-45, S1-09, S4-32: in one transaction every folder is expanded, and every file has its job."""
    await worker.add(base, folder_to_add(tree))
    await worker.step()
    assert await worker.statuses() == {
        "docs": "processing", "deep": "processing", "deeper": "processing", "empty": "completed",
        "a.md": "processing", "b.md": "processing", "c.md": "processing",
    }  # fmt: skip
    assert await living_kinds(worker) == ["index_document"] * 3
    await worker.assert_healthy()
    await worker.work()
    assert set((await worker.statuses()).values()) == {"completed"}
    assert await worker.search_texts(base, "rye") == ["rye a", "rye b", "rye c"]
    await worker.assert_healthy()


async def test_what_was_filed_before_a_crash_is_not_filed_again(
    worker: ManualWorker, base: Base, tree: Path
) -> None:
    """S0-44, S0-46: the second attempt passes over the whole tree, also when files were added to it meanwhile below."""
    await worker.add(base, folder_to_add(tree))
    faults.arm("expand.filed=fail")
    assert isinstance(await worker.step(), retry.Postpone)
    await worker.assert_healthy()
    versions = await worker.rows("select id, title, wanted_version, expanded_version from item order by 1")
    assert len(versions) == 7
    await worker.make_due()
    await worker.work()
    again = await worker.rows("select id, title, wanted_version, expanded_version from item order by 1")
    assert [row[:3] for row in again] == [row[:3] for row in versions]
    assert set((await worker.statuses()).values()) == {"completed"}
    assert await worker.rows("select count(*) from job_history where kind = 'index_document'") == [(3,)]
    await worker.assert_healthy()


async def test_a_crash_before_the_commit_files_nothing(worker: ManualWorker, base: Base, tree: Path) -> None:
    """S0-46: folders, their expansion and their jobs are one transaction."""
    await worker.add(base, folder_to_add(tree))
    faults.arm("schedule.before_enqueue=fail")
    assert isinstance(await worker.step(), retry.Postpone)
    assert await worker.statuses() == {"docs": "preparing"}
    await worker.assert_healthy()
    await worker.make_due()
    await worker.work()
    assert await worker.search_texts(base, "rye") == ["rye a", "rye b", "rye c"]


async def test_a_tree_that_changed_is_listed_again_by_one_job(
    worker: ManualWorker, base: Base, tree: Path
) -> None:
    """S0-38, S0-44: what is new at any depth is filed, what is gone is deleted, what is the same stays."""
    items = await index_folder(worker, base, tree)
    (tree / "deep/b.md").unlink()
    (tree / "deep/deeper/d.md").write_text("rye d")
    shutil.rmtree(tree / "empty")
    (tree / "new/below").mkdir(parents=True)
    (tree / "new/below/e.md").write_text("rye e")
    await worker.reindex(base, items["docs"].id)
    await worker.step()
    await worker.step()
    assert "prepare_root" not in await living_kinds(worker)
    await worker.assert_healthy()
    await worker.work()
    assert await worker.search_texts(base, "rye") == ["rye a", "rye c", "rye d", "rye e"]
    assert set(await items_by_title(worker, base)) == {
        "docs", "a.md", "deep", "deeper", "c.md", "d.md", "new", "below", "e.md",
    }  # fmt: skip
    assert set((await worker.statuses()).values()) == {"completed"}
    await worker.assert_healthy()


async def test_a_folder_that_does_not_fit_is_listed_by_its_own_job(
    worker: ManualWorker, base: Base, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1-09: and that job lists the rest of the tree below it."""
    monkeypatch.setattr(directory, "TREE_BATCH", 3)
    await worker.add(base, folder_to_add(tree))
    await worker.step()
    assert await living_kinds(worker) == ["index_document", "index_document", "prepare_root"]
    await worker.assert_healthy()
    await worker.work()
    assert await worker.search_texts(base, "rye") == ["rye a", "rye b", "rye c"]
    assert await worker.rows("select count(*) from job_history where kind = 'prepare_root'") == [(2,)]


async def test_an_older_listing_of_a_subfolder_loses_to_the_tree_that_contains_it(
    worker: ManualWorker, second_worker: ManualWorker, base: Base, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 5: two workers; the subfolder's own job was claimed before the folder above was listed again."""
    with monkeypatch.context() as patched:
        patched.setattr(directory, "TREE_BATCH", 0)
        await worker.add(base, folder_to_add(tree))
        await worker.step()
        jobs = [job for job in await worker.claim(5) if job.kind == "prepare_root"]
    deep = (await items_by_title(worker, base))["deep"].id
    (job,) = [job for job in jobs if job.subject == deep]
    async with pause_at("expand.listed", worker.run(job)):
        await second_worker.add(base, folder_to_add(tree), on_conflict="replace")
        await second_worker.run(await second_worker.take("prepare_root"))
        versions = await worker.rows("select title, wanted_version, listed_version from item order by 1")
    assert await worker.rows("select title, wanted_version, listed_version from item order by 1") == versions
    await second_worker.work()
    assert await worker.search_texts(base, "rye") == ["rye a", "rye b", "rye c"]


@pytest.mark.parametrize("point", ["expand.listed", "expand.filed"])
async def test_a_subfolder_deleted_while_the_tree_is_listed_is_gone(
    worker: ManualWorker, second_worker: ManualWorker, base: Base, tree: Path, point: str
) -> None:
    """S0-43, promise 3: nothing of the deleted rows comes back; a listing after the deletion may find the folder again."""
    items = await index_folder(worker, base, tree)
    await worker.reindex(base, items["docs"].id)
    await worker.step()
    job = await worker.take("prepare_root")
    async with pause_at(point, worker.run(job)):
        await delete.delete(second_worker.db, base.id, [items["deep"].id])
    await worker.work()
    remaining = {row[0] for row in await worker.rows("select id from item")}
    assert not remaining & {items[title].id for title in ("deep", "b.md", "deeper", "c.md")}
    await worker.assert_healthy()
