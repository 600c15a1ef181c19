"""The engine: durable jobs, fair across lanes, fenced by leases. It knows no documents."""

from gristmill.jobs.enqueue import enqueue
from gristmill.jobs.job import Band, Done, Enqueued, Job, JobId, NewJob, Outcome, Snooze, Work
from gristmill.jobs.queue import Queue, QueueLimits, check_room, look
from gristmill.jobs.schedule import Schedule, next_time, put_schedules, remove_schedules
from gristmill.jobs.store import (
    Cancelled,
    Count,
    Shown,
    cancel,
    cancel_about,
    complete,
    counts,
    fence,
    find_job,
    find_jobs,
    revive,
)
from gristmill.jobs.worker import Handler, Limits, Worker

__all__ = [
    "Band",
    "Cancelled",
    "Count",
    "Done",
    "Enqueued",
    "Handler",
    "Job",
    "JobId",
    "Limits",
    "NewJob",
    "Outcome",
    "Queue",
    "QueueLimits",
    "Schedule",
    "Shown",
    "Snooze",
    "Work",
    "Worker",
    "cancel",
    "cancel_about",
    "check_room",
    "complete",
    "counts",
    "enqueue",
    "fence",
    "find_job",
    "find_jobs",
    "look",
    "next_time",
    "put_schedules",
    "remove_schedules",
    "revive",
]
