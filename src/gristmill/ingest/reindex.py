"""Request new versions of whole subtrees: the job `reindex_subtree`.

One fenced transaction under the base's exclusive lock. A root may have changed since the request was accepted:

    it is being deleted                     skip: delete wins
    something below it is being deleted     skip: delete wins; with `after`, wait
    a re-index of the whole root is running skip; with `after`, wait
    something below it is active            wait; with `skip`, skip
    the queue is full                       wait, whatever was requested

A container is listed again, which re-indexes the children that its source has. Items that people added below it are
re-indexed here.
"""

from collections.abc import Sequence
from datetime import timedelta

from gristmill import catalog, faults, jobs
from gristmill.catalog import ItemId, ItemStatus, UnfinishedItem
from gristmill.db import Database, Tx
from gristmill.ingest.task import base_of
from gristmill.jobs import Done, Job, Outcome, Priority, QueueLimits, Snooze
from gristmill.operations.next_job import enqueue_next_jobs, has_room, pause_until_room
from gristmill.work import OnActive, ReindexSubtree

_RECHECK_DELAY = timedelta(seconds=1)


class Reindexer:
    """Requests new versions of subtrees."""

    def __init__(self, db: Database, limits: QueueLimits | None = None) -> None:
        self._db, self._limits = db, limits

    async def reindex(self, job: Job) -> Outcome:
        """Request new versions of the roots that are at rest, and enqueue their jobs."""
        work = ReindexSubtree.of(job)
        await faults.point("rebuild.begun")
        async with self._db.transaction() as tx:
            base = await catalog.lock_base(tx, base_of(job))
            await jobs.fence(tx, job)
            if base is not None:
                unfinished = await catalog.find_unfinished_items(tx, work.root_ids)
                if _must_wait(unfinished, work.on_active):
                    return Snooze(_RECHECK_DELAY)
                if not await has_room(tx, base, self._limits):
                    return pause_until_room("Re-indexing continues")
                skipped = {item.root for item in unfinished}
                roots = [root for root in work.root_ids if root not in skipped]
                requested = await catalog.request_version(
                    tx, await self._with_added_children(tx, roots), cause=job.id
                )
                await faults.point("rebuild.reset")
                await enqueue_next_jobs(tx, base, requested, Priority.NORMAL)
            await jobs.complete(tx, job)
        return Done()

    async def _with_added_children(self, tx: Tx, roots: list[ItemId]) -> list[ItemId]:
        item_ids = list(roots)
        for item in await catalog.find_items(tx, roots):
            if item.is_container:
                item_ids += await catalog.user_added_descendants(tx, item.id)
        return item_ids


def _must_wait(unfinished: Sequence[UnfinishedItem], on_active: OnActive) -> bool:
    """Whether a root is active, and will still need a re-index when it is at rest."""
    match on_active:
        case "skip":
            return False
        case "after":
            skipped = {item.root for item in unfinished if item.is_deleted_root}
        case "reject":
            skipped = {
                item.root for item in unfinished if item.status == ItemStatus.DELETING or item.is_full_rebuild
            }
    return any(item.root not in skipped for item in unfinished)
