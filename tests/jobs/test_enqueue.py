"""Enqueueing from several processes at once."""

import asyncio

from gristmill import jobs
from gristmill.db import Database
from gristmill.jobs import NewJob
from tests.jobs.sample_work import Keyed, Plain
from tests.wait_until import ended, wait_until


async def test_two_transactions_with_the_same_keys_in_other_orders_do_not_deadlock(db: Database) -> None:
    """As when two workers queue the compaction of the same bases."""

    async def enqueue_both() -> list[bool]:
        async with db.transaction() as tx:
            return [job.created for job in await jobs.enqueue(tx, *(NewJob(Keyed(key), key) for key in "ba"))]

    async def is_waiting() -> bool:
        async with db.connection() as tx:
            cursor = await tx.execute("select from pg_locks where not granted")
            return cursor.rowcount > 0

    async with db.transaction() as tx:  # lanes that have work already are not locked
        await jobs.enqueue(tx, NewJob(Plain(), "a"), NewJob(Plain(), "b"))
    async with db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(Keyed("a"), "a"))
        other = asyncio.create_task(enqueue_both())
        await wait_until(is_waiting)
        await jobs.enqueue(tx, NewJob(Keyed("b"), "b"))
    assert await ended(other) == [False, False]
