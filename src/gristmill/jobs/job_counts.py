"""How many jobs there are, by lane, kind and state, without counting them.

Triggers of the table `job` append to `job_count` what each statement changed, in the transaction that changes it. So the sums are
exact at every moment, whoever was killed. A worker folds them once a second.
"""

from dataclasses import dataclass
from datetime import datetime

from gristmill.db import Tx
from gristmill.identity import OrgId
from gristmill.jobs.store import queries


@dataclass(frozen=True)
class JobCount:
    """How many jobs of a kind are in a state."""

    kind: str
    state: str
    count: int


async def counts(tx: Tx, lane: str | None = None) -> list[JobCount]:
    """Living jobs by kind and state, of one lane or of all."""
    return await queries.many(tx, JobCount, "counts", lane=lane)


async def oldest_waiting_at(tx: Tx, lane: str) -> datetime | None:
    """When the oldest job that waits in a lane was enqueued."""
    return (await queries.values(tx, "oldest_waiting_at", lane=lane))[0]


@dataclass(frozen=True)
class LaneCount:
    """How many jobs of a kind a lane has in a state."""

    lane: str
    kind: str
    state: str
    count: int


async def counts_by_lane(tx: Tx, org: OrgId) -> list[LaneCount]:
    """Living jobs by lane, kind and state; other organisations' lanes are summed up as `other`."""
    return await queries.many(tx, LaneCount, "counts_by_lane", org=org)


async def lanes_with_wrong_counts(tx: Tx, limit: int) -> list[str]:
    """Lanes whose counts are not those of their jobs; none, in a healthy system."""
    return await queries.values(tx, "lanes_with_wrong_counts", limit=limit)


async def correct_counts(tx: Tx) -> int:
    """Make the counts those of the jobs again; how many were wrong. One caller at a time: two would correct twice."""
    return await queries.run(tx, "correct_counts")
