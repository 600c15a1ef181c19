"""The engine: durable jobs, fair across lanes, fenced by leases. It knows no documents."""

from gristmill.jobs.job import Band, Done, Enqueued, Job, JobId, NewJob, Outcome, Snooze, Work
from gristmill.jobs.store import (
    Cancelled,
    cancel,
    cancel_about,
    complete,
    counts,
    enqueue,
    fence,
    rate_per_minute,
)
from gristmill.jobs.worker import Handler, Limits, Worker

__all__ = [
    "Band",
    "Cancelled",
    "Done",
    "Enqueued",
    "Handler",
    "Job",
    "JobId",
    "Limits",
    "NewJob",
    "Outcome",
    "Snooze",
    "Work",
    "Worker",
    "cancel",
    "cancel_about",
    "complete",
    "counts",
    "enqueue",
    "fence",
    "rate_per_minute",
]
