"""Putting events in order, and waking the webhooks that have something to deliver, in one transaction.

An event that has its place has, for each webhook that wants it, a living job: whoever puts it in order queues one, and
a job ends only in a transaction that finds its webhook's row, locked, with nothing left. Killed before the commit: the
events are in the outbox, and the next who looks puts them in order. Locks: rows of webhooks before rows of jobs.
"""

from gristmill import jobs
from gristmill.db import Database, Tx, without_commit_hook
from gristmill.events import store
from gristmill.jobs import NewJob
from gristmill.work import DeliverEvents


async def sequence_batch(tx: Tx) -> int:
    """Put in order what is committed by now; how many, and -1 when another is at it. In a transaction of its own."""
    count = await store.sequence_batch(tx)
    if count > 0:
        head = await store.last_seq(tx)
        await enqueue_deliveries(tx, *await store.mark_due_webhooks(tx, after=head - count, head=head))
    return count


async def sequence_all(db: Database) -> bool:
    """Put in order all that is committed by now; False when another is at it, who may have missed the last."""
    count = 1
    while count > 0:
        with without_commit_hook():
            async with db.transaction() as tx:
                count = await sequence_batch(tx)
    return count == 0


async def enqueue_deliveries(tx: Tx, *webhooks: store.WebhookId) -> None:
    """Have these webhooks deliver; their rows are locked by the caller."""
    await jobs.enqueue(
        tx, *(NewJob(DeliverEvents(webhook), lane=f"webhook:{webhook}") for webhook in webhooks)
    )
