from datetime import timedelta
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import LeaseLost, NoText, Permanent, Transient
from gristmill.jobs import Done, Job, JobId, Snooze, Work, retry
from gristmill.jobs.job import Lease
from gristmill.work import PrepareRoot


def job(attempt: int = 1, max_attempts: int = 5) -> Job:
    return Job(JobId(uuid4()), "kind", "lane", 1, {}, None, attempt, max_attempts, Lease(uuid4()))


def test_what_was_done_is_complete() -> None:
    assert retry.after_outcome(Done()) == retry.Complete()


def test_a_snooze_comes_back_without_counting() -> None:
    assert retry.after_outcome(Snooze(timedelta(seconds=5))) == retry.Postpone(
        timedelta(seconds=5), counted=False
    )


@pytest.mark.parametrize("error", [Permanent("no"), NoText("none")])
def test_a_permanent_error_is_never_retried(error: Permanent) -> None:
    """S4-41."""
    assert retry.after_error(error, job(), 0.5) == retry.Bury(error)


def test_a_transient_error_is_retried_while_attempts_are_left() -> None:
    """S4-42, S2-39: the last attempt is the last."""
    error = Transient("later")
    assert retry.after_error(error, job(4), 0.5) == retry.Postpone(
        timedelta(seconds=8), counted=True, error=error
    )
    assert retry.after_error(error, job(5), 0.5) == retry.Bury(error)


def test_an_error_may_allow_fewer_attempts_but_not_more() -> None:
    """S4-42."""
    hopeless, patient = Transient("no such host", max_attempts=2), Transient("later", max_attempts=9)
    assert isinstance(retry.after_error(hopeless, job(1), 0.5), retry.Postpone)
    assert retry.after_error(hopeless, job(2), 0.5) == retry.Bury(hopeless)
    assert isinstance(retry.after_error(patient, job(4), 0.5), retry.Postpone)
    assert retry.after_error(patient, job(5), 0.5) == retry.Bury(patient)


def test_a_retry_after_wins_over_the_backoff() -> None:
    """S4-44."""
    error = Transient("busy", retry_after=timedelta(seconds=77))
    move = retry.after_error(error, job(1), 0.5)
    assert isinstance(move, retry.Postpone)
    assert move.delay == timedelta(seconds=77)


def test_a_short_retry_after_does_not_use_up_the_attempts() -> None:
    """A site that limits requests says "in a second" to each of hundreds of pages, again and again."""
    error = Transient("busy", retry_after=timedelta(seconds=1), is_crowded=True)
    moves = [retry.after_error(error, job(attempt), 0.5) for attempt in range(1, 5)]
    assert [move.delay.total_seconds() for move in moves if isinstance(move, retry.Postpone)] == [1, 2, 4, 8]


def test_a_lost_lease_moves_nothing() -> None:
    assert retry.after_error(LeaseLost("gone"), job(5), 0.5) == retry.Ignore()


def test_a_bug_is_retried_and_reported_without_internals() -> None:
    move = retry.after_error(RuntimeError("password=hunter2"), job(1), 0.5)
    assert isinstance(move, retry.Postpone)
    assert move.error is not None
    assert move.error.code == "internal"
    assert "hunter2" not in move.error.message


def test_the_backoff_doubles_from_two_seconds_up_to_ten_minutes() -> None:
    """S2-22, S4-44: and is spread over the whole time before that, so that jobs don't return together."""
    waits = [retry.backoff(attempt, 1.0).total_seconds() for attempt in range(1, 12)]
    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]
    assert retry.backoff(3, 0.25) == timedelta(seconds=2)
    assert retry.backoff(3, 0.0) == timedelta(0)


def test_work_has_five_attempts_unless_its_kind_says_otherwise() -> None:
    """S2-22, S2-39."""
    assert Work.attempts == PrepareRoot.attempts == 5


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_the_backoff_stays_below_its_cap(attempt: int, dice: float) -> None:
    """S2-22."""
    assert timedelta() <= retry.backoff(attempt, dice) <= retry.MAX_BACKOFF


@given(st.integers(1, 100))
def test_the_backoff_never_shrinks_with_the_attempts(attempt: int) -> None:
    """S2-22."""
    assert retry.backoff(attempt, 0.9) <= retry.backoff(attempt + 1, 0.9)
