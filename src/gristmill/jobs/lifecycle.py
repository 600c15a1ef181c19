"""The states of a job, and who moves it on from each.

    state       moved on by                               to
    queued      a worker's claim                          running
                cancel                                    (history) cancelled
    delayed     any worker's tick, once it is due         queued
                cancel                                    (history) cancelled
    running     its worker, proving the lease             (history) done, delayed, queued, dead, (history) cancelled
                any worker's tick, once the lease is out  queued, the attempt counted
    dead        retry, by hand                            queued

There is no state that only a restart ends.
"""

from enum import StrEnum


class JobState(StrEnum):
    """A job that lives; what is done or cancelled is history."""

    QUEUED = "queued"
    DELAYED = "delayed"
    RUNNING = "running"
    DEAD = "dead"


class EndState(StrEnum):
    """How a job ended that lives no more."""

    DONE = "done"
    CANCELLED = "cancelled"
