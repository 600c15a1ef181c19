"""Subtrees are wanted anew: the job `reindex_subtree`.

One fenced transaction in the base's turn. Delete wins: where anything in a subtree is being deleted by now, that
root is passed over. Where something became active since the request (another reindex, a replacement), it is being
rebuilt already: passed over too, or with `after` waited for. A container is listed anew, which brings up the
children its source has; those that people put below it are wanted anew here.
"""

from datetime import timedelta

from gristmill import catalog, faults, jobs
from gristmill.catalog import ItemId, ItemStatus
from gristmill.db import Database, Tx
from gristmill.ingest.pipeline import base_of
from gristmill.jobs import Band, Done, Job, Outcome, Snooze
from gristmill.operations.schedule import schedule
from gristmill.work import ReindexSubtree

_LOOK_AGAIN = timedelta(seconds=1)


class Rebuilder:
    """Wants subtrees anew."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def reindex(self, job: Job) -> Outcome:
        """Make the roots that are at rest active, and queue their work."""
        work = ReindexSubtree.of(job)
        async with self._db.transaction() as tx:
            base = await catalog.take_turn(tx, base_of(job))
            await jobs.fence(tx, job)
            if base is not None:
                unrested = await catalog.unrested(tx, work.root_ids)
                deleting = {item.root for item in unrested if item.status == ItemStatus.DELETING}
                active = {item.root for item in unrested} - deleting
                if active and work.on_active == "after":
                    return Snooze(_LOOK_AGAIN)
                roots = [root for root in work.root_ids if root not in deleting | active]
                wanted = await catalog.want_anew(tx, await self._below(tx, roots))
                await faults.point("rebuild.reset")
                await schedule(tx, base, wanted, Band.NORMAL)
            await jobs.complete(tx, job)
        return Done()

    async def _below(self, tx: Tx, roots: list[ItemId]) -> list[ItemId]:
        found = list(roots)
        for item in await catalog.find_items(tx, roots):
            if item.is_container:
                found += await catalog.added_below(tx, item.id)
        return found
