"""move: file items under another container of their base, or in another base.

    within a base       one transaction: lock the base → collapse the selection → guards → change the parents → derive the containers
    to another base     one transaction: lock both bases → the same guards → one job. The job builds the chunks in the other base while
                        the items answer where they are, and then moves them with their ids in one transaction (ingest/move_items.py)

    refused             what the source of a container or document lists (it would be listed again), documents of connectors, a
                        container into itself, a place where something of that name is, and a subtree that is being worked on if it is
                        to leave its base, or that a legal hold covers. Who is no admin may not change who sees an item by moving it.

Killed before the commit: nothing happened. Killed after: moved, or the job exists.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, BaseId, Item, ItemId
from gristmill.db import Database, Tx
from gristmill.errors import Conflict, Forbidden, NotFound
from gristmill.events import ItemsChanged
from gristmill.jobs import JobId, NewJob
from gristmill.operations import guards, store
from gristmill.operations.reindex import SubtreeActive
from gristmill.work import MoveItems


@dataclass(frozen=True)
class MoveAccepted:
    """The selection after collapsing, and the job that moves it; None if it has moved already."""

    root_ids: list[ItemId]
    job_id: JobId | None


async def move(
    db: Database,
    base_id: BaseId,
    item_ids: Sequence[ItemId],
    *,
    to_base: BaseId | None = None,
    parent_id: ItemId | None = None,
    may_change_access: bool = True,
) -> MoveAccepted:
    """Move items with everything below them under `parent_id`, or to the top of a base: their own, or `to_base`."""
    target_id = to_base or base_id
    async with db.transaction() as tx:
        bases = {each: await guards.lock_base(tx, each) for each in sorted({base_id, target_id})}
        base, target = bases[base_id], bases[target_id]
        if target.org_id != base.org_id:
            raise NotFound(f"There is no knowledge base {target_id}.", code="base_not_found")
        roots = await guards.outermost_selection(tx, base, item_ids)
        parent = await guards.require_container(tx, target, parent_id)
        if not roots:
            return MoveAccepted([], None)
        await _check(tx, target, roots, parent)
        if not may_change_access and await catalog.would_change_access(
            tx, [item.id for item in roots], target.id, parent_id
        ):
            raise Forbidden(
                "Other people would see these items there. Only admins can change who sees an item.",
                code="access_would_change",
            )
        if target.id == base.id:
            await _move_within(tx, base, roots, parent_id)
            job_id = None
        else:
            job_id = await _queue_move(tx, base, target, roots, parent_id)
        await faults.point("move.before_commit")
    return MoveAccepted([item.id for item in roots], job_id)


async def is_worked_on(tx: Tx, roots: Sequence[ItemId], ids: Sequence[ItemId]) -> bool:
    """Whether something in these subtrees, which have these items, is active or has a living job."""
    return bool(
        await catalog.find_unfinished_items(tx, roots, 1) or await store.find_busy_items(tx, list(ids))
    )


async def _check(tx: Tx, target: Base, roots: Sequence[Item], parent: Item | None) -> None:
    provenance = await catalog.find_provenance(tx, [item.id for item in roots])
    for item in roots:
        if provenance[item.id].is_listed or item.type in ("connector", "record"):
            raise Conflict(
                f"{item.title!r} is where its source lists it, and can't be moved. Move the folder or document that it is in.",
                code="not_movable",
            )
    if parent is not None and await catalog.is_within(tx, parent.id, [item.id for item in roots]):
        raise Conflict("A folder can't be moved into itself. Choose another folder.", code="move_into_itself")
    keyed = [(item, provenance[item.id].source_key) for item in roots]
    taken = await catalog.find_taken_title(tx, target.id, parent.id if parent else None, keyed)
    if taken is not None:
        raise Conflict(
            f"{taken!r} is there already. Rename or delete one of the two first.", code="title_taken"
        )


async def _move_within(tx: Tx, base: Base, roots: Sequence[Item], parent_id: ItemId | None) -> None:
    ids = [item.id for item in roots]
    left = await catalog.parents_of(tx, ids)
    await catalog.set_parent(tx, ids, base.id, parent_id)
    await catalog.derive_statuses(tx, left)
    await catalog.derive_statuses_above(tx, ids)
    await events.record(tx, ItemsChanged(base.id, tuple(ids), ("parent",)))


async def _queue_move(
    tx: Tx, base: Base, target: Base, roots: Sequence[Item], parent_id: ItemId | None
) -> JobId:
    await guards.refuse_held_items(tx, base, [item.id for item in roots])
    guards.refuse_failed_base(target)
    await guards.refuse_expired_base(tx, target)
    ids = [item.id for item in roots]
    if await catalog.has_connector_items(tx, await catalog.subtree_ids(tx, ids)):
        raise Conflict(
            "A connector fills one of these folders. Add the other base to the connector instead.",
            code="not_movable",
        )
    if unfinished := await catalog.find_unfinished_items(tx, ids):
        raise SubtreeActive(unfinished, "Wait until all items are completed or failed.")
    swap = await catalog.last_swap(tx, target.id)
    if target.is_in_engine or (swap is not None and swap.is_open):
        raise Conflict(
            "The other base is in a search engine, or its embedder is being changed: nothing can be moved there now.",
            code="base_not_movable_to",
        )
    if await store.find_living_jobs(tx, target.lane, MoveItems.kind):
        raise Conflict(
            "Items are being moved out of the other base. Try again when that is done.", code="move_under_way"
        )
    work = MoveItems(base.id, tuple(ids), target.id, parent_id)
    (job,) = await jobs.enqueue(tx, NewJob(work, lane=base.lane))
    return job.id
