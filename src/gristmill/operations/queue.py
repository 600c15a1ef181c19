"""Work that was interrupted and waits for a hand: recover it, or dismiss it; and a base's whole queue, held for a while.

A base that resumes by itself has none. One that parks shows what a stopped or lost worker left, as failed items
with the code `interrupted`; items that nothing would move on, of which there should be none, are shown too. Killed in the
middle of many, some portions are recovered or dismissed, and the rest waits on.
"""

from uuid import uuid4

from gristmill import catalog, events, jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database, Tx
from gristmill.jobs import Band
from gristmill.operations import guards
from gristmill.operations.health import queries, stuck
from gristmill.operations.schedule import announce_filed, schedule

SHOWN = 10_000
AT_ONCE = 500  # items in one transaction, so that others get their turn in between


async def orphans(tx: Tx, base_id: BaseId, limit: int = SHOWN) -> list[ItemId]:
    """What waits for a hand, at most `limit` of each kind."""
    parked = await queries.values(tx, "parked", base=base_id, limit=limit)
    return [*parked, *await stuck(tx, base_id, limit)]


async def recover(db: Database, base_id: BaseId) -> int:
    """Take up again all that was interrupted; how many items."""
    recovered = 0
    while True:
        async with db.transaction() as tx:
            base = await guards.base_is_open(tx, base_id)
            found = await orphans(tx, base.id, AT_ONCE)
            await queries.values(tx, "fail_stuck", ids=found)
            wanted = await catalog.want_anew(tx, found, cause=uuid4())
            await schedule(tx, base, wanted, Band.NORMAL)
        if not wanted:
            return recovered
        recovered += len(wanted)


async def dismiss(db: Database, base_id: BaseId) -> int:
    """Leave as failed all that was interrupted; how many items."""
    dismissed = 0
    while True:
        async with db.transaction() as tx:
            base = await guards.base_turn(tx, base_id)
            found: list[ItemId] = await queries.values(tx, "dismiss", ids=await orphans(tx, base.id, AT_ONCE))
            await catalog.settle_above(tx, found)
            await announce_filed(tx, await catalog.find_items(tx, found))
            await events.announce_ready(tx, [base.id])
        if not found:
            return dismissed
        dismissed += len(found)


async def pause(db: Database, base_id: BaseId, *, paused: bool) -> None:
    """Start none of the base's jobs any more, or start them again; what runs goes on."""
    async with db.transaction() as tx:
        base = await guards.base_turn(tx, base_id)
        await jobs.pause(tx, base.lane, paused=paused)
