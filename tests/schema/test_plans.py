"""The hot statements stay cheap however long the queue is: bounded by the pages they touch, not by the clock."""

from typing import Any
from uuid import uuid4

from gristmill import jobs
from gristmill.db import Database
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
                "explain (analyze, buffers, format json) select * from job_claim(%s, 16, 16, 4, null)",
                [worker],
            )
            row = await cursor.fetchone()
            assert row is not None
            plan: dict[str, Any] = row[0][0]["Plan"]
            pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            assert plan["Actual Rows"] == 16
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
