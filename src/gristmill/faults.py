"""Named points in the code where a test can stop, fail or kill the process; inert in production.

`point("publish.before_commit")` costs one look at an empty dict. Armed by `GRISTMILL_FAULTS`, in a process
of its own, as `name=action@n,…`: at the n-th passing (the first when left out)

    kill    the process dies as by kill -9
    fail    the point raises `FaultInjected`, a bug as far as the code around it knows

Armed in the same process by `watch(name)`, the point tells the test that it was passed, and can hold it.
"""

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gristmill.errors import SetupError


class FaultInjected(Exception):
    """What an armed `fail` raises."""


@dataclass
class _ArmedPoint:
    action: str
    countdown: int


@dataclass
class PointWatch:
    """A point under a test's eyes: `passed` is set at the first passing, which waits while `hold` is clear."""

    passed: asyncio.Event = field(default_factory=asyncio.Event)
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    count: int = 0


_armed: dict[str, _ArmedPoint] = {}
_watched: dict[str, PointWatch] = {}


def arm(spec: str) -> None:
    """Arm what `GRISTMILL_FAULTS` says."""
    for part in filter(None, (piece.strip() for piece in spec.split(","))):
        name, _, rest = part.partition("=")
        action, _, nth = rest.partition("@")
        if action not in ("kill", "fail") or not (nth or "1").isdigit():
            raise SetupError(f"GRISTMILL_FAULTS: {part!r} is not `point=kill|fail[@n]`.", code="bad_setting")
        _armed[name] = _ArmedPoint(action, int(nth or 1))


@contextmanager
def watch(name: str, *, hold: bool = False) -> Generator[PointWatch]:
    """Watch the point `name` in this process; with `hold`, whoever comes by waits until `hold` is set."""
    watched = PointWatch()
    if not hold:
        watched.hold.set()
    _watched[name] = watched
    try:
        yield watched
    finally:
        watched.hold.set()
        del _watched[name]


async def point(name: str) -> None:
    """Pass the point `name`."""
    if not _armed and not _watched:
        return
    if (armed := _armed.get(name)) is not None:
        armed.countdown -= 1
        if armed.countdown == 0:
            if armed.action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise FaultInjected(name)
    if (watched := _watched.get(name)) is not None:
        watched.count += 1
        watched.passed.set()
        await watched.hold.wait()
