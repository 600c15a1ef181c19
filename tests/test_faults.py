import asyncio

import pytest

from gristmill import faults
from gristmill.errors import SetupError


async def test_a_point_that_nobody_armed_does_nothing() -> None:
    await faults.point("unit.nothing")


async def test_a_fault_fires_at_its_nth_passing_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_armed", {})
    faults.arm("unit.a=fail@2")
    await faults.point("unit.a")
    with pytest.raises(faults.FaultInjected):
        await faults.point("unit.a")
    await faults.point("unit.a")


@pytest.mark.parametrize("spec", ["unit.a", "unit.a=explode", "unit.a=kill@soon"])
def test_a_spec_that_means_nothing_is_refused(spec: str) -> None:
    with pytest.raises(SetupError, match="GRISTMILL_FAULTS"):
        faults.arm(spec)


async def test_a_watch_holds_who_comes_by_until_let_go() -> None:
    with faults.watch("unit.b", hold=True) as watch:
        passing = asyncio.create_task(faults.point("unit.b"))
        await watch.passed.wait()
        assert not passing.done()
        watch.hold.set()
        await passing
