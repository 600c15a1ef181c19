"""delete: hide subtrees at once, and have them removed. The only operation that may preempt active work.

    transaction     base's turn (a failed one too) → outermost selected → subtrees deleting → containers above
                    derived → one job; all of it or nothing

From the commit on no list, search or read shows them, and no worker's write for them is accepted: workers write
while they share the base's turn, and look at the item's status then. Killed before the commit: nothing was asked.
Killed after: the job is there, and is tried until it is done.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill import catalog, faults, jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database
from gristmill.jobs import JobId, NewJob
from gristmill.operations import guards
from gristmill.work import DeleteSubtree


@dataclass(frozen=True)
class Accepted:
    """What was selected after collapsing, and the job that does it; None when there was nothing to do."""

    root_ids: list[ItemId]
    job_id: JobId | None


async def delete(db: Database, base_id: BaseId, item_ids: Sequence[ItemId]) -> Accepted:
    """Hide these subtrees and queue their removal."""
    async with db.transaction() as tx:
        base = await guards.base_turn(tx, base_id)
        roots = [item.id for item in await guards.outermost_selected(tx, base, item_ids)]
        if not roots:
            return Accepted([], None)
        await catalog.mark_deleting(tx, roots)
        await faults.point("delete.marked")
        (job,) = await jobs.enqueue(tx, NewJob(DeleteSubtree(base.id, tuple(roots)), lane=base.lane))
        await faults.point("delete.before_commit")
    return Accepted(roots, job.id)
