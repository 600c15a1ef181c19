"""Fault points: named places in the code where a test can pause, fail or kill the process. Inactive in production.

`point("publish.before_commit")` costs one lookup in an empty dict. `GRISTMILL_FAULTS` arms points of a separate
process as `name=action@n,…`; the action happens when the point is reached for the n-th time (default: the first)

    kill    kill the process as with kill -9
    fail    raise `FaultInjected`, which the surrounding code treats like a bug

In the same process, a test uses `watch(name)` to learn that a point was reached, and to hold the code there.
"""

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gristmill.errors import SetupError


class FaultInjected(Exception):
    """Raised by a point that is armed with `fail`."""


@dataclass
class _ArmedPoint:
    action: str
    countdown: int


@dataclass
class PointWatch:
    """A watched point: `passed` is set when it is reached, and the code waits there until `hold` is set."""

    passed: asyncio.Event = field(default_factory=asyncio.Event)
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    count: int = 0


_armed: dict[str, _ArmedPoint] = {}
_watched: dict[str, PointWatch] = {}


def arm(spec: str) -> None:
    """Arm the points of `GRISTMILL_FAULTS`."""
    for part in filter(None, (piece.strip() for piece in spec.split(","))):
        name, _, rest = part.partition("=")
        action, _, nth = rest.partition("@")
        if action not in ("kill", "fail") or not (nth or "1").isdigit():
            raise SetupError(f"GRISTMILL_FAULTS: {part!r} is not `point=kill|fail[@n]`.", code="bad_setting")
        _armed[name] = _ArmedPoint(action, int(nth or 1))


def disarm() -> None:
    """Disarm all points."""
    _armed.clear()


@contextmanager
def watch(name: str, *, hold: bool = False) -> Generator[PointWatch]:
    """Watch the point `name` in this process; with `hold`, code that reaches it waits until `hold` is set."""
    watched = PointWatch()
    if not hold:
        watched.hold.set()
    _watched[name] = watched
    try:
        yield watched
    finally:
        watched.hold.set()
        del _watched[name]


def blocking_point(name: str) -> None:
    """Mark a fault point in code that is not asynchronous: it can fail or kill, but not wait."""
    if (armed := _armed.get(name)) is not None:
        armed.countdown -= 1
        if armed.countdown == 0:
            if armed.action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise FaultInjected(name)


async def point(name: str) -> None:
    """Mark a fault point."""
    if not _armed and not _watched:
        return
    blocking_point(name)
    if (watched := _watched.get(name)) is not None:
        watched.count += 1
        watched.passed.set()
        await watched.hold.wait()
