"""swap_embedder: exchange the embedder or the chunking of a base while it answers; approve, cancel, revert.

    swap        transaction: lock the base → a set of chunks that lacks everything, or one that was kept → one job
    approve     waiting | refused → building: it takes over as soon as nothing is missing
    cancel      any state but the last → cancelled; the new chunks are removed
    revert      back to the chunks before: at once if nothing was published since, else after what changed is built there too
    take_over   the switch itself: one transaction under the base's exclusive lock

What the job does is in `ingest/swap.py`. Killed anywhere, the old chunks answer until the transaction of `take_over`.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from gristmill import catalog, events, faults, jobs, usage
from gristmill.catalog import Base, BaseId, BaseStatus, ChunkSet, ChunkSetId, Swap, SwapGate
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, Embedders, hold_embedder
from gristmill.errors import Conflict, NotFound
from gristmill.events import BaseEmbedderSwitched, BaseRestored
from gristmill.jobs import NewJob
from gristmill.operations import guards
from gristmill.operations.bases import check_chunk_size, chunking_with
from gristmill.search import publish
from gristmill.work import RemoveChunkSet, SwapEmbedder


async def swap(
    db: Database,
    base_id: BaseId,
    embedder: Embedder,
    chunking_changes: Mapping[str, Any] | None = None,
    gate: SwapGate = "auto",
) -> Swap:
    """Begin to build the chunks of a base with another embedder or another chunking. The same request again returns the swap
    that it began."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        await hold_embedder(tx, embedder)
        chunking = chunking_with(base, chunking_changes or {})
        check_chunk_size(chunking, embedder)
        _require_embedded_index(base)
        sets = {chunk_set.id: chunk_set for chunk_set in await catalog.find_chunk_sets(tx, base_id)}
        last = await catalog.last_swap(tx, base_id)
        if last is not None and last.is_open:
            if _is_made_with(sets[last.set_id], embedder, chunking):
                return last
            raise _under_way()
        if (base.embedder_identity, base.chunking) == (embedder.identity, chunking):
            if last is not None and last.state == "switched" and last.set_id == base.chunk_set:
                return last
            raise Conflict(
                f"The base has the embedder {base.embedder!r} and this chunking already.",
                code="swap_unchanged",
            )
        chunk_set = next((each for each in sets.values() if _is_spare(each, embedder, chunking)), None)
        if chunk_set is None:
            chunk_set = await catalog.insert_chunk_set(
                tx,
                base_id,
                embedder=embedder.name,
                identity=embedder.identity,
                dimensions=embedder.dimensions,
                chunking=chunking,
            )
            await catalog.mark_all_missing(tx, base_id, chunk_set.id)
        begun = await _begin(tx, base, chunk_set, gate)
        await faults.point("swap.begun")
        return begun


async def _begin(tx: Tx, base: Base, chunk_set: ChunkSet, gate: SwapGate, *, is_revert: bool = False) -> Swap:
    items = await catalog.count_missing(tx, chunk_set.id)
    await catalog.set_chunk_set_state(tx, chunk_set.id, "building")
    begun = await catalog.insert_swap(
        tx,
        base.id,
        set_id=chunk_set.id,
        previous_set=base.chunk_set,
        embedder=chunk_set.embedder,
        previous_embedder=base.embedder,
        gate=gate,
        is_approved=gate == "off",
        is_revert=is_revert,
        items=items,
    )
    await usage.name_caller(tx, begun.id)
    await _enqueue(tx, base)
    return begun


async def approve(db: Database, base_id: BaseId) -> Swap:
    """Let the new chunks take over that were compared: the owner decides."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        last = await require_swap(tx, base_id)
        _require_embedded_index(base)
        if last.is_approved or last.state == "switched":
            return last
        if last.state not in ("waiting", "refused"):
            raise Conflict(
                f"The swap is {last.state}. It can be approved once both embedders have been compared.",
                code="swap_not_waiting",
            )
        if not await catalog.set_chunk_set_state(tx, last.set_id, "building"):
            raise Conflict(
                "The chunks of this swap are gone. Request the change of the embedder again.",
                code="nothing_to_revert",
            )
        approved = await catalog.change_swap(
            tx, last.id, ("waiting", "refused"), "building", is_approved=True
        )
        await _enqueue(tx, base)
        assert approved is not None
        return approved


async def cancel(db: Database, base_id: BaseId) -> Swap:
    """End a swap: the base stays as it is, and the new chunks are removed."""
    async with db.transaction() as tx:
        await guards.lock_base(tx, base_id)
        last = await require_swap(tx, base_id)
        if last.state == "cancelled":
            return last
        if last.state == "switched":
            raise Conflict(
                "The embedder has been switched already. To go back, revert it.", code="swap_ended"
            )
        cancelled = await catalog.change_swap(
            tx, last.id, ("building", "comparing", "waiting", "refused"), "cancelled"
        )
        await release(tx, last)
        await faults.point("swap.cancelled")
        assert cancelled is not None
        return cancelled


async def revert(db: Database, base_id: BaseId, embedders: Embedders) -> Swap:
    """Go back to the chunks before the last switch. If nothing was published since, they answer when this returns."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        _require_embedded_index(base)
        last = await require_swap(tx, base_id)
        if last.is_open:
            if last.is_revert:
                return last
            raise _under_way()
        sets = {chunk_set.id: chunk_set for chunk_set in await catalog.find_chunk_sets(tx, base_id)}
        previous = sets.get(last.previous_set)
        if last.state != "switched" or previous is None or previous.state != "kept":
            raise Conflict(
                "There is nothing to go back to: the chunks of an earlier embedder are not kept any more. Change "
                "the embedder instead: `gristmill base embedder BASE EMBEDDER`.",
                code="nothing_to_revert",
            )
        embedder = await embedders.find(tx, previous.embedder, base.org_id)
        if embedder.identity != previous.embedder_identity:
            raise Conflict(
                f"The embedder {previous.embedder!r} has changed since these vectors were made. Change the base to it: `gristmill base embedder BASE EMBEDDER`.",
                code="embedder_changed",
            )
        reverted = await _begin(tx, base, previous, "off", is_revert=True)
        await faults.point("swap.revert_begun")
        reverted = await take_over(tx, base, reverted) or reverted
    await faults.point("swap.reverted")
    return reverted


async def take_over(tx: Tx, base: Base, swap: Swap) -> Swap | None:
    """Let a set of chunks take over that lacks nothing; None if it lacks something. The caller holds the base's exclusive
    lock. Documents that are being indexed notice it, and are tried again with the new embedder."""
    if await catalog.count_missing(tx, swap.set_id):
        return None
    await publish.discard_begun(tx, base)
    await catalog.switch_chunk_set(tx, base.id, swap.set_id)
    for chunk_set in await catalog.find_chunk_sets(tx, base.id):
        if chunk_set.state == "kept" and chunk_set.id != swap.previous_set:
            await remove_set(tx, base.id, chunk_set.id)
    switched = await catalog.change_swap(tx, swap.id, ("building",), "switched")
    assert switched is not None
    await catalog.mark_refreshed(tx, switched, earlier=True)
    if base.status is BaseStatus.FAILED and base.error_code == "embedder_changed":
        await catalog.set_base_status(tx, base.id, BaseStatus.READY)
        await events.record(tx, BaseRestored(base.id))
    await events.record(
        tx, BaseEmbedderSwitched(base.id, swap.id, swap.embedder, swap.previous_embedder), cause=swap.id
    )
    await faults.point("swap.before_switch")
    return switched


async def release(tx: Tx, swap: Swap) -> None:
    """Let go of the chunks of a swap that has ended without a switch: those of an earlier embedder are kept."""
    await catalog.hold_publications(tx, swap.base_id, timedelta(0))
    if swap.is_revert:
        await catalog.set_chunk_set_state(tx, swap.set_id, "kept")
    else:
        await remove_set(tx, swap.base_id, swap.set_id)


async def remove_set(tx: Tx, base_id: BaseId, set_id: ChunkSetId) -> None:
    """Queue the removal of chunks that no search reads."""
    if await catalog.set_chunk_set_state(tx, set_id, "removing"):
        await jobs.enqueue(tx, NewJob(RemoveChunkSet(base_id, set_id), lane=str(base_id)))


async def _enqueue(tx: Tx, base: Base) -> None:
    await jobs.enqueue(tx, NewJob(SwapEmbedder(base.id), lane=base.lane))


async def require_swap(tx: Tx, base_id: BaseId) -> Swap:
    """The latest swap of a base."""
    last = await catalog.last_swap(tx, base_id)
    if last is None:
        raise NotFound(
            "The embedder of this base has never been changed. Ask for another one first.",
            code="swap_not_found",
        )
    return last


def _require_embedded_index(base: Base) -> None:
    if base.is_in_engine:
        raise Conflict(
            "The embedder of a base in a search engine can't be changed. Move the base to the embedded index, change its "
            "embedder, and move it back.",
            code="swap_needs_embedded_index",
        )


def _is_made_with(chunk_set: ChunkSet, embedder: Embedder, chunking: dict[str, Any]) -> bool:
    return (chunk_set.embedder_identity, chunk_set.chunking) == (embedder.identity, chunking)


def _is_spare(chunk_set: ChunkSet, embedder: Embedder, chunking: dict[str, Any]) -> bool:
    """Whether a set is kept that was made just so."""
    return chunk_set.state == "kept" and _is_made_with(chunk_set, embedder, chunking)


def _under_way() -> Conflict:
    return Conflict(
        "Another change of this base's embedder is under way. Wait until it has ended, or cancel it.",
        code="swap_under_way",
    )
