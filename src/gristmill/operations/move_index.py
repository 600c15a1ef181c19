"""move_index: let another index of a base take over, once it has everything. Until then the old one answers.
rebuild_index: build the index of a base again, while it answers.

    transaction     lock the base → note which index is to be filled → one job

From then on everything that is written goes into both. Documents that were being written notice it, and are tried again.
Segments of the embedded index are built again one by one, by compaction.
"""

from gristmill import catalog, faults, jobs
from gristmill.catalog import Base, BaseId, IndexKind
from gristmill.db import Database, Tx
from gristmill.errors import Conflict
from gristmill.jobs import JobId, NewJob
from gristmill.operations import guards
from gristmill.search import compaction
from gristmill.search.index import tasks
from gristmill.work import CompactBase, MoveIndex


async def move_index(db: Database, base_id: BaseId, to: IndexKind) -> JobId:
    """Begin to fill another index of a base; the job that does it."""
    async with db.transaction() as tx:
        base = await _lock_settled_base(tx, base_id)
        if to == base.index_kind:
            place = "the embedded index" if to == "embedded" else "the search engine"
            raise Conflict(
                f"This base is in {place} already. To build its index again, rebuild it.",
                code="index_unchanged",
            )
        return await _fill(tx, base, to)


async def rebuild_index(db: Database, base_id: BaseId) -> JobId:
    """Begin to build the index of a base again, from the texts and vectors in the tables; the job that does it."""
    async with db.transaction() as tx:
        base = await _lock_settled_base(tx, base_id)
        if base.index_kind != "embedded":
            return await _fill(tx, base, base.index_kind)
        await compaction.mark_for_rebuild(tx, base.chunk_set)
        (job,) = await jobs.enqueue(tx, NewJob(CompactBase(base_id), lane=base.lane))
    return job.id


async def _lock_settled_base(tx: Tx, base_id: BaseId) -> Base:
    base = await guards.lock_base(tx, base_id)
    if base.index_fill is not None:
        action = "rebuilt" if base.is_rebuilding else f"moved to {base.index_fill}"
        raise Conflict(
            f"The index of this base is being {action}. Wait until that has ended.", code="index_moving"
        )
    swap = await catalog.last_swap(tx, base_id)
    if swap is not None and swap.is_open:
        raise Conflict(
            "The embedder of this base is being changed. Wait until that has ended, or cancel it.",
            code="swap_under_way",
        )
    return base


async def _fill(tx: Tx, base: Base, index: IndexKind) -> JobId:
    await catalog.fill_index(tx, base.id, index)
    await faults.point("move_index.begun")
    # No one else writes while this transaction holds the lock.
    work = MoveIndex(base.id, until=await tasks.last_number(tx, base.id))
    (job,) = await jobs.enqueue(tx, NewJob(work, lane=base.lane))
    return job.id
