"""Exchange the embedder or the chunking of a base: the job `swap_embedder`.

    building     the chunks of the items that the new set lacks, from their stored contents, are made in a run of bounded time,
                 then the job goes to the end of the queue; what documents publish meanwhile is missing again
    comparing    both sets answer questions made from the base itself (compare_embedders.py)
    switching    one transaction lets the new set take over. If documents keep publishing, they wait for it, for a bounded time
    switched     the items show the counts of their new chunks, in batches

Every batch is one fenced transaction under the base's shared lock: chunks, their segment, and what is no longer missing. Killed
anywhere, the next attempt goes on with what is missing; a text whose vector is stored is not embedded again.
"""

import time
from datetime import timedelta
from uuid import UUID

from gristmill import catalog, contents, events, faults, jobs
from gristmill.catalog import Base, BaseId, ChunkSet, Swap
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, Embedders
from gristmill.errors import GristmillError, Invalid, Permanent, Transient
from gristmill.events import BaseEmbedderCompared
from gristmill.ingest.build_chunk_set import ChunkSetBuilder
from gristmill.ingest.compare_embedders import EmbedderComparison, compare
from gristmill.ingest.offload import CpuOffload
from gristmill.ingest.open import EmbedderChanged, embedder_of, recipe_of
from gristmill.ingest.reserve import Purse
from gristmill.jobs import Done, Job, Outcome, Snooze
from gristmill.operations.recover import retry_documents
from gristmill.operations.swap_embedder import release, take_over
from gristmill.work import SwapEmbedder

RUN_SECONDS = 10.0  # after which the job lets others run
HELD_ITEMS = 32  # so few missing items are worth holding publications for
HOLD_TIME = timedelta(seconds=30)
_RETRY_DELAY = timedelta(seconds=10)
_REFRESHED_ITEMS = 500  # in one transaction


class EmbedderSwapper:
    """Runs the jobs."""

    def __init__(self, db: Database, embedders: Embedders, offload: CpuOffload) -> None:
        self._db, self._embedders = db, embedders
        self._builder = ChunkSetBuilder(db, offload, Purse(db, embedders))

    async def run(self, job: Job) -> Outcome:
        """Move the swap of a base on until it has ended, waits, or others should have a turn."""
        base_id, started = SwapEmbedder.of(job).base_id, time.monotonic()
        while not await self._complete(job, base_id):
            try:
                await self._step(job, base_id)
            except Transient as error:
                # The embedder is down or paces us: that is no fault of the swap.
                return Snooze(error.retry_after or _RETRY_DELAY, error)
            except Permanent as error:
                await self._refuse(job, base_id, error)
            if time.monotonic() - started > RUN_SECONDS:
                return Snooze(timedelta(0))
        return Done()

    async def _complete(self, job: Job, base_id: BaseId) -> bool:
        """Complete the job if there is nothing to do now. Who gives it something to do holds the base's exclusive lock, and so
        finds it gone, or is seen here."""
        async with self._db.transaction() as tx:
            await catalog.lock_base_shared(tx, base_id)
            await jobs.fence(tx, job)
            base, swap = await catalog.find_base(tx, base_id), await catalog.last_swap(tx, base_id)
            if base is not None and swap is not None and swap.state in ("building", "comparing"):
                return False
            if base is not None and await catalog.find_unrefreshed_swap(tx, base_id) is not None:
                return False
            await jobs.complete(tx, job)
        return True

    async def record_failure(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """Refuse the swap, in the transaction that buries the job."""
        base_id = SwapEmbedder.of(job).base_id
        if await catalog.lock_base(tx, base_id) is not None:
            await _refuse(tx, base_id, error)

    async def _step(self, job: Job, base_id: BaseId) -> None:
        async with self._db.connection() as tx:
            base, swap = await catalog.find_base(tx, base_id), await catalog.last_swap(tx, base_id)
            switched = await catalog.find_unrefreshed_swap(tx, base_id)
            sets = {chunk_set.id: chunk_set for chunk_set in await catalog.find_chunk_sets(tx, base_id)}
        if base is not None and switched is not None:
            await self._refresh(job, base, switched)
        elif base is not None and swap is not None and swap.state == "building":
            await self._build(job, base, swap, sets[swap.set_id])
        elif base is not None and swap is not None and swap.state == "comparing":
            await self._compare(job, base, swap, sets[swap.set_id])

    # ── building and switching ───────────────────────────────────────────────────────────────────────────

    async def _build(self, job: Job, base: Base, swap: Swap, chunk_set: ChunkSet) -> None:
        if await self._builder.build(job, base, swap, chunk_set, await self._embedder_of(base, chunk_set)):
            return
        await faults.point("swap.built")
        if swap.is_approved or not swap.items:
            await self._switch(job, base.id, swap)
            return
        async with self._db.transaction() as tx:
            await catalog.lock_base_shared(tx, base.id)
            await jobs.fence(tx, job)
            await catalog.change_swap(tx, swap.id, ("building",), "comparing")

    async def _switch(self, job: Job, base_id: BaseId, swap: Swap) -> None:
        """Let the new set take over. If documents were published meanwhile, the next ones wait until theirs are built."""
        async with self._db.transaction() as tx:
            base = await catalog.lock_base(tx, base_id)
            await jobs.fence(tx, job)
            current = await catalog.find_swap(tx, swap.id)
            if base is None or current is None or current.state != "building":
                return
            switched = await take_over(tx, base, current)
            if switched is None and await catalog.count_missing(tx, swap.set_id) <= HELD_ITEMS:
                await catalog.hold_publications(tx, base_id, HOLD_TIME)
        await faults.point("swap.held" if switched is None else "swap.after_switch")

    async def _embedder_of(self, base: Base, chunk_set: ChunkSet) -> Embedder:
        try:
            async with self._db.connection() as tx:
                embedder = await self._embedders.find(tx, chunk_set.embedder, base.org_id)
        except Invalid as error:
            raise EmbedderChanged(error.message) from error
        if embedder.identity != chunk_set.embedder_identity:
            raise EmbedderChanged(
                f"The embedder {chunk_set.embedder!r} has changed since the swap began. Ask for it again."
            )
        return embedder

    # ── comparing ────────────────────────────────────────────────────────────────────────────────────────

    async def _compare(self, job: Job, base: Base, swap: Swap, chunk_set: ChunkSet) -> None:
        try:
            async with self._db.connection() as tx:
                old = await embedder_of(tx, base, self._embedders)
        except EmbedderChanged:
            old = None
        await faults.point("swap.comparing")
        new = await self._embedder_of(base, chunk_set)
        comparison = await compare(self._db, base, old, chunk_set, new)
        price = self._embedders.price_of(new)
        cost = {
            "texts": swap.embedded,
            "reused": swap.reused,
            "tokens": swap.tokens,
            "price": None if price is None else round(price * swap.tokens / 1_000_000, 4),
        }
        report = comparison.report() | {"cost": cost}
        async with self._db.transaction() as tx:
            locked = await catalog.lock_base(tx, base.id)
            await jobs.fence(tx, job)
            if locked is None:
                return
            state = _state_after(swap, comparison)
            is_approved = state == "building"
            changed = await catalog.change_swap(
                tx, swap.id, ("comparing",), state, is_approved=is_approved, report=report
            )
            if changed is None:
                return
            if state == "refused":
                await catalog.set_chunk_set_state(tx, swap.set_id, "kept")
            if not is_approved:
                await events.record(tx, BaseEmbedderCompared(base.id, swap.id, swap.embedder, state))
            await faults.point("swap.compared")

    async def _refuse(self, job: Job, base_id: BaseId, error: Permanent) -> None:
        async with self._db.transaction() as tx:
            base = await catalog.lock_base(tx, base_id)
            await jobs.fence(tx, job)
            if base is not None:
                await _refuse(tx, base_id, error)

    # ── after the switch ─────────────────────────────────────────────────────────────────────────────────

    async def _refresh(self, job: Job, base: Base, swap: Swap) -> None:
        """Count the chunks of the items again, note how they were made, and retry documents that had no embedder."""
        try:
            async with self._db.connection() as tx:
                recipe = recipe_of(await embedder_of(tx, base, self._embedders), base.chunking)
        except EmbedderChanged:
            recipe = None  # known again when its documents are indexed
        after: UUID | None = UUID(int=0)
        while after is not None:
            async with self._db.transaction() as tx:
                await catalog.lock_base_shared(tx, base.id)
                await jobs.fence(tx, job)
                current = await catalog.find_base(tx, base.id)
                if current is None or current.chunk_set != swap.set_id:
                    return  # switched again
                items = await catalog.next_items_to_refresh(tx, base.id, after, _REFRESHED_ITEMS)
                await catalog.refresh_items(tx, swap.set_id, items)
                if recipe is not None:
                    await contents.set_recipe(tx, items, recipe)
            after = items[-1] if len(items) == _REFRESHED_ITEMS else None
            await faults.point("swap.refreshed")
        await retry_documents(self._db, base)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await catalog.mark_refreshed(tx, swap)


def _state_after(swap: Swap, comparison: EmbedderComparison) -> catalog.SwapState:
    if swap.gate == "ask" or comparison.verdict == "too_few_questions":
        return "waiting"
    return "building" if comparison.is_good_enough else "refused"


async def _refuse(tx: Tx, base_id: BaseId, error: GristmillError) -> None:
    """End a swap that can't be done: the base stays as it is. The caller holds the base's exclusive lock."""
    swap = await catalog.last_swap(tx, base_id)
    if swap is None or not swap.is_open:
        return
    await catalog.change_swap(
        tx, swap.id, catalog.OPEN_STATES, "refused", code=error.code, message=error.message
    )
    await release(tx, swap)
    await events.record(tx, BaseEmbedderCompared(base_id, swap.id, swap.embedder, "refused"))
