"""What can't be seen of a folder is not gone: files that can't be read, folders that are away, disks that are not mounted."""

import shutil
from pathlib import Path

import pytest

from gristmill import jobs
from gristmill.catalog import Base
from gristmill.jobs import NewJob
from gristmill.operations import freshness, guards
from gristmill.work import RefreshContainer
from tests.ingest.refresh.folder_checks import compare, write
from tests.operations.manual_worker import ManualWorker, index_folder

pytestmark = pytest.mark.usefixtures("ends_healthy")


async def test_a_folder_that_is_gone_or_not_mounted_keeps_its_items(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    items = await index_folder(worker, base, docs)
    async with worker.db.transaction() as tx:
        locked = await guards.lock_base(tx, base.id)
        await freshness.set_item_rule(tx, locked, items["docs"], {"every": "1d"})
    elsewhere = docs.with_name("elsewhere")
    shutil.move(docs, elsewhere)
    await compare(worker, base, items["docs"])
    assert await worker.value("select error_code from item_refresh") == "source_gone"
    assert await worker.value("select next_at < clock_now() + interval '10 minutes' from item_refresh")
    write(docs / ".hidden", "not listed")
    await worker.rows(
        "update item set fingerprint = '0' || fingerprint where fingerprint is not null returning id"
    )
    await compare(worker, base, items["docs"])
    assert await worker.value("select error_code from item_refresh") == "folder_not_mounted"
    assert len(await worker.search_texts(base, "rye")) == 2
    shutil.rmtree(docs)
    shutil.move(elsewhere, docs)
    await compare(worker, base, items["docs"])
    assert await worker.value("select error_code from item_refresh") is None


async def test_files_of_a_disk_that_is_not_mounted_are_not_removed(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """Neither if it was mounted below the added folder, nor if that is reindexed. What is gone elsewhere is removed."""
    write(docs / "more/c.md", "rye c")
    items = await index_folder(worker, base, docs)
    async with worker.db.transaction() as tx:
        locked = await guards.lock_base(tx, base.id)
        await freshness.set_item_rule(tx, locked, items["docs"], {"every": "1d"})
    await worker.rows("update item set fingerprint = '0' || fingerprint where title = 'b.md' returning id")
    (docs / "deep/b.md").unlink()
    shutil.rmtree(docs / "more")
    await compare(worker, base, items["docs"])
    assert await worker.search_texts(base, "rye") == ["rye a", "rye b"]
    assert await worker.value("select error_code from item_refresh") == "folder_not_mounted"
    await worker.reindex(base, items["docs"].id)
    await worker.work()
    assert await worker.search_texts(base, "rye") == ["rye a", "rye b"]
    assert (await worker.statuses())["deep"] == "failed"
    write(docs / "deep/b.md", "rye again")
    await compare(worker, base, items["docs"])
    await worker.work()
    assert await worker.search_texts(base, "rye") == ["rye a", "rye again"]
    assert set((await worker.statuses()).values()) == {"completed"}
    await worker.rows("update item set fingerprint = '0' || fingerprint where type = 'file' returning id")
    shutil.rmtree(docs)
    docs.with_name("docs").mkdir()
    await worker.reindex(base, items["docs"].id)
    await worker.work()
    assert await worker.value("select error_code from item where title = 'docs'") == "folder_not_mounted"
    assert await worker.search_texts(base, "rye") == ["rye a", "rye again"]


async def test_a_file_that_could_not_be_read_is_read_once_it_can_be(
    worker: ManualWorker, base: Base, docs: Path
) -> None:
    """It is the same file, with the same fingerprint: it was away, or its permissions were missing."""
    items = await index_folder(worker, base, docs)
    away = docs.with_name("away.md")
    write(docs / "p.md", "oats")
    async with worker.db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(RefreshContainer(base.id, items["docs"].id), lane=base.lane))
    await worker.step()
    (docs / "p.md").rename(away)
    await worker.work()
    assert (await worker.statuses())["p.md"] == "failed"
    away.rename(docs / "p.md")
    await compare(worker, base, items["docs"])
    assert await worker.search_texts(base, "oats") == ["oats"]
