"""Work that was interrupted and waits for a hand: recover it, or dismiss it.

A base that resumes by itself has none. One that parks shows what a stopped or lost worker left, as failed items
with the code `interrupted`; items that nothing would move on, of which there should be none, are shown too.
"""

from uuid import uuid4

from gristmill import catalog, events
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database, Tx
from gristmill.jobs import Band
from gristmill.operations import guards
from gristmill.operations.health import queries, stuck
from gristmill.operations.schedule import announce_filed, schedule

_MOST = 10_000


async def orphans(tx: Tx, base_id: BaseId) -> list[ItemId]:
    """What waits for a hand."""
    return [*await queries.values(tx, "parked", base=base_id, limit=_MOST), *await stuck(tx, base_id)]


async def recover(db: Database, base_id: BaseId) -> int:
    """Take up again what was interrupted; how many items."""
    async with db.transaction() as tx:
        base = await guards.base_is_open(tx, base_id)
        found = await orphans(tx, base.id)
        await queries.values(tx, "fail_stuck", ids=found)
        wanted = await catalog.want_anew(tx, found, cause=uuid4())
        await schedule(tx, base, wanted, Band.NORMAL)
    return len(wanted)


async def dismiss(db: Database, base_id: BaseId) -> int:
    """Leave as failed what was interrupted; how many items."""
    async with db.transaction() as tx:
        base = await guards.base_turn(tx, base_id)
        found: list[ItemId] = await queries.values(tx, "dismiss", ids=await orphans(tx, base.id))
        await catalog.settle_above(tx, found)
        dismissed = await catalog.find_items(tx, found)
        await announce_filed(tx, dismissed)
        await events.announce_ready(tx, [base.id])
    return len(found)
