"""The queue of all lanes, and the workers."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from gristmill.server.api.schemas.common import ApiModel

LaneKind = Literal["base", "connector", "webhook", "other"]


class LaneOut(ApiModel):
    """The queue of one base, connector or webhook. `working` is the title of the item that has been running longest;
    `done` counts finished jobs per step; `etaSeconds` is null while the rate is unknown."""

    lane: str
    kind: LaneKind
    id: UUID | None
    name: str
    running: int
    slots: int
    waiting: int
    dead: int
    paused: bool
    working: str | None
    rate_per_minute: float
    eta_seconds: int | None
    done: list[int]


class WholeQueueOut(ApiModel):
    """The queue of the organisation. `done` counts finished jobs per step of `stepSeconds`; the last step ends now."""

    running: int
    waiting: int
    dead: int
    step_seconds: float
    done: list[int]
    lanes: list[LaneOut]


class WorkerOut(ApiModel):
    """A worker process. It is `alive` until its lease expires; other workers then take its jobs."""

    id: UUID
    host: str
    pid: int
    version: str
    started_at: datetime
    beat_at: datetime
    alive: bool
    running: int
    slots: int
