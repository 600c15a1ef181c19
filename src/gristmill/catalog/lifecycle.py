"""The states of bases and items, and what they mean to somebody outside.

item status    phase            who moves it on
idle           pending          the scheduling of its container
preparing      pending          expansion (containers)
processing     pending          a worker that claims its job; of a container its children
reading        preprocessing    the same worker
embedding      embedding        the same worker
completed      completed        nobody must; a re-indexing, a replacement or the next listing of its container wants it anew,
                                and a container follows its children
failed         failed           as completed; and by hand a retry of its dead job, or a recovery if it was interrupted
deleting       pending          the delete job

A deletion moves each of them to `deleting`, and a cancelled job all that are being worked on to `failed`.
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
