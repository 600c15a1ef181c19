"""Enqueueing from several processes at once."""

import asyncio
from datetime import timedelta

from gristmill import jobs
from gristmill.db import Database
from gristmill.jobs import NewJob, store
from tests.database_clock import DatabaseClock
from tests.jobs.sample_work import Keyed, Plain
from tests.jobs.test_pools import new_worker
from tests.jobs.test_store import claim
from tests.wait_until import ended, wait_until


async def is_waiting(db: Database) -> bool:
    async with db.connection() as tx:
        cursor = await tx.execute("select from pg_locks where not granted")
        return cursor.rowcount > 0


async def test_two_transactions_with_the_same_keys_in_other_orders_do_not_deadlock(db: Database) -> None:
    """As when two workers queue the compaction of the same bases."""

    async def enqueue_both() -> list[bool]:
        async with db.transaction() as tx:
            return [job.created for job in await jobs.enqueue(tx, *(NewJob(Keyed(key), key) for key in "ba"))]

    async with db.transaction() as tx:  # lanes that have work already are not locked
        await jobs.enqueue(tx, NewJob(Plain(), "a"), NewJob(Plain(), "b"))
    async with db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(Keyed("a"), "a"))
        other = asyncio.create_task(enqueue_both())
        await wait_until(lambda: is_waiting(db))
        await jobs.enqueue(tx, NewJob(Keyed("b"), "b"))
    assert await ended(other) == [False, False]


async def test_a_job_goes_back_to_its_lane_while_its_key_is_enqueued_there(db: Database) -> None:
    """Neither waits for the other: both lock the lane first."""
    async with db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(Keyed("a"), "a"))
    (job,) = await claim(db, await new_worker(db))

    async def requeue() -> None:
        async with db.transaction() as tx:
            await store.postpone(tx, job, timedelta(), counted=False, error=None)

    async with db.transaction() as tx:
        await tx.execute("update lane set busy = busy where lane = 'a'")
        other = asyncio.create_task(requeue())
        await wait_until(lambda: is_waiting(db))
        (enqueued,) = await jobs.enqueue(tx, NewJob(Keyed("a"), "a"))
    await ended(other)
    assert not enqueued.created


async def test_a_delayed_job_is_queued_while_its_key_is_enqueued_in_a_lane_that_slept(
    db: Database, clock: DatabaseClock
) -> None:
    """The tick locks lanes first, too."""
    async with db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(Keyed("a"), "a", delay=timedelta(seconds=5)))
        await tx.execute("insert into lane (lane, busy) values ('a', false)")
    await clock.advance(timedelta(seconds=6))

    async def tick() -> int:
        async with db.transaction() as tx:
            return (await store.tick(tx)).promoted

    async with db.transaction() as tx:
        await tx.execute("update lane set busy = true where lane = 'a'")
        other = asyncio.create_task(tick())
        await wait_until(lambda: is_waiting(db))
        (enqueued,) = await jobs.enqueue(tx, NewJob(Keyed("a"), "a"))
    assert await ended(other) == 1
    assert not enqueued.created
