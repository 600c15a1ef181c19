"""What a worker may claim: its free slots, and for each lane how many more jobs it may have here.

a slot             is used by a job that is at work; one that waits for the network or for a place in a stage uses none
a lane may have    its share of the slots (`stage_gate`), and of the jobs that are away; its interactive jobs have a share
                   of what is left, so that a note does not wait for a folder of the same base
backpressure       no more than `PREFETCH` jobs of a lane wait for its first stage: the others stay in the queue, where
                   any worker can claim them
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from gristmill.jobs.job import Activity, Job, Priority
from gristmill.stage_gate import Requester, room

# Jobs of a lane that may wait for their first stage: while some are read, the next ones are opened, in one transaction.
PREFETCH = 24
# Where a lane has more jobs than room, this many are claimed together, or fewer after a while: a claim costs as much for one.
_FAIR_NUMBER = PREFETCH // 2
CLAIM_INTERVAL = timedelta(milliseconds=250)

_USES_SLOT = frozenset({Activity.OPENING, Activity.ACTIVE})
_IS_BACKLOG = frozenset({Activity.OPENING, Activity.BLOCKED})


@dataclass(frozen=True)
class ClaimRoom:
    """How many jobs may be claimed now, in all and of each lane that has jobs here."""

    limit: int
    non_interactive_limit: int
    new_lane: int  # of a lane that has no jobs here
    by_lane: Mapping[str, int] = field(default_factory=dict[str, int])
    interactive_by_lane: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def is_full(self) -> bool:
        """Whether nothing may be claimed."""
        return self.limit <= 0


NO_ROOM = ClaimRoom(0, 0, 0)


@dataclass(frozen=True)
class SlotLimits:
    """How many slots there are, how many of them for interactive jobs only, how many jobs may be away, and a lane's share."""

    slots: int
    reserved: int
    away: int
    share: float
    prefetch: int = PREFETCH


def claim_room(running: Collection[Job], limits: SlotLimits) -> ClaimRoom:
    """What a worker may claim while it runs these jobs."""
    at_work = [job for job in running if job.activity in _USES_SLOT]
    free = limits.slots - len(at_work)
    if free <= 0:
        return NO_ROOM
    others = [job for job in running if job.priority != Priority.INTERACTIVE]
    general_slots = max(1, limits.slots - limits.reserved)
    general_free = min(free, general_slots - sum(job.activity in _USES_SLOT for job in others))
    # In one claim no more than one lane may take: a lane that comes next finds a slot.
    limit = room(0, free, limits.share)
    urgent = [job for job in running if job.priority == Priority.INTERACTIVE]
    return ClaimRoom(
        limit,
        min(limit, room(0, general_free, limits.share)),
        min(limit, limits.prefetch),
        _room_by_lane(running, running, general_free, limits),
        # Jobs that people wait for don't wait for the others of their lane.
        _room_by_lane(running, urgent, free, limits),
    )


def _room_by_lane(
    running: Collection[Job], rivals: Collection[Job], free: int, limits: SlotLimits
) -> dict[str, int]:
    """For each lane that has jobs here, how many more it may have beside its jobs among `rivals`."""
    working = Counter(job.lane for job in rivals if job.activity in _USES_SLOT)
    backlog = Counter(job.lane for job in rivals if job.activity in _IS_BACKLOG)
    absent = Counter(job.lane for job in rivals if job.activity is Activity.AWAY)
    free_away = limits.away - sum(job.activity is Activity.AWAY for job in running)
    return {
        lane: max(
            0,
            min(
                room(working[lane], free, limits.share),
                room(absent[lane], free_away, limits.share) if absent[lane] else free,
                limits.prefetch - backlog[lane],
            ),
        )
        for lane in {job.lane for job in running}
    }


def may_have_left_jobs(capacity: ClaimRoom, claimed: Collection[Job]) -> bool:
    """Whether a claim may have left jobs in the queue for which there is room: it got all it asked for, or divided that among
    lanes. Otherwise it took everything that can be taken until something changes."""
    limit = min(capacity.limit, capacity.non_interactive_limit)
    return bool(claimed) and (len(claimed) >= limit or len({job.lane for job in claimed}) > 1)


def exhausted_lanes(capacity: ClaimRoom, claimed: Collection[Job]) -> set[str]:
    """The lanes of which a claim took as many jobs as there was room for."""
    counts = Counter(job.lane for job in claimed)
    return {lane for lane, count in counts.items() if count >= _lane_room(capacity, lane)}


def has_room_for_any(capacity: ClaimRoom, lanes: Collection[str], seconds_since_claim: float = 0.0) -> bool:
    """Whether there is room again for a fair number of jobs of one of these lanes, or for one job since the last claim was
    made a while ago."""
    needed = 1 if seconds_since_claim >= CLAIM_INTERVAL.total_seconds() else _FAIR_NUMBER
    return any(_lane_room(capacity, lane) >= needed for lane in lanes)


def _lane_room(capacity: ClaimRoom, lane: str) -> int:
    return capacity.by_lane.get(lane, capacity.new_lane)


def short_lanes(capacity: ClaimRoom) -> set[str]:
    """The lanes that may have jobs in the queue for which there was no room."""
    return {lane for lane, left in capacity.by_lane.items() if left < _FAIR_NUMBER}


def has_room_again(job: Job, running: Iterable[Job]) -> bool:
    """Whether a change of the job's activity lets its worker claim more of its lane: at half of the backlog and at its end, so
    that few claims are made."""
    if job.activity in _IS_BACKLOG:
        return False
    backlog = [other for other in running if other.activity in _IS_BACKLOG and other.lane == job.lane]
    return len(backlog) in (0, _FAIR_NUMBER)


def requester(job: Job) -> Requester:
    """The job as one that asks for a place in a stage; while it waits there, it uses no slot."""
    return Requester(
        job.lane, job.priority, partial(job.during, Activity.BLOCKED), partial(job.during, Activity.AWAY)
    )
