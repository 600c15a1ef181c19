"""Bring the search engine up to date with a base: the jobs `update_index` and `sweep_index`.

    remove     numbers of deleted chunks        → removed there, then forgotten
    put        chunks of a live version         → read from the table, lexed, put; such as the description of an image
    relabel    items with other labels          → computed from the tables at this moment, and set

A task is deleted in a fenced transaction after the engine has acknowledged it. Killed before that, it is done again, which
changes nothing. Until then a search finds what is missing in the engine by SQL (`search/engine_search.py`).

The sweep compares all numbers that the engine has with the table. A chunk's row is committed before its point is put, so a
point without a row is an orphan: of a worker that was slow to notice that its document was deleted. It is removed and counted.
A live chunk without a point, such as after the loss of an index, is put. A base that is being moved or rebuilt is left alone.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta

from gristmill import catalog, clock, faults, jobs
from gristmill.catalog import Base, BaseId, ItemId
from gristmill.db import Database
from gristmill.db.outage import Outage
from gristmill.errors import GristmillError
from gristmill.ingest.embed import Vector
from gristmill.jobs import Activity, Done, Job, NewJob, Outcome, Snooze
from gristmill.search import segment
from gristmill.search.index import tasks
from gristmill.search.index.engine import EngineIndex, IndexUnavailable, Labels, Point
from gristmill.search.index.engine_indexes import EngineIndexes
from gristmill.search.index.pending_put import LexedChunks, PendingPut
from gristmill.search.index.tasks import PutTask
from gristmill.search.segment import ChunkText
from gristmill.telemetry import index_metrics
from gristmill.work import SweepIndex, UpdateIndex

log = logging.getLogger(__name__)

ENGINE_RETRY_DELAY = timedelta(seconds=10)
_CHECK_INTERVAL = timedelta(seconds=1)
_NUMBERS = 1_000  # chunks that one request removes
_TASKS = 100
_POINTS = 500  # that one request puts


async def queue_updates(db: Database) -> int:
    """Queue the job of every base that has tasks; how many. Cheap enough to run every second."""
    async with db.transaction() as tx:
        bases = await tasks.bases_with_tasks(tx)
        queued = await jobs.enqueue(
            tx, *(NewJob(UpdateIndex(base_id), lane=str(base_id)) for base_id in sorted(bases))
        )
    return sum(job.created for job in queued)


async def keep_queueing(db: Database) -> None:
    """Queue jobs until cancelled. What a failed check missed is found by the next one, in any worker."""
    outage, failures = Outage(log, "the database"), Outage(log, "the queueing of index updates")
    while True:
        await clock.pause(_CHECK_INTERVAL)
        try:
            await queue_updates(db)
            outage.clear()
            failures.clear()
        except GristmillError as error:
            await outage.wait(error.message)
        except Exception as error:  # a bug must not end the loop: deleted chunks would stay in the engine
            await failures.wait_unexpected(error)


class IndexUpdater:
    """Runs the jobs."""

    def __init__(self, db: Database, indexes: EngineIndexes) -> None:
        self._db, self._indexes = db, indexes

    async def update(self, job: Job) -> Outcome:
        """Do the tasks of a base until none is left."""
        base_id = UpdateIndex.of(job).base_id
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            base = await catalog.find_base(tx, base_id)
            await tasks.forget_stale_puts(tx, base_id)
        if base is None or not base.is_in_engine:
            return Done()
        try:
            with job.during(Activity.AWAY):
                index = await self._indexes.of(base)
                await remove_deleted(self._db, job, base, index)
                while await self._put_live_chunks(job, base, index):
                    await faults.point("update_index.step")
                while await self._relabel(job, base_id, index):
                    await faults.point("update_index.step")
        except IndexUnavailable as error:
            return Snooze(ENGINE_RETRY_DELAY, error)
        return Done()

    async def _put_live_chunks(self, job: Job, base: Base, index: EngineIndex) -> bool:
        async with self._db.connection() as tx:
            opened = await tasks.live_puts(tx, base.id, _TASKS)
        async with self._db.connection() as tx:
            # After the tasks: an index that is being built again stays so until all of them are closed.
            current = await catalog.find_base(tx, base.id)
        replace = current is not None and current.is_rebuilding
        points: list[Point] = []
        pending: list[int] = []
        for position, put in enumerate(opened, start=1):
            points += await self._points_of(base.id, put)
            pending.append(put.id)
            if len(points) >= _POINTS or position == len(opened):
                await index.put(points, replace=replace)
                await self._close(job, pending)
                points, pending = [], []
        return bool(opened)

    async def _points_of(self, base_id: BaseId, put: PutTask) -> list[Point]:
        """The points of a task's chunks, with the labels of this moment; none, if the item is gone."""
        async with self._db.connection() as tx:
            texts, vectors = await tasks.chunks_of_put(tx, put)
            labels = await tasks.labels(tx, [put.item_id])
        if put.item_id not in labels:
            return []
        return await asyncio.to_thread(_points, base_id, put, texts, vectors, labels[put.item_id])

    async def _relabel(self, job: Job, base_id: BaseId, index: EngineIndex) -> bool:
        async with self._db.connection() as tx:
            # The tasks before the labels: a change after this one is a task of its own.
            changed = await tasks.relabels(tx, base_id, _TASKS)
        async with self._db.connection() as tx:
            labels = await tasks.labels(tx, [task.item_id for task in changed])
        items_by_labels: dict[str, list[ItemId]] = {}
        by_key: dict[str, Labels] = {}
        for item_id, item_labels in labels.items():
            by_key[item_labels.key] = item_labels
            items_by_labels.setdefault(item_labels.key, []).append(item_id)
        for key, item_ids in items_by_labels.items():
            await index.relabel(base_id, item_ids, by_key[key])
        await self._close(job, [task.id for task in changed])
        return bool(changed)

    async def _close(self, job: Job, ids: Sequence[int]) -> None:
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await tasks.close(tx, ids)

    # ── the sweep ────────────────────────────────────────────────────────────────────────────────────────

    async def sweep(self, job: Job) -> Outcome:
        """Compare what the engine has of a base with the table; a base that is gone, or has left, is dropped again."""
        base_id = SweepIndex.of(job).base_id
        async with self._db.connection() as tx:
            base = await catalog.find_base_in_any_state(tx, base_id)
        try:
            with job.during(Activity.AWAY):
                if base is None or not base.is_in_engine:
                    await self._indexes.drop(base_id)
                elif base.index_fill is None:  # one that is being filled lacks what it is about to get
                    await self._sweep_base(job, base_id, await self._indexes.of(base))
        except IndexUnavailable as error:
            return Snooze(ENGINE_RETRY_DELAY, error)
        return Done()

    async def _sweep_base(self, job: Job, base_id: BaseId, index: EngineIndex) -> None:
        async with self._db.connection() as tx:
            end = await tasks.last_number(tx, base_id)
        after, is_last = 0, False
        while not is_last:
            page = [no for no, _, _ in await index.scan(base_id, after)]
            is_last = not page
            until = max(end, after) if is_last else min(page[-1], end)
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                existing = await tasks.existing_numbers(tx, base_id, page)
                missing = await tasks.open_missing_puts(tx, base_id, page, after=after, until=until)
            if missing:
                log.error("the search engine had lost chunks", extra={"base": base_id, "versions": missing})
                index_metrics.count_missing(missing)
            if orphans := [no for no in page if no not in existing]:
                await index.remove(base_id, orphans)
                log.warning("removed orphans from the search engine", extra={"points": len(orphans)})
                index_metrics.count_orphans(len(orphans))
            after = page[-1] if page else after


async def remove_deleted(db: Database, job: Job, base: Base, index: EngineIndex) -> None:
    """Remove from the engine all chunks of a base that were deleted from the table until now."""
    async with db.connection() as tx:
        announced = await tasks.removals(tx, base.id)
    while True:
        async with db.connection() as tx:
            numbers = await tasks.numbers_to_remove(tx, base.chunk_set, _NUMBERS)
        if numbers:
            await index.remove(base.id, numbers)
            await faults.point("update_index.removed")
        async with db.transaction() as tx:
            await jobs.fence(tx, job)
            if not numbers:
                await tasks.close(tx, announced)
                return
            await tasks.forget_removed(tx, base.chunk_set, numbers)


def _points(
    base_id: BaseId, put: PutTask, texts: Sequence[ChunkText], vectors: Sequence[Vector], labels: Labels
) -> list[Point]:
    """The points of chunks that were read from the table."""
    lexed = LexedChunks(segment.build(texts, segment.pack_signs(vectors)))
    return PendingPut(base_id, put, [text.no for text in texts], vectors, lexed).points(labels)
