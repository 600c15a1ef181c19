"""What happens to a job after an attempt. Pure: the caller brings the result and the dice.

    the handler …              attempts left      none left
    returned Done              complete           complete
    returned Snooze            postpone           postpone      (attempt not counted)
    raised Permanent           bury               bury
    raised Transient, a bug    postpone, later    bury
    was stopped by a cancel    withdraw           withdraw
    raised LeaseLost           nothing            nothing       (not ours to write)

Backoff is exponential with full jitter: the n-th wait is chosen evenly below `FIRST` × 2ⁿ⁻¹, at most
`LONGEST`, so that jobs which failed together do not return together. A `retry_after` wins over it.
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
    """The job comes back after `delay`."""

    delay: timedelta
    counted: bool
    error: GristmillError | None = None


@dataclass(frozen=True)
class Bury:
    """The job is dead until somebody retries it by hand."""

    error: GristmillError


@dataclass(frozen=True)
class FinishCancel:
    """The job was cancelled, and has stopped."""


@dataclass(frozen=True)
class Ignore:
    """The job belongs to somebody else."""


Transition = Complete | Postpone | Bury | FinishCancel | Ignore


def after_outcome(outcome: Outcome) -> Transition:
    """The move after a handler that returned."""
    if isinstance(outcome, Snooze):
        return Postpone(outcome.delay, counted=False)
    return Complete()


def after_error(error: Exception, job: Job, jitter: float) -> Transition:
    """The move after a handler that raised; `dice` is even in [0, 1)."""
    if isinstance(error, LeaseLost):
        return Ignore()
    failure = error if isinstance(error, GristmillError) else internal_error(error)
    if isinstance(error, Permanent) or job.attempt >= job.max_attempts:
        return Bury(failure)
    retry_after = error.retry_after if isinstance(error, Transient) else None
    return Postpone(
        backoff(job.attempt, jitter) if retry_after is None else retry_after, counted=True, error=failure
    )


def backoff(attempt: int, jitter: float) -> timedelta:
    """How long to wait after the `attempt`-th attempt."""
    return min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** min(attempt - 1, 16)) * jitter


def internal_error(error: Exception) -> GristmillError:
    """A mistake of ours, told without its insides; the log has the traceback."""
    return GristmillError(f"An internal error ({type(error).__name__}); the log says more.", code="internal")
