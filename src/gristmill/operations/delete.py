"""delete: hide subtrees at once, and have them removed. The only operation that may preempt active work.

    transaction     base's turn (a failed one too) → outermost selected → subtrees deleting → containers above
                    derived → what runs for them told to stop → one job, one event; all of it or nothing

From the commit on no list, search or read shows them, and no worker's write for them is accepted: workers write
while they share the base's turn, and look at the item's status then. Killed before the commit: nothing was asked.
Killed after: the job is there, and is tried until it is done.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, BaseId, ItemId
from gristmill.db import Database, Tx
from gristmill.events import ItemsDeleted
from gristmill.jobs import JobId, NewJob
from gristmill.operations import guards
from gristmill.operations.invariants import queries
from gristmill.work import DeleteSubtree


@dataclass(frozen=True)
class DeletionAccepted:
    """What was selected after collapsing, and the job that does it; None when there was nothing to do."""

    root_ids: list[ItemId]
    job_id: JobId | None


async def delete(db: Database, base_id: BaseId, item_ids: Sequence[ItemId]) -> DeletionAccepted:
    """Hide these subtrees and queue their removal."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        roots = [item.id for item in await guards.outermost_selection(tx, base, item_ids)]
        if not roots:
            return DeletionAccepted([], None)
        job_id = await mark_for_deletion(tx, base, roots)
        await events.announce_ready(tx, [base.id], cause=job_id)
        await faults.point("delete.before_commit")
    return DeletionAccepted(roots, job_id)


async def mark_for_deletion(tx: Tx, base: Base, roots: Sequence[ItemId]) -> JobId:
    """Mark these subtrees as deleting and queue their removal, in the base's turn; the job that does it.

    What runs for them is told at once. The removal cancels what waits, but it may itself wait for a slot that just
    these jobs hold.
    """
    marked = await catalog.mark_deleting(tx, roots)
    await jobs.cancel_by_subject(tx, await queries.values(tx, "running_for_deleted", lane=base.lane))
    await faults.point("delete.marked")
    (job,) = await jobs.enqueue(tx, NewJob(DeleteSubtree(base.id, tuple(roots)), lane=base.lane))
    await events.record(tx, ItemsDeleted(base.id, tuple(roots), marked), cause=job.id)
    return job.id


async def cancel_waiting_jobs(tx: Tx, lane: str, limit: int) -> bool:
    """Cancel jobs that wait for what is being deleted; whether there may be more."""
    subjects = await queries.values(tx, "waiting_for_deleted", lane=lane, limit=limit)
    if subjects:
        await jobs.cancel_by_subject(tx, subjects)
    return len(subjects) == limit


async def forget_jobs(tx: Tx, item_ids: Sequence[ItemId]) -> None:
    """No job is left about items that go: what waits or is dead is gone, what runs is told to stop."""
    await jobs.cancel_by_subject(tx, item_ids)
    await queries.run(tx, "forget_dead", subjects=list(item_ids))
