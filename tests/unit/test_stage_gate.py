"""The places of a stage: which tasks get one, and which wait."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from gristmill.stage_gate import Requester, StageGate, may_take, room


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


class Visitors:
    """Tasks that take a place each, and hold it until the test releases them."""

    def __init__(self, gate: StageGate) -> None:
        self.gate = gate
        self.inside: list[str] = []
        self.order: list[str] = []
        self._leave: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str, priority: int = 1) -> None:
        """Each name is a base and a number, as in `a1`."""
        for name in names:
            self._leave[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._visit(name, priority))
        await settle()

    async def leave(self, *names: str) -> None:
        for name in names:
            self._leave[name].set()
        await settle()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        await settle()

    async def _visit(self, name: str, priority: int) -> None:
        async with self.gate.place(Requester(name[0], priority)):
            self.inside.append(name)
            self.order.append(name)
            await self._leave[name].wait()
            self.inside.remove(name)


def test_one_base_alone_takes_most_places_and_the_next_ones_find_some() -> None:
    """S4-16, S4-17: one base may use the machine, and whoever comes last finds a place."""
    first = room(0, 32, 0.75)
    second = room(0, 32 - first, 0.75)
    third = room(0, 32 - first - second, 0.75)
    assert (first, second, third) == (24, 6, 1)
    assert may_take(0, 32 - first - second - third, 0.75)


@pytest.mark.parametrize(("size", "expected"), [(1, 1), (2, 1), (3, 2), (4, 3), (6, 4), (8, 6)])
def test_the_last_place_is_for_a_base_that_holds_none(size: int, expected: int) -> None:
    """S4-17."""
    assert room(0, size, 0.75) == expected


def test_without_a_reserve_one_base_takes_everything() -> None:
    assert room(0, 8, 1.0) == 8
    assert room(8, 0, 1.0) == 0


async def test_a_base_that_comes_later_is_served_before_the_one_that_fills_the_stage() -> None:
    """S4-18: no task waits behind another base's queue."""
    visitors = Visitors(StageGate(4))
    await visitors.come("a1", "a2", "a3", "a4", "a5", "a6")
    assert visitors.inside == ["a1", "a2", "a3"]
    await visitors.come("b1", "b2")
    assert visitors.inside == ["a1", "a2", "a3", "b1"]
    await visitors.leave("a1", "a2")
    assert visitors.inside == ["a3", "b1", "a4"]
    await visitors.come("c1")
    assert visitors.inside == ["a3", "b1", "a4", "c1"]
    await visitors.leave("a3", "a4")
    assert visitors.inside == ["b1", "c1", "a5"]


async def test_bases_take_turns_when_a_stage_has_a_single_place() -> None:
    """S4-18."""
    visitors = Visitors(StageGate(1))
    await visitors.come("a1", "a2", "a3", "b1", "b2", "c1")
    for name in ("a1", "b1", "c1", "a2", "b2", "a3"):
        assert visitors.inside == [name]
        await visitors.leave(name)


async def test_within_a_base_urgent_requests_come_first() -> None:
    visitors = Visitors(StageGate(1))
    await visitors.come("a1", "a2", "a3")
    await visitors.come("a4", priority=0)
    await visitors.leave("a1", "a2", "a3", "a4")
    assert visitors.order == ["a1", "a4", "a2", "a3"]


async def test_within_a_base_other_work_takes_turns() -> None:
    """S4-18: the images of a base are not described last, however many of its scans wait for the same place."""
    gate = StageGate(1)
    visitors = Visitors(gate)
    await visitors.come("a1", "a2", "a3", "a4", "a5")
    assert not gate.is_wanted_within(Requester("a", 1), by_other_priorities=True)
    await visitors.come("a6", "a7", priority=2)
    assert gate.is_wanted_within(Requester("a", 1), by_other_priorities=True)
    assert not gate.is_wanted_within(Requester("b", 1), by_other_priorities=False)
    await visitors.leave("a1", "a2", "a3", "a4", "a5", "a6", "a7")
    assert visitors.order == ["a1", "a2", "a6", "a3", "a7", "a4", "a5"]


async def test_a_place_is_never_lost_to_a_cancelled_request() -> None:
    gate = StageGate(1)
    visitors = Visitors(gate)
    await visitors.come("a1", "b1", "c1")
    await visitors.cancel("b1")
    assert gate.is_wanted_by_others("a")
    await visitors.leave("a1")
    assert visitors.inside == ["c1"]
    await visitors.cancel("c1")
    assert gate.free == 1
    assert not gate.is_wanted_by_others("a")


async def test_a_grant_that_meets_a_cancel_is_passed_on() -> None:
    gate = StageGate(1)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(gate.place(Requester("a")))

        async def hold() -> None:
            async with gate.place(Requester("b")):
                await asyncio.Event().wait()

        waiting = asyncio.create_task(hold())
        await settle()
    waiting.cancel()  # the place was granted a moment ago, and the task has not run since
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert gate.free == 1
