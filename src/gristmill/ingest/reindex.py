"""Subtrees are wanted anew: the job `reindex_subtree`.

One fenced transaction in the base's turn. What became of a root since it was accepted:

    something in it is being deleted     passed over: delete wins
    it is being rebuilt as a whole       passed over, with `after` waited for
    something below it is active         waited for, with `skip` passed over
    too many jobs wait already           waited for, whatever was asked

A container is listed anew, which brings up the children its source has; what people put below it is wanted anew here.
"""

from collections.abc import Sequence
from datetime import timedelta

from gristmill import catalog, faults, jobs
from gristmill.catalog import ItemId, ItemStatus, UnfinishedItem
from gristmill.db import Database, Tx
from gristmill.ingest.pipeline import base_of
from gristmill.jobs import Done, Job, Outcome, Priority, QueueLimits, Snooze
from gristmill.operations.next_job import enqueue_next_jobs, has_room
from gristmill.work import OnActive, ReindexSubtree

_RECHECK_DELAY = timedelta(seconds=1)
# As long as a caller who is refused is asked to wait.
_PAUSE = timedelta(seconds=30)


class Reindexer:
    """Wants subtrees anew."""

    def __init__(self, db: Database, limits: QueueLimits | None = None) -> None:
        self._db, self._limits = db, limits

    async def reindex(self, job: Job) -> Outcome:
        """Make the roots that are at rest active, and queue their work."""
        work = ReindexSubtree.of(job)
        await faults.point("rebuild.begun")
        async with self._db.transaction() as tx:
            base = await catalog.lock_base(tx, base_of(job))
            await jobs.fence(tx, job)
            if base is not None:
                unrested = await catalog.unfinished_items(tx, work.root_ids)
                if _must_wait(unrested, work.on_active):
                    return Snooze(_RECHECK_DELAY)
                if not await has_room(tx, base, self._limits):
                    return Snooze(_PAUSE)
                passed_over = {item.root for item in unrested}
                roots = [root for root in work.root_ids if root not in passed_over]
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


def _must_wait(unrested: Sequence[UnfinishedItem], on_active: OnActive) -> bool:
    """Whether a root is active in a way that ends with something left to rebuild."""
    if on_active == "skip":
        return False
    deleting = {item.root for item in unrested if item.status == ItemStatus.DELETING}
    rebuilt = {item.root for item in unrested if item.whole} if on_active == "reject" else set[ItemId]()
    return any(item.root not in deleting | rebuilt for item in unrested)
