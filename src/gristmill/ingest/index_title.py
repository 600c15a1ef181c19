"""Index the chunks of an item again, because its title has changed: the job `index_title`.

    an item is being indexed     wait: its new chunks may have been lexed with the old title
    otherwise                    batch by batch, in every set of chunks of the base: read the chunks, lex them with the title of now, then one
                                 fenced transaction under the base's shared lock gives them new numbers and a new segment

Killed in the middle: some chunks are found by the old title, some by the new one, and the next attempt begins with the first. A
title that changes meanwhile is noticed in the transaction that ends the job, which then begins again.
"""

from datetime import timedelta
from uuid import UUID

from gristmill import catalog, faults, jobs
from gristmill.catalog import Base, Item, ItemStatus
from gristmill.db import Database
from gristmill.ingest.offload import CpuOffload
from gristmill.ingest.task import base_of
from gristmill.jobs import Done, Job, Outcome, Snooze
from gristmill.search import renumber
from gristmill.work import IndexTitle

BATCH_CHUNKS = 256
_RECHECK_DELAY = timedelta(seconds=1)
_AT_REST = (ItemStatus.COMPLETED, ItemStatus.FAILED)


class TitleIndexer:
    """Runs the jobs."""

    def __init__(self, db: Database, offload: CpuOffload) -> None:
        self._db, self._offload = db, offload

    async def run(self, job: Job) -> Outcome:
        """Index the title of the job's item."""
        item_id = IndexTitle.of(job).item_id
        while True:
            async with self._db.connection() as tx:
                item = await catalog.find_item(tx, item_id)
                base = await catalog.find_base(tx, base_of(job))
            if item is not None and item.status not in _AT_REST:
                return Snooze(_RECHECK_DELAY)
            is_indexed = item is None or base is None or await self._index(job, base, item)
            async with self._db.transaction() as tx:
                await catalog.lock_base_shared(tx, base_of(job))
                await jobs.fence(tx, job)
                current = await catalog.find_item(tx, item_id)
                if is_indexed and (current is None or item is None or _is_same(current, item)):
                    await jobs.complete(tx, job)
                    return Done()

    async def _index(self, job: Job, base: Base, item: Item) -> bool:
        """Index the chunks of an item with its title; False if it has changed meanwhile."""
        if item.live_version is None:
            return True
        async with self._db.connection() as tx:
            sets = await catalog.find_chunk_sets(tx, base.id)
        return all(
            [
                await self._index_set(job, base, item, chunk_set.id)
                for chunk_set in sets
                if chunk_set.state != "removing"
            ]
        )

    async def _index_set(self, job: Job, base: Base, item: Item, set_id: UUID) -> bool:
        after, version = -1, item.live_version or 0
        while True:
            async with self._db.connection() as tx:
                chunks = await renumber.read_chunks_after(tx, set_id, item.id, version, after, BATCH_CHUNKS)
            if chunks is None:
                return True
            segment = await self._offload.build_segment(*chunks.segment_input)
            async with self._db.transaction() as tx:
                await catalog.lock_base_shared(tx, base.id)
                await jobs.fence(tx, job)
                current = await catalog.find_base(tx, base.id)  # it may be moving to another index since
                if current is None or not await catalog.lock_live_version(tx, item.id, version):
                    return False
                await renumber.index_again(tx, current, set_id, (item.id, version), chunks, segment)
                await jobs.reset_attempts(tx, [job])
                await faults.point("index_title.before_commit")
            after = chunks.last_index


def _is_same(current: Item, item: Item) -> bool:
    return (current.title, current.live_version) == (item.title, item.live_version)
