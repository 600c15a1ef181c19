"""Queue checks for the bases that have something due: the job `find_due`, fired by one schedule once a minute.

Nothing waits in the queue between two checks: an item that is to be checked next week is a row of `item_refresh`, found by its
index. Each base with something due gets one job, in its own lane and at bulk priority, however many items that are.
"""

from gristmill import jobs
from gristmill.catalog import refresh
from gristmill.db import Database
from gristmill.jobs import Done, Job, NewJob, Outcome, Schedule
from gristmill.work import FindDue, RefreshDocuments

LANE = "refresh"
_EVERY_MINUTE = "* * * * *"


def due_schedule() -> Schedule:
    """When the rows are looked at."""
    return Schedule(LANE, _EVERY_MINUTE, FindDue(), lane=LANE)


class DueFinder:
    """Finds bases with sources to be checked."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find(self, job: Job) -> Outcome:
        """Queue one job for each base with something due; a base whose job is still at work gets none."""
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            bases = await refresh.find_due_bases(tx)
            await jobs.enqueue(tx, *(NewJob(RefreshDocuments(base), lane=str(base)) for base in bases))
            await jobs.complete(tx, job)
        return Done()
