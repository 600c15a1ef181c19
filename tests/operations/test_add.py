"""add under limits and injected failures."""

import pytest

from gristmill import faults
from gristmill.catalog import NewItem
from gristmill.db import Database
from gristmill.errors import Conflict, LimitReached
from gristmill.jobs import QueueLimits
from gristmill.operations import add, bases, queue
from gristmill.sources import NoteSource
from tests.embedding.hashed import HashedEmbedder

WIDE = QueueLimits(lane=100, total=100)


def notes(number: int) -> list[add.ItemToAdd]:
    return [
        add.ItemToAdd(NewItem("note", f"n{n}", f"n{n}", body="text"), NoteSource("text", "n"))
        for n in range(number)
    ]


async def count_rows(db: Database) -> tuple[int, int]:
    async with db.connection() as tx:
        row = await (
            await tx.execute("select (select count(*) from item), (select count(*) from job)")
        ).fetchone()
    assert row is not None
    return row[0], row[1]


async def test_a_full_queue_rejects_the_whole_request_and_says_when_to_retry(db: Database) -> None:
    """S4-54."""
    first_base = await bases.create(db, "one", HashedEmbedder(), {})
    second_base = await bases.create(db, "two", HashedEmbedder(), {})
    limits = QueueLimits(lane=5, total=8)
    await add.add(db, first_base.id, notes(4), limits)
    with pytest.raises(LimitReached, match="this base") as caught:
        await add.add(db, first_base.id, notes(2), limits)
    assert caught.value.retry_after.total_seconds() > 0
    await add.add(db, first_base.id, notes(1), limits)
    await add.add(db, second_base.id, notes(3), limits)
    with pytest.raises(LimitReached, match="all bases"):
        await add.add(db, second_base.id, notes(1), limits)
    assert await count_rows(db) == (8, 8)


@pytest.mark.parametrize("point", ["add.rows_inserted", "add.before_commit"])
async def test_a_failure_in_the_middle_leaves_neither_rows_nor_jobs(
    db: Database, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-24, S0-26 as decided in C4: no row exists without its job."""
    base = await bases.create(db, "one", HashedEmbedder(), {})
    monkeypatch.setattr(faults, "_armed", {})
    faults.arm(f"{point}=fail")
    with pytest.raises(faults.FaultInjected):
        await add.add(db, base.id, notes(3), WIDE)
    assert await count_rows(db) == (0, 0)


async def test_few_items_are_interactive_and_many_are_an_import(db: Database) -> None:
    """S4-08: a hundred items at once don't go before what people wait for; up to ten do."""
    base = await bases.create(db, "one", HashedEmbedder(), {})
    await add.add(db, base.id, notes(10), WIDE)
    await add.add(db, base.id, notes(11), WIDE)
    async with db.connection() as tx:
        rows = await (
            await tx.execute("select priority, count(*)::int from job group by 1 order by 1")
        ).fetchall()
    assert rows == [(0, 10), (1, 11)]


async def test_an_item_without_a_job_violates_an_invariant(db: Database) -> None:
    """The check can fail: it finds a deleted job."""
    base = await bases.create(db, "one", HashedEmbedder(), {})
    result = await add.add(db, base.id, notes(2), WIDE)
    async with db.connection() as tx:
        assert await queue.find_stuck_items(tx, None, 10) == []
        await tx.execute("delete from job where subject = %s", [result.created[0].id])
        assert [row.id for row in await queue.find_stuck_items(tx, None, 10)] == [result.created[0].id]


async def test_a_base_that_failed_takes_nothing(db: Database) -> None:
    """S0-02."""
    base = await bases.create(db, "one", HashedEmbedder(), {})
    async with db.connection() as tx:
        await tx.execute("update base set status = 'failed', error_message = 'broken'")
    with pytest.raises(Conflict) as caught:
        await add.add(db, base.id, notes(1), WIDE)
    assert caught.value.code == "base_failed"
