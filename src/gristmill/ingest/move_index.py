"""Move a base from one index to the other, or build its index in a search engine again: the job `move_index`.

    to a search engine       put tasks for all chunks of the base; `update_index` does them, as any other
    again                    the same for live versions; points that are there are overwritten, then the sweep removes others
    to the embedded index    segments of all chunks that were there when the move began, a portion in each transaction
    then                     one transaction lets the new index take over, if nothing is missing
    at last                  what the old index has of the base is removed

While it lasts, the old index answers, and new versions are written to both. Vectors are in the table: nothing is embedded
again. Killed anywhere, the next attempt goes on after the last transaction; the job's result says how far it is.
"""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

from gristmill import catalog, faults, jobs
from gristmill.catalog import Base, BaseId
from gristmill.db import Database
from gristmill.jobs import Activity, Done, Job, NewJob, Outcome, Snooze
from gristmill.search import publish, removal, segment
from gristmill.search.index import tasks
from gristmill.search.index.engine import IndexUnavailable
from gristmill.search.index.engine_indexes import EngineIndexes
from gristmill.work import MoveIndex, SweepIndex

ENGINE_RETRY_DELAY = timedelta(seconds=10)
_RECHECK_DELAY = timedelta(seconds=1)
_ITEMS = 200  # whose chunks become put tasks in one transaction
_CHUNKS = 2_000  # of one segment


class IndexMover:
    """Runs the jobs."""

    def __init__(self, db: Database, indexes: EngineIndexes) -> None:
        self._db, self._indexes = db, indexes

    async def move(self, job: Job) -> Outcome:
        """Fill the new index, let it take over, and clear the old one."""
        base_id = MoveIndex.of(job).base_id
        base = await self._base(base_id)
        if base is None:
            return Done()
        try:
            if base.index_fill == "opensearch":
                if not await self._fill_engine(job, base):
                    return Snooze(_RECHECK_DELAY)
            elif base.index_fill == "embedded":
                await self._fill_segments(job, base)
                await self._switch(job, base_id)
            await self._clear_old_index(job, base_id)
        except IndexUnavailable as error:
            return Snooze(ENGINE_RETRY_DELAY, error)
        return Done()

    async def _base(self, base_id: BaseId) -> Base | None:
        async with self._db.connection() as tx:
            return await catalog.find_base(tx, base_id)

    async def _fill_engine(self, job: Job, base: Base) -> bool:
        """Open put tasks for all chunks; whether the engine has all of them by now, and has taken over."""
        with job.during(Activity.AWAY):
            await self._indexes.of(base)
        progress = await self._progress(job)
        after = UUID(progress["item"]) if "item" in progress else UUID(int=0)
        while not progress.get("is_queued"):
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                last = await tasks.open_all_puts(tx, base.id, after, _ITEMS, only_live=base.is_rebuilding)
                after = last or after
                progress = {"item": str(after), "is_queued": last is None}
                await jobs.save_result(tx, job, progress)
            await faults.point("move_index.step")
        return await self._switch(job, base.id)

    async def _fill_segments(self, job: Job, base: Base) -> None:
        """Write segments of the chunks that were written before the move began; later ones have theirs."""
        until, after = MoveIndex.of(job).until, (await self._progress(job)).get("after", 0)
        is_last = False
        while not is_last:
            async with self._db.connection() as tx:
                texts, vectors = await tasks.next_chunks(tx, base.id, after=after, until=until, limit=_CHUNKS)
            is_last = not texts
            if texts:
                new = await asyncio.to_thread(segment.build, texts, segment.pack_signs(vectors))
                after = texts[-1].no
                async with self._db.transaction() as tx:
                    await jobs.fence(tx, job)
                    await publish.add_segment(tx, base.chunk_set, new)
                    await jobs.save_result(tx, job, {"after": after})
                await faults.point("move_index.step")

    async def _switch(self, job: Job, base_id: BaseId) -> bool:
        """Let the new index take over, unless chunks of live versions still wait for the engine."""
        async with self._db.transaction() as tx:
            base = await catalog.lock_base(tx, base_id)
            await jobs.fence(tx, job)
            if base is None:
                return True
            if base.index_fill == "opensearch" and await tasks.has_live_puts(tx, base_id):
                return False
            if base.is_rebuilding:
                await jobs.enqueue(tx, NewJob(SweepIndex(base_id), lane=base.lane))
            await catalog.switch_index(tx, base_id)
            await faults.point("move_index.before_switch")
        return True

    async def _clear_old_index(self, job: Job, base_id: BaseId) -> None:
        base = await self._base(base_id)
        if base is None:
            return
        if base.index_kind == "embedded":
            with job.during(Activity.AWAY):
                await self._indexes.drop(base_id)
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                await tasks.forget_base(tx, base_id)
                await tasks.queue_drop(
                    tx, base_id
                )  # again later: a document that is being written may add points
            return
        has_more = True
        while has_more:
            async with self._db.transaction() as tx:
                await jobs.fence(tx, job)
                has_more = await removal.drop_only_segments(tx, base.chunk_set)

    async def _progress(self, job: Job) -> dict[str, Any]:
        async with self._db.connection() as tx:
            return await jobs.load_result(tx, job)
