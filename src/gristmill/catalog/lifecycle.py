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
# Reading and chunking are 60 of 100, embedding and writing the other 40.
_PROGRESS = {ItemStatus.EMBEDDING: 60, ItemStatus.COMPLETED: 100}


def phase(status: ItemStatus) -> str:
    """The word for people who only want to know how far it is."""
    return _PHASES.get(status, "pending")


def progress(status: ItemStatus) -> int:
    """Percent done, as far as the status tells."""
    return _PROGRESS.get(status, 0)
