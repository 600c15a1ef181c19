"""The hot statements stay cheap however long the queue is: bounded by the pages they touch, not by the clock."""

from typing import Any
from uuid import UUID, uuid4

from psycopg import AsyncCursor

from gristmill import jobs
from gristmill.catalog.lifecycle import TERMINAL, ItemStatus
from gristmill.db import Database
from gristmill.db.queries import Queries, Tx
from gristmill.jobs import NewJob
from tests.jobs.sample_work import Plain

LANES = 200


async def claim_page_count(db: Database) -> int:
    """Pages that the second claim of 16 touches; the first may have hint bits to set."""
    worker = uuid4()
    pages = 0
    async with db.connection() as tx:
        await tx.execute("analyze")
        for _ in range(2):
            cursor = await tx.execute(
                "explain (analyze, buffers, format json) select * from job_claim(%s, 16, 16, 4, null, '{}', '{}', 16)",
                [worker],
            )
            plan = await explain(cursor)
            assert plan["Actual Rows"] == 16
            pages = page_count(plan)
    return pages


async def enqueue(db: Database, per_lane: int) -> None:
    async with db.transaction() as tx:
        await jobs.enqueue(tx, *(NewJob(Plain(n), f"lane {n % LANES}") for n in range(per_lane * LANES)))


async def test_a_claim_touches_no_more_pages_with_a_hundred_times_the_backlog(db: Database) -> None:
    """Promise 6: its cost does not grow with the queue."""
    await enqueue(db, 2)
    small = await claim_page_count(db)
    await enqueue(db, 200)
    large = await claim_page_count(db)
    assert large <= 3 * small, f"{small} pages with 400 queued, {large} with 40,400"


# What asks whether something is active, by package: its cost must not grow with the number of finished items.
ACTIVE_STATEMENTS = [
    ("gristmill.operations", "find_stuck_items", {"base": None, "limit": 100}),
    ("gristmill.integrity", "find_unannounced_bases", {"limit": 100}),
    ("gristmill.integrity", "find_underived_containers", {"base": None, "limit": 100}),
    ("gristmill.connectors", "has_pending_items", {"run": UUID(int=7)}),
]


async def add_finished_items(db: Database, count: int) -> None:
    """Add completed documents to the one folder of the one base; an active one is there already."""
    async with db.transaction() as tx:
        await tx.execute(
            "insert into item (base_id, parent_id, type, title, status, source_key, cause)"
            " select b.id, f.id, 'note', n::text, 'completed', n::text, %s"
            "   from base b join item f on f.base_id = b.id and f.type = 'directory', generate_series(1, %s) n",
            [UUID(int=7), count],
        )
    async with db.connection() as tx:
        await tx.execute("vacuum analyze item")


async def page_counts(db: Database, folder: UUID) -> dict[str, int]:
    """Pages that each statement about active items touches, and the functions that derive what follows from them."""
    counts: dict[str, int] = {}
    async with db.connection() as tx:
        for package, name, parameters in ACTIVE_STATEMENTS:
            statement = b"explain (analyze, buffers, format json) " + Queries(package)[name]
            counts[name] = page_count(await explain(await tx.execute(statement, parameters)))
        for function in (
            "container_derive_status(%s)",
            "base_mark_ready((select base_id from item where id = %s))",
        ):
            call = f"explain (analyze, buffers, format json) select {function}"
            await tx.execute(call.encode(), [folder])  # plans the function's statements
            counts[function] = page_count(await explain(await tx.execute(call.encode(), [folder])))
    return counts


async def explain(cursor: AsyncCursor[Any]) -> dict[str, Any]:
    """The plan of an explained statement."""
    row = await cursor.fetchone()
    assert row is not None
    return row[0][0]["Plan"]


def page_count(plan: dict[str, Any]) -> int:
    """How many pages a statement touched."""
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


async def test_finding_active_items_costs_no_more_beside_many_finished_ones(db: Database) -> None:
    """The partial indexes on `is_active` serve the statements that ask for it."""
    async with db.transaction() as tx:
        base = await insert_base(tx)
        folder = await insert_item(tx, base, None, "directory", "processing")
        await insert_item(tx, base, folder, "note", "reading")
    await add_finished_items(db, 100)
    few = await page_counts(db, folder)
    await add_finished_items(db, 20_000)
    many = await page_counts(db, folder)
    grown = {name: (few[name], many[name]) for name in few if many[name] > 2 * few[name] + 10}
    assert not grown, f"pages with 100 and with 20,100 finished items: {grown}"


async def test_an_item_is_active_exactly_in_the_statuses_that_are_not_final(db: Database) -> None:
    """The column and `lifecycle.py` agree, so that a new status is known to both."""
    async with db.transaction() as tx:
        base = await insert_base(tx)
        for status in ItemStatus:
            await insert_item(tx, base, None, "note", status)
        rows = await (await tx.execute("select status, is_active from item")).fetchall()
    assert dict(rows) == {status: status not in {*TERMINAL, ItemStatus.DELETING} for status in ItemStatus}


async def insert_base(tx: Tx) -> UUID:
    """An empty base."""
    row = await (
        await tx.execute(
            "insert into base (name, embedder, embedder_identity, dimensions) values ('b', 'x', 'x', 2) returning id"
        )
    ).fetchone()
    assert row is not None
    return row[0]


async def insert_item(tx: Tx, base: UUID, parent: UUID | None, item_type: str, status: str) -> UUID:
    """An item in a status, listed if it is a container."""
    row = await (
        await tx.execute(
            "insert into item (base_id, parent_id, type, title, status, source_key, expanded_version)"
            " values (%s, %s, %s, %s, %s, %s, 1) returning id",
            [base, parent, item_type, status, status, status],
        )
    ).fetchone()
    assert row is not None
    return row[0]
