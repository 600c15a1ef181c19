"""delete: hide subtrees at once, and queue their removal. The only operation that may preempt active work.

    transaction     lock the base (a failed one too) → collapse the selection → refuse what a legal hold covers → remember what listings had found, so that
                    they leave it out from now on → mark the subtrees as deleting → derive
                    the containers above → signal running jobs to stop → one job, one event; all of it or nothing

After the commit no list, search or read shows them, and no worker's write for them is accepted: workers hold the base's shared
lock while they write, and check the item's status under it. Killed before the commit: nothing happened. Killed after: the job
exists, and is retried until it is done.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, BaseId, ItemId, exclusions, holds
from gristmill.catalog.deletion_report import DeletionReason
from gristmill.db import Database, Tx
from gristmill.events import ItemsDeleted
from gristmill.jobs import JobId, NewJob
from gristmill.operations import guards, store
from gristmill.work import DeleteSubtree


@dataclass(frozen=True)
class DeletionAccepted:
    """The selection after collapsing, and the job that removes it; None when there was nothing to do."""

    root_ids: list[ItemId]
    job_id: JobId | None


async def delete(
    db: Database,
    base_id: BaseId,
    item_ids: Sequence[ItemId],
    *,
    actor: str | None = None,
    reason: DeletionReason = "person",
) -> DeletionAccepted:
    """Hide these subtrees and queue their removal. The deletion report has the actor and the reason."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        roots = [item.id for item in await guards.outermost_selection(tx, base, item_ids)]
        if not roots:
            return DeletionAccepted([], None)
        await guards.refuse_held_items(tx, base, roots)
        await exclusions.exclude_items(tx, roots)
        job_id = await mark_for_deletion(tx, base, roots, reason=reason, actor=actor)
        await events.announce_ready(tx, [base.id], cause=job_id)
        await faults.point("delete.before_commit")
    return DeletionAccepted(roots, job_id)


async def mark_for_deletion(
    tx: Tx,
    base: Base,
    roots: Sequence[ItemId],
    *,
    reason: DeletionReason = "source",
    actor: str | None = None,
) -> JobId | None:
    """Mark subtrees of a locked base as deleting and queue their removal; the job that does it. Subtrees in which a legal hold covers
    something stay as they are; None if that is all of them.

    Dead jobs about them end, and running ones are signalled here. The removal cancels waiting jobs, but it may itself have to wait for a slot
    that just these running jobs occupy.
    """
    held = await holds.find_held_roots(tx, base.id, roots)
    roots = [root for root in roots if root not in held]
    if not roots:
        return None
    marked = await catalog.mark_deleting(tx, roots)
    await jobs.cancel_by_subject(tx, await store.find_running_for_deleted(tx, base.lane))
    await jobs.dismiss_dead_by_subject(tx, await store.find_dead_for_deleted(tx, base.lane))
    await faults.point("delete.marked")
    (job,) = await jobs.enqueue(
        tx, NewJob(DeleteSubtree(base.id, tuple(roots), reason, actor), lane=base.lane)
    )
    await events.record(tx, ItemsDeleted(base.id, tuple(roots), marked), cause=job.id)
    return job.id


async def cancel_waiting_jobs(tx: Tx, lane: str, limit: int) -> bool:
    """Cancel jobs that wait to work on items being deleted; whether there may be more."""
    subjects = await store.find_waiting_for_deleted(tx, lane, limit)
    if subjects:
        await jobs.cancel_by_subject(tx, subjects)
    return len(subjects) == limit


async def forget_jobs(tx: Tx, item_ids: Sequence[ItemId]) -> None:
    """End every job about items that are being removed: waiting and dead ones are deleted, running ones signalled."""
    await jobs.cancel_by_subject(tx, item_ids)
    await jobs.delete_dead_by_subject(tx, item_ids)
