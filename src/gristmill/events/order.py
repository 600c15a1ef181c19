"""Putting events in order, and waking the webhooks that have something to deliver, in one transaction.

An event that has its place has, for each webhook that wants it, a living job: whoever puts it in order queues one, and
a job ends only in a transaction that finds its webhook's row, locked, with nothing left. Killed before the commit: the
events are in the outbox, and the next who looks puts them in order. Locks: rows of webhooks before rows of jobs.
"""

from gristmill import jobs
from gristmill.db import Database, Tx, aside
from gristmill.events import store
from gristmill.jobs import NewJob
from gristmill.work import DeliverEvents


async def sequence(tx: Tx) -> int:
    """Put in order what is committed by now; how many, and -1 when another is at it. In a transaction of its own."""
    moved = await store.sequence(tx)
    if moved > 0:
        head = await store.head(tx)
        await wake(tx, *await store.due_webhooks(tx, after=head - moved, head=head))
    return moved


async def put_in_order(db: Database) -> bool:
    """Put in order all that is committed by now; False when another is at it, who may have missed the last."""
    moved = 1
    while moved > 0:
        with aside():
            async with db.transaction() as tx:
                moved = await sequence(tx)
    return moved == 0


async def wake(tx: Tx, *webhooks: store.WebhookId) -> None:
    """Have these webhooks deliver; their rows are locked by the caller."""
    await jobs.enqueue(
        tx, *(NewJob(DeliverEvents(webhook), lane=f"webhook:{webhook}") for webhook in webhooks)
    )
