"""Gives committed events their positions, and enqueues the deliveries of webhooks, in one transaction.

A sequenced event has, for each webhook that wants it, a living job: the sequencer enqueues one, and a job ends only in a
transaction that finds its webhook's row, locked, with nothing left. Killed before the commit: the events are still in the
outbox, and the next process to look sequences them. Lock order: rows of webhooks before rows of jobs.
"""

from gristmill import jobs
from gristmill.db import Database, Tx, without_commit_hook
from gristmill.events import store
from gristmill.jobs import NewJob
from gristmill.work import DeliverEvents


async def sequence_batch(tx: Tx) -> int:
    """Sequence a batch of committed events; how many, or -1 when another process is doing it. In a transaction of its own."""
    count = await store.sequence_batch(tx)
    if count > 0:
        head = await store.last_seq(tx)
        await enqueue_deliveries(tx, *await store.mark_due_webhooks(tx, after=head - count, head=head))
    return count


async def sequence_all(db: Database) -> bool:
    """Sequence all committed events; False when another process is doing it, which may miss the last ones."""
    count = 1
    while count > 0:
        with without_commit_hook():
            async with db.transaction() as tx:
                count = await sequence_batch(tx)
    return count == 0


async def enqueue_deliveries(tx: Tx, *webhooks: store.WebhookId) -> None:
    """Enqueue the deliveries of these webhooks; the caller has locked their rows."""
    await jobs.enqueue(
        tx, *(NewJob(DeliverEvents(webhook), lane=f"webhook:{webhook}") for webhook in webhooks)
    )
