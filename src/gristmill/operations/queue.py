"""The queue of a base: recover or dismiss interrupted work, and pause the whole queue.

A base that resumes by itself has no interrupted work. One that parks shows what a stopped or lost worker left, as failed
items with the code `interrupted`; it also shows items that no job will process, of which there should be none. A process killed
in the middle of a long recovery has committed some batches, and the rest can be recovered again.
"""

from uuid import uuid4

from gristmill import catalog, events, jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database, Tx
from gristmill.jobs import Priority
from gristmill.operations import guards, store
from gristmill.operations.next_job import enqueue_next_jobs, record_filed_events
from gristmill.operations.store import StuckItem

MAX_SHOWN = 10_000
BATCH_SIZE = 500  # items in one transaction, so that other changes of the base get in between


async def find_stuck_items(tx: Tx, base_id: BaseId | None, limit: int) -> list[StuckItem]:
    """Active items that no job will process, of one base or of all: there should be none."""
    return await store.find_stuck_items(tx, base_id, limit)


async def find_orphans(tx: Tx, base_id: BaseId, limit: int = MAX_SHOWN) -> list[ItemId]:
    """Interrupted and stuck items of a base, at most `limit` of each."""
    parked = await store.find_parked_items(tx, base_id, limit)
    return [*parked, *(item.id for item in await find_stuck_items(tx, base_id, limit))]


async def recover(db: Database, base_id: BaseId) -> int:
    """Resume all interrupted work of a base; how many items."""
    recovered = 0
    while True:
        async with db.transaction() as tx:
            base = await guards.lock_open_base(tx, base_id)
            interrupted = await find_orphans(tx, base.id, BATCH_SIZE)
            await catalog.fail_interrupted(tx, interrupted)
            items = await catalog.request_version(tx, interrupted, cause=uuid4())
            await enqueue_next_jobs(tx, base, items, Priority.NORMAL)
        if not items:
            return recovered
        recovered += len(items)


async def dismiss(db: Database, base_id: BaseId) -> int:
    """Leave all interrupted items of a base failed, and stop offering their recovery; how many items."""
    count = 0
    while True:
        async with db.transaction() as tx:
            base = await guards.lock_base(tx, base_id)
            dismissed = await catalog.dismiss(tx, await find_orphans(tx, base.id, BATCH_SIZE))
            await jobs.dismiss_dead_by_subject(tx, dismissed)
            await record_filed_events(tx, await catalog.find_items(tx, dismissed))
            await events.announce_ready(tx, [base.id])
        if not dismissed:
            return count
        count += len(dismissed)


async def pause(db: Database, base_id: BaseId, *, paused: bool) -> None:
    """Stop starting the base's jobs, or start them again; running jobs go on."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        await jobs.set_paused(tx, base.lane, paused=paused)
