"""The time limit of a reader counts the CPU time that it used (C25)."""

import os

import pytest

from gristmill.readers.processor_time import StepClock, of_process


def step(*looks: tuple[float, float | None], cpu_at_start: float | None = 0.0) -> list[bool]:
    """The results of looking at a step of ten seconds, at these times with this CPU time."""
    clock = StepClock(10.0, 0.0, cpu_at_start)
    return [clock.look(now, cpu) for now, cpu in looks]


def test_a_reader_on_a_busy_machine_has_the_cpu_time_of_one_on_an_idle_machine() -> None:
    assert step((10, 1.0), (20, 2.0), (60, 7.0)) == [False, False, False]
    assert step((10, 1.0), (20, 9.9), (21, 10.0)) == [False, False, True]


def test_a_reader_that_uses_no_cpu_time_hangs() -> None:
    assert step((1, 0.5), (10.9, 0.5), (11, 0.5)) == [False, False, True]


def test_a_reader_that_hardly_gets_on_is_given_up_by_the_clock() -> None:
    assert step(*((float(now), now / 100) for now in range(5, 100, 5)), (100, 1.0))[-2:] == [False, True]


@pytest.mark.parametrize("cpu", [None, 3.0])
def test_where_cpu_time_is_unknown_the_clock_decides(cpu: float | None) -> None:
    assert step((9, cpu), (10, None), cpu_at_start=cpu) == [False, True]


def test_the_cpu_time_of_a_process_that_is_gone_is_unknown() -> None:
    assert of_process(2**30) is None
    assert (of_process(os.getpid()) or 0) > 0


def test_a_reader_is_starved_only_if_the_machine_had_no_time_for_it() -> None:
    """Then its document is tried again later; otherwise it is the document that takes too long."""
    starved, greedy, hanging = (StepClock(10.0, 0.0, 0.0) for _ in range(3))
    assert not any(starved.look(float(now), now / 100) for now in range(1, 100))
    assert starved.look(100.0, 1.0)
    assert greedy.look(10.0, 10.0)
    assert not hanging.look(1.0, 0.1)
    assert hanging.look(12.0, 0.1)
    assert (starved.is_starved, greedy.is_starved, hanging.is_starved) == (True, False, False)
