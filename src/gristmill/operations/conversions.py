"""Conversions that nobody wants any more are called off, in the transaction that makes it so, by a job of its own each."""

from collections.abc import Sequence

from gristmill import catalog, jobs
from gristmill.catalog import ItemId
from gristmill.db import Tx
from gristmill.jobs import NewJob
from gristmill.work import CancelConversion

LANE = "conversions"


async def cancel_conversions(tx: Tx, ids: Sequence[ItemId], *, notify: bool = True) -> int:
    """Forget the conversions of these items, and have their processors told; how many there were."""
    dropped = await catalog.drop_conversions(tx, ids)
    cancellations = [
        CancelConversion(row.processor, row.remote_id) for row in dropped if row.remote_id is not None
    ]
    if notify:
        await jobs.enqueue(tx, *(NewJob(cancellation, lane=LANE) for cancellation in cancellations))
    return len(dropped)
