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

FIRST = timedelta(seconds=2)
LONGEST = timedelta(minutes=10)


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
class Withdraw:
    """The job was cancelled, and has stopped."""


@dataclass(frozen=True)
class Nothing:
    """The job belongs to somebody else."""


Move = Complete | Postpone | Bury | Withdraw | Nothing


def after_outcome(outcome: Outcome) -> Move:
    """The move after a handler that returned."""
    if isinstance(outcome, Snooze):
        return Postpone(outcome.delay, counted=False)
    return Complete()


def after_error(error: Exception, job: Job, dice: float) -> Move:
    """The move after a handler that raised; `dice` is even in [0, 1)."""
    if isinstance(error, LeaseLost):
        return Nothing()
    told = error if isinstance(error, GristmillError) else bug(error)
    if isinstance(error, Permanent) or job.attempt >= job.max_attempts:
        return Bury(told)
    asked = error.retry_after if isinstance(error, Transient) else None
    return Postpone(backoff(job.attempt, dice) if asked is None else asked, counted=True, error=told)


def backoff(attempt: int, dice: float) -> timedelta:
    """How long to wait after the `attempt`-th attempt."""
    return min(LONGEST, FIRST * 2 ** min(attempt - 1, 16)) * dice


def bug(error: Exception) -> GristmillError:
    """A mistake of ours, told without its insides; the log has the traceback."""
    return GristmillError(f"An internal error ({type(error).__name__}); the log says more.", code="internal")
