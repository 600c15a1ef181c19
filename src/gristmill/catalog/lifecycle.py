"""The states of bases and items, and what they mean to somebody outside.

item status    phase            who moves it on
idle           pending          the scheduling of its container
preparing      pending          expansion (containers)
processing     pending          a worker that claims its job
reading        preprocessing    the same worker
embedding      embedding        the same worker
completed      completed        –
failed         failed           a retry of its job, by hand
deleting       pending          the delete job
"""

from enum import StrEnum


class BaseStatus(StrEnum):
    """Whether a base takes requests."""

    READY = "ready"
    FAILED = "failed"
    DELETING = "deleting"


class ItemStatus(StrEnum):
    """Where an item is on its way."""

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
    """The word for people who only want to know how far it is."""
    return _PHASES.get(status, "pending")


def progress(status: ItemStatus, percent: float | None) -> int:
    """Percent done: all when it is completed, and short of all until then. What failed keeps what it had."""
    if status is ItemStatus.COMPLETED:
        return 100
    return max(0, min(99, int(percent or 0)))
