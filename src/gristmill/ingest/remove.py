"""Remove subtrees and bases that are marked as deleting: the jobs `delete_subtree` and `delete_base`.

    index       only for a base: its chunks and segments, in batches
    remove      batches of items without children, so from the leaves up. One fenced transaction per batch removes the
                items with their jobs (waiting ones are deleted, running ones are signalled), chunks, versions and
                unshared contents, notes them in the deletion report, and adds to the receipt
    engine      of a base in a search engine: until that has nothing of what was removed
    blobs       blobs that nothing refers to are deleted from the store, then from the table

Killed anywhere: the next attempt removes the rest, and continues the receipt. An item never becomes visible again: it stays
marked until its row is deleted, or belongs to a base that is marked. A batch locks only rows of its own base.
"""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from gristmill import catalog, clock, contents, events, faults, jobs
from gristmill.catalog import BaseId, ChunkSetId, ItemId, deletion_report
from gristmill.db import Database, Tx
from gristmill.events import BaseRemoved, Event, ItemsRemoved
from gristmill.ingest.update_index import ENGINE_RETRY_DELAY, remove_deleted
from gristmill.jobs import Activity, Done, Job, Outcome, Snooze
from gristmill.operations import uploads
from gristmill.operations.cancel import cancel_conversions
from gristmill.operations.delete import cancel_waiting_jobs, forget_jobs
from gristmill.search import publish, removal
from gristmill.search.index import tasks
from gristmill.search.index.engine import IndexUnavailable
from gristmill.search.index.engine_indexes import NO_ENGINE, EngineIndexes
from gristmill.sources.blobs import BlobStore
from gristmill.work import DeleteBase, DeleteSubtree, RemoveChunkSet

BATCH = 500
_BASE_BATCH = 100  # of a base that is removed as a whole
_STOP_BATCH = 2_000
_RETRY_DELAY = timedelta(milliseconds=200)
_MAX_PAUSE = timedelta(seconds=1)


class Remover:
    """Removes items and bases that are marked as deleting."""

    def __init__(self, db: Database, blobs: BlobStore, indexes: EngineIndexes = NO_ENGINE) -> None:
        self._db, self._blobs, self._indexes = db, blobs, indexes

    async def remove_subtree(self, job: Job) -> Outcome:
        """Remove the subtrees that the job names."""
        work = DeleteSubtree.of(job)
        roots = list(work.root_ids)
        while await self._cancel_waiting_jobs(job):
            pass
        while await self._remove_batch(job, work.base_id, roots):
            await faults.point("remove.batch")
        await uploads.delete_marked(self._db, self._blobs)
        try:
            await self._remove_from_engine(job, work.base_id)
        except IndexUnavailable as error:
            return Snooze(ENGINE_RETRY_DELAY, error)
        await self._finish(job, lambda receipt: ItemsRemoved(work.base_id, work.root_ids, **receipt))
        return Done()

    async def remove_base(self, job: Job) -> Outcome:
        """Remove a base that is marked as deleting, as soon as none of its jobs run."""
        base_id = DeleteBase.of(job).base_id
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            # None if an earlier attempt dropped it; the steps below may still be missing.
            exists = await catalog.find_base_in_any_state(tx, base_id) is not None
            if exists and await jobs.has_other_running_jobs(tx, job):
                return Snooze(_RETRY_DELAY)
        if exists:
            await self._remove_index(job, base_id)
            await self._remove_items(job, base_id)
            try:
                await self._drop_from_engine(job, base_id)
            except IndexUnavailable as error:
                return Snooze(ENGINE_RETRY_DELAY, error)
            async with self._batch(job) as tx:
                await catalog.drop_base(tx, base_id)
            await faults.point("remove.base_dropped")
        await uploads.delete_marked(self._db, self._blobs)
        await self._finish(job, lambda receipt: BaseRemoved(base_id, **receipt), forget_lane=True)
        return Done()

    async def remove_chunk_set(self, job: Job) -> Outcome:
        """Remove a set of chunks that no search reads any more."""
        set_id = RemoveChunkSet.of(job).set_id
        await self._remove_chunks(job, set_id)
        async with self._batch(job) as tx:
            await catalog.drop_chunk_set(tx, set_id)
        await faults.point("remove.set_dropped")
        return Done()

    async def _remove_from_engine(self, job: Job, base_id: BaseId) -> None:
        """Remove from the engine what was deleted from the table. The receipt says that it is gone."""
        async with self._db.connection() as tx:
            base = await catalog.find_base_in_any_state(tx, base_id)
        if base is not None and base.is_in_engine:
            with job.during(Activity.AWAY):
                await remove_deleted(self._db, job, base, await self._indexes.of(base))

    async def _drop_from_engine(self, job: Job, base_id: BaseId) -> None:
        """Remove all points of a base, and note to do it again in case a late worker adds one."""
        async with self._db.connection() as tx:
            base = await catalog.find_base_in_any_state(tx, base_id)
        if base is not None and base.is_in_engine:
            with job.during(Activity.AWAY):
                await (await self._indexes.of(base)).drop(base_id)
            async with self._batch(job) as tx:
                await tasks.queue_drop(tx, base_id)

    @asynccontextmanager
    async def _batch(self, job: Job) -> AsyncGenerator[Tx]:
        """The transaction of one batch, for the holder of the job's lease."""
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            yield tx
            await faults.point("remove.before_commit")

    async def _remove_index(self, job: Job, base_id: BaseId) -> None:
        """Remove the chunks and segments of a base."""
        async with self._db.connection() as tx:
            sets = await catalog.find_chunk_sets(tx, base_id)
        for chunk_set in sets:
            await self._remove_chunks(job, chunk_set.id)

    async def _remove_chunks(self, job: Job, set_id: ChunkSetId) -> None:
        last: int | None = 0
        while last is not None:
            started = time.monotonic()
            async with self._batch(job) as tx:
                dropped = await removal.drop_chunks(tx, set_id, last)
                await _add_to_receipt(tx, job, {"chunks": dropped.chunks})
            last = dropped.last
            await faults.point("remove.batch")
            await _yield_to_others(started)
        has_more = True
        while has_more:
            started = time.monotonic()
            async with self._batch(job) as tx:
                has_more = await removal.drop_segments(tx, set_id)
            await faults.point("remove.batch")
            await _yield_to_others(started)

    async def _remove_items(self, job: Job, base_id: BaseId) -> None:
        """Remove all items of a base."""
        started = time.monotonic()
        while await self._remove_batch(job, base_id, None):
            await faults.point("remove.batch")
            await _yield_to_others(started)
            started = time.monotonic()

    async def _cancel_waiting_jobs(self, job: Job) -> bool:
        """Delete the waiting jobs before the first batch, so that workers don't claim them in the meantime."""
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            return await cancel_waiting_jobs(tx, job.lane, _STOP_BATCH)

    async def _remove_batch(self, job: Job, base_id: BaseId, roots: Sequence[ItemId] | None) -> bool:
        async with self._batch(job) as tx:
            item_ids = await self._next_items(tx, base_id, roots)
            if not item_ids:
                return False
            batch = await catalog.lock_items(tx, item_ids)
            await deletion_report.record_deleted_items(
                tx,
                batch,
                reason=str(job.payload.get("reason", "source")),
                actor=job.payload.get("actor"),
                job_id=job.id,
            )
            await forget_jobs(tx, batch)
            await cancel_conversions(tx, batch)
            chunks = await publish.remove_items(tx, base_id, batch)
            removed = await contents.remove_items(tx, batch)
            counts = {
                "items": removed.items,
                "chunks": chunks,
                "contents": removed.contents,
                "blobs": removed.blobs,
            }
            await _add_to_receipt(tx, job, counts)
        return True

    async def _next_items(self, tx: Tx, base_id: BaseId, roots: Sequence[ItemId] | None) -> list[ItemId]:
        if roots is None:
            return await catalog.childless_items(tx, base_id, min(BATCH, _BASE_BATCH))
        return await catalog.removable_items(tx, roots, BATCH)

    async def _finish(
        self, job: Job, make_event: Callable[[dict[str, int]], Event], *, forget_lane: bool = False
    ) -> None:
        async with self._db.transaction() as tx:
            receipt = {"items": 0, "chunks": 0, "contents": 0, "blobs": 0, **await jobs.load_result(tx, job)}
            await jobs.save_result(tx, job, receipt)
            await jobs.complete(tx, job)
            await events.record(tx, make_event(receipt), cause=job.id)
            if forget_lane:
                await jobs.clear_lane(tx, job.lane)


async def _yield_to_others(started: float) -> None:
    """Pause for twice as long as a batch took since `started`. A base is hidden as a whole, so there is no hurry, and others
    need the database."""
    await clock.pause(min(timedelta(seconds=2 * (time.monotonic() - started)), _MAX_PAUSE))


async def _add_to_receipt(tx: Tx, job: Job, counts: Mapping[str, int]) -> None:
    receipt = await jobs.load_result(tx, job)
    await jobs.save_result(tx, job, receipt | {what: receipt.get(what, 0) + n for what, n in counts.items()})
