"""Move subtrees to another base: the job `move_items`.

    build      the chunks of every document, from their stored contents, are written into the other base's set of chunks, as it chunks and
               embeds; a text whose vector the organisation has is not embedded again. Nothing there shows them: the items still belong
               to the old base, which goes on answering
    switch     one transaction under the locks of both bases: nothing in the subtrees is being worked on, and nothing is missing → the items
               belong to the other base, with their ids, versions and contents. Before it every search and list of the old base has
               them, after it every one of the new base: never both, never none
    clean up   the chunks that the old base still has are deleted, in batches; nothing shows them

Killed anywhere, the next attempt goes on: what is built stays, and who owns the items says whether the switch is done. Roots that
are deleted, or moved elsewhere, meanwhile are left out; if the folder they were to go to is gone, they come to the top of the base.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from gristmill import catalog, contents, events, faults, jobs
from gristmill.catalog import Base, ChunkSet, ItemId
from gristmill.db import Database, Tx
from gristmill.embedding import Embedders
from gristmill.errors import Conflict, GristmillError, Permanent, Transient
from gristmill.events import ItemsMoved
from gristmill.ingest.build_chunk_set import ChunkSetBuilder
from gristmill.ingest.index_title import TitleIndexer
from gristmill.ingest.offload import CpuOffload
from gristmill.ingest.open import embedder_of, recipe_of
from gristmill.ingest.preview_chunks import ChunkPreviewer
from gristmill.ingest.reserve import Purse
from gristmill.jobs import Done, Handler, Job, Outcome, Snooze
from gristmill.operations.move import is_worked_on
from gristmill.search import renumber
from gristmill.work import IndexTitle, MoveItems, PreviewChunks

RUN_SECONDS = 10.0  # after which the job lets others run
_RECHECK_DELAY = timedelta(seconds=1)
_RETRY_DELAY = timedelta(seconds=10)
_CLEANED_ITEMS = 200  # in one transaction


@dataclass(frozen=True)
class _Plan:
    """What is to move: from where, where to, and every item of it."""

    base: Base
    target: Base
    roots: Sequence[ItemId]
    ids: Sequence[ItemId]


def tending_handlers(db: Database, embedders: Embedders, offload: CpuOffload) -> dict[str, Handler]:
    """The handlers of jobs that follow from what people change about items."""
    mover = ItemMover(db, embedders, offload)
    return {
        IndexTitle.kind: Handler(TitleIndexer(db, offload).run),
        MoveItems.kind: Handler(mover.run, mover.record_failure),
        PreviewChunks.kind: Handler(ChunkPreviewer(db, embedders, offload).run),
    }


class ItemMover:
    """Runs the jobs."""

    def __init__(self, db: Database, embedders: Embedders, offload: CpuOffload) -> None:
        self._db, self._embedders = db, embedders
        self._builder = ChunkSetBuilder(db, offload, Purse(db, embedders))

    async def run(self, job: Job) -> Outcome:
        """Move the job's items on until they have moved, have to wait, or others should have a turn."""
        started = time.monotonic()
        while (plan := await self._plan(job)) is not None:
            try:
                if (
                    not await self._build(job, plan)
                    and (outcome := await self._switch(job, plan)) is not None
                ):
                    return outcome
            except Transient as error:
                return Snooze(error.retry_after or _RETRY_DELAY, error)
            if time.monotonic() - started > RUN_SECONDS:
                return Snooze(timedelta(0))
        await self._clean_up(job)
        return Done()

    async def record_failure(self, tx: Tx, job: Job, _error: GristmillError) -> None:
        """Delete what was built, in the transaction that buries the job. The items stay where they are."""
        work = MoveItems.of(job)
        ids = await catalog.subtree_ids(tx, work.root_ids)
        await catalog.forget_missing_elsewhere(tx, ids)
        await renumber.drop_from_other_base(tx, work.target_id, ids)

    async def _plan(self, job: Job) -> _Plan | None:
        """What is left to move; None if nothing is."""
        work = MoveItems.of(job)
        async with self._db.connection() as tx:
            base, target = (
                await catalog.find_base(tx, work.base_id),
                await catalog.find_base(tx, work.target_id),
            )
            if base is None:
                return None
            if target is None:
                raise Permanent(
                    "The base to move to was deleted. The items stay where they are.", code="base_not_found"
                )
            return await _find_plan(tx, base, target, work.root_ids)

    # ── build ────────────────────────────────────────────────────────────────────────────────────────────

    async def _build(self, job: Job, plan: _Plan) -> bool:
        """Build some documents in the other base; False when it has them all."""
        target = plan.target
        async with self._db.transaction() as tx:
            await catalog.lock_base_shared(tx, target.id)
            await jobs.fence(tx, job)
            await _note_missing(tx, plan)
            sets = {chunk_set.id: chunk_set for chunk_set in await catalog.find_chunk_sets(tx, target.id)}
            embedder = await embedder_of(tx, target, self._embedders)
        chunk_set: ChunkSet = replace(sets[target.chunk_set], chunking=target.chunking)
        built = await self._builder.build_items(
            job, target, chunk_set, embedder, plan.ids, [plan.base.chunk_set]
        )
        await faults.point("move.built")
        return built

    # ── switch ───────────────────────────────────────────────────────────────────────────────────────────

    async def _switch(self, job: Job, plan: _Plan) -> Outcome | None:
        """Let the items belong to the other base; an outcome if that has to wait."""
        async with self._db.transaction() as tx:
            for base_id in sorted((plan.base.id, plan.target.id)):
                await catalog.lock_base(tx, base_id)
            await jobs.fence(tx, job)
            base = await catalog.find_base(tx, plan.base.id)
            target = await catalog.find_base(tx, plan.target.id)
            if base is None or target is None or target.chunk_set != plan.target.chunk_set:
                return None  # the next step decides
            current = await _find_plan(tx, base, target, plan.roots)
            if current is None:
                return None
            if await is_worked_on(tx, current.roots, current.ids):
                reason = Conflict(
                    "Something in it is being indexed. It moves when that is done.", code="subtree_active"
                )
                return Snooze(_RECHECK_DELAY, reason)
            await _note_missing(tx, current)
            if not await catalog.still_missing(tx, target.chunk_set, current.ids):
                await self._hand_over(tx, job, current)
        await faults.point("move.switched")
        return None

    async def _hand_over(self, tx: Tx, job: Job, plan: _Plan) -> None:
        target, ids = plan.target, list(plan.ids)
        parent_id = MoveItems.of(job).parent_id
        if parent_id is not None:
            parent = await catalog.find_item(tx, parent_id)
            if parent is None or parent.base_id != target.id:
                parent_id = None
        left = await catalog.parents_of(tx, plan.roots)
        await catalog.set_parent(tx, plan.roots, target.id, parent_id)
        await catalog.refresh_items(tx, target.chunk_set, ids)
        embedder = await embedder_of(tx, target, self._embedders)
        await contents.set_recipe(tx, ids, recipe_of(embedder, target.chunking))
        await catalog.forget_missing_elsewhere(tx, ids)
        await catalog.mark_missing(tx, ids)
        await jobs.dismiss_dead_by_subject(tx, ids)
        await catalog.derive_statuses(tx, left)
        await catalog.derive_statuses_above(tx, plan.roots)
        await catalog.touch_bases(tx, [plan.base.id, target.id])
        moved = [
            ItemsMoved(base_id, tuple(plan.roots), len(ids), plan.base.id, target.id)
            for base_id in (plan.base.id, target.id)
        ]
        await events.record(tx, *moved, cause=job.id)
        await faults.point("move.before_switch")

    # ── clean up ─────────────────────────────────────────────────────────────────────────────────────────

    async def _clean_up(self, job: Job) -> None:
        """Delete the chunks of these items in the base of the two that they do not belong to."""
        work = MoveItems.of(job)
        async with self._db.connection() as tx:
            ids = await catalog.subtree_ids(tx, work.root_ids)
        for start in range(0, len(ids), _CLEANED_ITEMS):
            batch = ids[start : start + _CLEANED_ITEMS]
            async with self._db.transaction() as tx:
                await catalog.lock_bases_shared(tx, [work.base_id, work.target_id])
                await jobs.fence(tx, job)
                await catalog.forget_missing_elsewhere(tx, batch)
                await renumber.drop_from_other_base(tx, work.base_id, batch)
                await renumber.drop_from_other_base(tx, work.target_id, batch)
            await faults.point("move.cleaned")


async def _find_plan(tx: Tx, base: Base, target: Base, roots: Sequence[ItemId]) -> _Plan | None:
    """What is left to move of these roots."""
    items = await catalog.find_items(tx, list(roots))
    left = [item.id for item in items if item.base_id == base.id and item.status != "deleting"]
    return _Plan(base, target, left, await catalog.subtree_ids(tx, left)) if left else None


async def _note_missing(tx: Tx, plan: _Plan) -> None:
    """Note which documents the other base lacks."""
    built = await renumber.items_with_chunks(tx, plan.target.chunk_set, plan.ids)
    await catalog.mark_missing_in(tx, plan.target.chunk_set, plan.ids, built)
