"""Work that was interrupted and waits for a hand: recover it, or dismiss it; and a base's whole queue, held for a while.

A base that resumes by itself has none. One that parks shows what a stopped or lost worker left, as failed items
with the code `interrupted`; items that nothing would move on, of which there should be none, are shown too. Killed in the
middle of many, some portions are recovered or dismissed, and the rest waits on.
"""

from uuid import uuid4

from gristmill import catalog, events, jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database, Tx
from gristmill.jobs import Priority
from gristmill.operations import guards
from gristmill.operations.invariants import find_stuck_items, queries
from gristmill.operations.next_job import enqueue_next_jobs, record_filed_events

MAX_SHOWN = 10_000
BATCH_SIZE = 500  # items in one transaction, so that others get their turn in between


async def find_orphans(tx: Tx, base_id: BaseId, limit: int = MAX_SHOWN) -> list[ItemId]:
    """What waits for a hand, at most `limit` of each kind."""
    parked = await queries.values(tx, "parked", base=base_id, limit=limit)
    return [*parked, *await find_stuck_items(tx, base_id, limit)]


async def recover(db: Database, base_id: BaseId) -> int:
    """Take up again all that was interrupted; how many items."""
    recovered = 0
    while True:
        async with db.transaction() as tx:
            base = await guards.lock_open_base(tx, base_id)
            interrupted = await find_orphans(tx, base.id, BATCH_SIZE)
            await queries.values(tx, "fail_stuck", ids=interrupted)
            items = await catalog.request_version(tx, interrupted, cause=uuid4())
            await enqueue_next_jobs(tx, base, items, Priority.NORMAL)
        if not items:
            return recovered
        recovered += len(items)


async def dismiss(db: Database, base_id: BaseId) -> int:
    """Leave as failed all that was interrupted; how many items."""
    dismissed = 0
    while True:
        async with db.transaction() as tx:
            base = await guards.lock_base(tx, base_id)
            dismissed_ids: list[ItemId] = await queries.values(
                tx, "dismiss", ids=await find_orphans(tx, base.id, BATCH_SIZE)
            )
            await catalog.derive_statuses_above(tx, dismissed_ids)
            await record_filed_events(tx, await catalog.find_items(tx, dismissed_ids))
            await events.announce_ready(tx, [base.id])
        if not dismissed_ids:
            return dismissed
        dismissed += len(dismissed_ids)


async def pause(db: Database, base_id: BaseId, *, paused: bool) -> None:
    """Start none of the base's jobs any more, or start them again; what runs goes on."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        await jobs.set_paused(tx, base.lane, paused=paused)
