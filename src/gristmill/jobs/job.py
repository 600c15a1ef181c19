"""What a job is: a piece of work on a lane, with a priority, and with a lease while it runs.

    state       moved on by                                    to
    queued      a worker's claim                               running
                cancel                                         (history) cancelled
    delayed     any worker's tick, once it is due              queued
                cancel                                         (history) cancelled
    running     its worker, proving the lease                  (history) done, delayed, queued, dead, (history) cancelled
                any worker's tick, once the lease has expired  queued, with the attempt counted
    dead        a retry by an operator                         queued
                a dismissal, newer work on the same, its success, or its deletion
                                                               (history) dismissed

There is no state that only a restart can end.
"""

import functools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, NamedTuple, NewType, Protocol, Self
from uuid import UUID

from pydantic import TypeAdapter

from gristmill.errors import GristmillError

JobId = NewType("JobId", UUID)
Lease = NewType("Lease", UUID)


class JobState(StrEnum):
    """The states of a living job; jobs that are done or cancelled are in the history."""

    QUEUED = "queued"
    DELAYED = "delayed"
    RUNNING = "running"
    DEAD = "dead"


class Activity(StrEnum):
    """What a running job does at the moment, as far as it matters to what its worker may claim.

    activity    uses a slot    means that its lane's first stage is busy
    opening     yes            yes: it has not reached a stage yet
    active      yes            no
    blocked     no             yes: it waits for a place in a stage
    away        no             no: it waits for the network, or for its turn at OCR
    """

    OPENING = "opening"
    ACTIVE = "active"
    BLOCKED = "blocked"
    AWAY = "away"


class Priority(IntEnum):
    """A lane runs lower numbers first; every worker reserves some slots for INTERACTIVE, and a lane always runs a job of each kind
    of BULK."""

    INTERACTIVE = 0
    NORMAL = 1
    BULK = 2


@dataclass(frozen=True)
class Work:
    """Base of every kind of work: its fields are the payload, its class attributes how it is run."""

    kind: ClassVar[str]
    attempts: ClassVar[int] = 5
    priority: ClassVar[Priority] = Priority.NORMAL
    # Work that mostly waits for other servers names a pool: it runs in slots apart, and its lanes have no other work.
    pool: ClassVar[str] = ""

    def key(self) -> str | None:
        """Unique among living jobs: a second enqueue returns the first job."""
        return None

    def subject(self) -> UUID | None:
        """What the work is about; jobs are cancelled by it."""
        return None

    def payload(self) -> str:
        """The fields, as JSON."""
        return _adapter(type(self)).dump_json(self).decode()

    @classmethod
    def of(cls, job: "_HasPayload") -> Self:
        """The work that `job` carries."""
        return _adapter(cls).validate_python(job.payload)


class _HasPayload(Protocol):
    @property
    def payload(self) -> dict[str, Any]: ...


@functools.cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


class NewJob(NamedTuple):
    """A job to enqueue; `workload` is the estimated cost in bytes of input."""

    work: Work
    lane: str
    workload: float = 0.0
    priority: Priority | None = None
    delay: timedelta | None = None


class Enqueued(NamedTuple):
    """A job's id, and whether it is new or a living job with the same key."""

    id: JobId
    created: bool


@dataclass(slots=True, eq=False)
class Job:
    """A claimed job: `lease` proves, in every write of its results, that it is still ours."""

    id: JobId
    kind: str
    lane: str
    priority: int
    payload: dict[str, Any]
    subject: UUID | None
    attempt: int
    max_attempts: int
    lease: Lease
    interrupted: bool = False  # its last worker was stopped or lost in the middle
    completed: bool = False  # completed by its handler, in the transaction that wrote its results
    pool: str = ""  # the slots that it runs in
    activity: Activity = Activity.ACTIVE
    on_activity: Callable[["Job"], None] | None = None  # called at every change, by its worker's wish

    @contextmanager
    def during(self, activity: Activity) -> Generator[None]:
        """Say what the job does during the block, so that its worker claims others instead."""
        before = self.activity
        self._set_activity(activity)
        try:
            yield
        finally:
            self._set_activity(before)

    def _set_activity(self, activity: Activity) -> None:
        if activity is not self.activity:
            self.activity = activity
            if self.on_activity is not None:
                self.on_activity(self)


@dataclass(frozen=True)
class Done:
    """The work is done."""


@dataclass(frozen=True)
class Snooze:
    """Run again after `delay`; the attempt does not count. For jobs that poll. `reason` is what a user should know about a
    wait that can take long: it is shown until the job runs again."""

    delay: timedelta
    reason: GristmillError | None = None


Outcome = Done | Snooze
