"""Workers that finish documents of one folder don't wait for each other, and the last of them completes the folder."""

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from gristmill import catalog
from gristmill.catalog import Base, ItemId
from gristmill.db import Tx
from gristmill.work import IndexDocument
from tests.operations.manual_worker import ManualWorker, folder_to_add
from tests.wait_until import wait_until


@pytest.fixture
async def documents(worker: ManualWorker, base: Base, tmp_path: Path) -> list[ItemId]:
    """Three queued documents of a folder `docs`."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.md").write_text(f"rye {name}")
    await worker.add(base, folder_to_add(folder))
    while not await worker.value("select count(*) from item where parent_id is not null"):
        for job in await worker.claim():
            assert job.kind != IndexDocument.kind
            await worker.run(job)
    rows = await worker.rows("select id from item where parent_id is not null order by title")
    assert (await worker.statuses())["docs"] == "processing"
    return [ItemId(row[0]) for row in rows]


async def read(worker: ManualWorker, item: ItemId) -> None:
    """The document is read, in a transaction of its own as always."""
    async with worker.db.transaction() as tx:
        await tx.execute("update item set status = 'reading' where id = %s", [item])


async def end(tx: Tx, item: ItemId) -> None:
    """The document ends in this transaction, and the status of its folder is derived."""
    await tx.execute("update item set status = 'completed', live_version = 1 where id = %s", [item])
    await catalog.derive_statuses_after_end(tx, [item])


async def test_documents_of_a_folder_end_without_waiting_while_another_is_queued(
    worker: ManualWorker, documents: list[ItemId]
) -> None:
    """Promise 6: two workers finish documents of one folder at the same time."""
    first, second, _ = documents
    await read(worker, first)
    await read(worker, second)
    async with worker.db.transaction() as one, worker.db.transaction() as other:
        await end(one, first)
        await other.execute("set local lock_timeout = '5s'")
        await end(other, second)  # it would fail if it waited
    assert (await worker.statuses())["docs"] == "processing"


async def test_the_last_document_waits_for_those_that_left_the_folder_to_it(
    worker: ManualWorker, documents: list[ItemId]
) -> None:
    """Promise 1: the transaction of the first document is slow; meanwhile the others end, and the folder does not stay active."""
    first, second, last = documents
    await read(worker, first)
    async with worker.db.transaction() as slow:
        await end(slow, first)
        for item in (second, last):
            await read(worker, item)

        async def end_both() -> None:
            async with worker.db.transaction() as tx:
                await tx.execute(
                    "update item set status = 'completed', live_version = 1 where id = %s", [second]
                )
                await end(tx, last)

        ending = asyncio.create_task(end_both())

        async def is_waiting() -> bool:
            return bool(await worker.value("select count(*) from pg_locks where not granted"))

        await wait_until(is_waiting)
        assert not ending.done()
    await ending
    assert (await worker.statuses())["docs"] == "completed"


async def test_the_last_two_documents_end_together(worker: ManualWorker, documents: list[ItemId]) -> None:
    """Promise 1: neither sees that the other has ended; the second waits, and completes the folder."""
    first, second, last = documents
    for item in documents:
        await read(worker, item)
    async with worker.db.transaction() as tx:
        await end(tx, first)

    async def end_in_transaction(item: UUID) -> None:
        async with worker.db.transaction() as tx:
            await end(tx, ItemId(item))

    await asyncio.gather(end_in_transaction(second), end_in_transaction(last))
    assert (await worker.statuses())["docs"] == "completed"
