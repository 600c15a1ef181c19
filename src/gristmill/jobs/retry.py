"""What happens to a job after an attempt. Pure: the caller passes the outcome and a random number.

    the handler …              attempts left      none left
    returned Done              complete           complete
    returned Snooze            postpone           postpone      (attempt not counted)
    raised Permanent           bury               bury
    raised anything else       postpone, later    bury
    was stopped by a cancel    finish the cancel  finish the cancel
    raised LeaseLost           ignore             ignore        (another worker has the job)

Backoff is exponential with full jitter: the n-th wait is uniform below `FIRST_BACKOFF` × 2ⁿ⁻¹, at most `MAX_BACKOFF`, so
that jobs which failed together do not return together. A `retry_after` takes precedence; if others wait for the same
(`is_crowded`), it is the shortest wait. A Transient may have a limit of attempts of its own, below that of the job.
"""

from dataclasses import dataclass
from datetime import timedelta

from gristmill.errors import GristmillError, LeaseLost, Permanent, Transient
from gristmill.jobs.job import Job, Outcome, Snooze

FIRST_BACKOFF = timedelta(seconds=2)
MAX_BACKOFF = timedelta(minutes=10)


@dataclass(frozen=True)
class Complete:
    """The job is done."""


@dataclass(frozen=True)
class Postpone:
    """The job runs again after `delay`."""

    delay: timedelta
    counted: bool
    error: GristmillError | None = None


@dataclass(frozen=True)
class Bury:
    """The job is dead until an operator retries it."""

    error: GristmillError


@dataclass(frozen=True)
class FinishCancel:
    """The job was cancelled and has stopped."""


@dataclass(frozen=True)
class Ignore:
    """Another worker has the job."""


Transition = Complete | Postpone | Bury | FinishCancel | Ignore


def after_outcome(outcome: Outcome) -> Transition:
    """The transition after a handler that returned."""
    if isinstance(outcome, Snooze):
        return Postpone(outcome.delay, counted=False, error=outcome.reason)
    return Complete()


def after_error(error: Exception, job: Job, jitter: float) -> Transition:
    """The transition after a handler that raised; `jitter` is uniform in [0, 1)."""
    if isinstance(error, LeaseLost):
        return Ignore()
    failure = error if isinstance(error, GristmillError) else internal_error(error)
    if isinstance(error, Permanent) or job.attempt >= max_attempts(failure, job):
        return Bury(failure)
    wait = backoff(job.attempt, jitter)
    if isinstance(error, Transient) and error.retry_after is not None:
        wait = max(error.retry_after, wait) if error.is_crowded else error.retry_after
    return Postpone(wait, counted=True, error=failure)


def max_attempts(error: GristmillError | None, job: Job) -> int:
    """How many attempts a job has in all, if it goes on to fail with this error."""
    limit = error.max_attempts if isinstance(error, Transient) else None
    return job.max_attempts if limit is None else min(limit, job.max_attempts)


def backoff(attempt: int, jitter: float) -> timedelta:
    """How long to wait after the `attempt`-th attempt."""
    return min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** min(attempt - 1, 16)) * jitter


def internal_error(error: Exception) -> GristmillError:
    """The error that is shown for a bug of ours, without its details; the log has the traceback."""
    return GristmillError(
        f"An internal error occurred ({type(error).__name__}). The log has the details.", code="internal"
    )


# A job may be lost more often than it may fail: when a worker is killed repeatedly or runs out of memory, that is seldom the
# fault of one of the many jobs that it ran.
LOST_FACTOR = 3


def check_lost_attempts(job: Job) -> None:
    """Raise Permanent if the job's worker was lost too often."""
    if job.attempt > LOST_FACTOR * job.max_attempts:
        message = f"Given up: the worker was lost at most of {job.attempt - 1} attempts."
        raise Permanent(message, code="worker_lost")
