"""The statuses of bases and items, and the phase that users see.

item status    phase            what moves it on
idle           pending          the scheduling of its container
preparing      pending          the listing of its source (containers)
processing     pending          the worker that claims its job; for a container its children
reading        preprocessing    the same worker
embedding      embedding        the same worker
completed      completed        nothing has to; a re-index, a replacement or the next listing of its container requests a new
                                version, and a container follows its children
failed         failed           as completed; also a retry of its dead job, or a recovery if it was interrupted
deleting       pending          the delete job

A deletion moves every status to `deleting`, and a cancelled job every active one to `failed`. Each change is a function of
`transitions.py`.
"""

from enum import StrEnum


class BaseStatus(StrEnum):
    """Whether a base accepts requests."""

    READY = "ready"
    FAILED = "failed"
    DELETING = "deleting"


class ItemStatus(StrEnum):
    """How far an item is."""

    IDLE = "idle"
    PREPARING = "preparing"
    PROCESSING = "processing"
    READING = "reading"
    EMBEDDING = "embedding"
    COMPLETED = "completed"
    FAILED = "failed"
    DELETING = "deleting"


TERMINAL = frozenset({ItemStatus.COMPLETED, ItemStatus.FAILED})

_PHASES = {
    ItemStatus.READING: "preprocessing",
    ItemStatus.EMBEDDING: "embedding",
    ItemStatus.COMPLETED: "completed",
    ItemStatus.FAILED: "failed",
}


def phase(status: ItemStatus) -> str:
    """The coarse phase that the API shows."""
    return _PHASES.get(status, "pending")


def progress(status: ItemStatus, percent: float | None) -> int:
    """Percent done: 100 when completed, at most 99 before. A failed item keeps the percentage that it had."""
    if status is ItemStatus.COMPLETED:
        return 100
    return max(0, min(99, int(percent or 0)))
