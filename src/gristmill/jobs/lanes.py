"""The lanes of an organisation, their throughput, and the workers: what the queue page shows, and pausing a lane.

A paused lane starts no job, not even one that deletes; running jobs go on to their end. Nothing is lost: jobs wait, and are
shown as waiting, until the lane is resumed.
"""

import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from gristmill.db import Tx
from gristmill.identity import OrgId
from gristmill.jobs.store import queries

MAX_LANES = 200  # lanes that are shown


@dataclass(frozen=True)
class LaneStatus:
    """A lane as it is now; `subject` is the subject of the job that has run longest."""

    lane: str
    paused: bool
    cap: int | None
    waiting: int
    running: int
    dead: int
    subject: UUID | None


@dataclass(frozen=True)
class _ThroughputStep:
    lane: str
    step: int
    done: int


@dataclass(frozen=True)
class WorkerRow:
    """A worker process; `alive` until its lease expires."""

    id: UUID
    info: dict[str, Any]
    started_at: datetime
    heartbeat_at: datetime
    alive: bool
    running: int


async def find_lanes(tx: Tx, org: OrgId) -> list[LaneStatus]:
    """The busiest lanes, at most `MAX_LANES`."""
    return await queries.many(tx, LaneStatus, "lanes", org=org, limit=MAX_LANES)


async def throughput(tx: Tx, org: OrgId, window: timedelta, steps: int) -> Mapping[str, Sequence[int]]:
    """Jobs done by each lane in each of `steps` equal parts of the last `window`."""
    done: dict[str, list[int]] = {}
    for row in await queries.many(tx, _ThroughputStep, "throughput", org=org, window=window, steps=steps):
        done.setdefault(row.lane, [0] * steps)[max(0, row.step)] += row.done
    return done


async def find_workers(tx: Tx) -> list[WorkerRow]:
    """Every registered worker, in the order they started."""
    return await queries.many(tx, WorkerRow, "workers")


async def set_paused(tx: Tx, lane: str, *, paused: bool) -> None:
    """Pause a lane, or resume it."""
    await queries.values(tx, "set_paused", lane=lane, paused=paused)


async def is_paused(tx: Tx, lane: str) -> bool:
    """Whether a lane is paused."""
    return any(await queries.values(tx, "is_paused", lane=lane))


@dataclass(frozen=True)
class Pace:
    """How many jobs a lane has done since its work began, and in how many seconds."""

    lane: str
    done: int
    seconds: float

    def seconds_for(self, jobs: int) -> int:
        """How long so many jobs take."""
        return round(self.seconds * jobs / self.done)


async def pace(tx: Tx, lane: str | None = None) -> dict[str, Pace]:
    """How fast the lanes, or one of them, have worked since their work began; without those that have done nothing yet."""
    return {row.lane: row for row in await queries.many(tx, Pace, "pace", lane=lane)}


def process_info() -> dict[str, str | int]:
    """What the list of workers shows about this process."""
    version = importlib.metadata.version("gristmill")
    return {"host": platform.node(), "pid": os.getpid(), "version": version}
