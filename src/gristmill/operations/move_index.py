"""move_index: let another index of a base take over, once it has everything. Until then the old one answers.

    transaction     lock the base → note which index is to be filled → one job

From then on everything that is written goes into both. Documents that were being written notice it, and are tried again.
"""

from gristmill import catalog, faults, jobs
from gristmill.catalog import BaseId, IndexKind
from gristmill.db import Database
from gristmill.errors import Conflict
from gristmill.jobs import JobId, NewJob
from gristmill.operations import guards
from gristmill.search.index import tasks
from gristmill.work import MoveIndex


async def move_index(db: Database, base_id: BaseId, to: IndexKind) -> JobId:
    """Begin to fill an index of a base; the job that does it. An index that answers already is filled with what it lacks."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        if base.index_fill is not None:
            raise Conflict(
                f"This base is being moved already, to {base.index_fill}. Wait until that has ended.",
                code="index_moving",
            )
        if to == "embedded" and base.index_kind == "embedded":
            raise Conflict("This base is in the embedded index already.", code="index_unchanged")
        await catalog.fill_index(tx, base_id, to)
        await faults.point("move_index.begun")
        # No one else writes while this transaction holds the lock.
        work = MoveIndex(base_id, until=await tasks.last_number(tx, base_id))
        (job,) = await jobs.enqueue(tx, NewJob(work, lane=base.lane))
    return job.id
