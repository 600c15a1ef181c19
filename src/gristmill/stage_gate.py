"""A stage that all bases share: a limited number of places, handed out fairly.

    a base that holds none         takes any free place, also the last one
    a base that holds some         takes another while it holds less than its share of what the other bases leave free
    a free place goes to           the waiting base that holds the fewest, and of equals to the one that was served least recently
    within a base                  urgent requests come first; the other priorities take turns, each in the order of arrival

With a share of 3/4, one base alone holds 24 of 32 places, the next one 6 of the other 8, and so on: whoever comes last finds a
place. As places are returned, the bases that wait become equal. Nothing is taken away from its holder, so no one may hold a
place while waiting for something that another base could use.
"""

import asyncio
import functools
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass

DEFAULT_SHARE = 0.75


def may_take(held: int, free: int, share: float) -> bool:
    """Whether a base that holds `held` places of a stage may take one of the `free` ones."""
    if free <= 0 or held == 0 or share >= 1:
        return free > 0
    return held < share / (1 - share) * (free - 1)


@functools.lru_cache(maxsize=4096)  # every claim asks, mostly the same
def room(held: int, free: int, share: float) -> int:
    """How many of the `free` places a base that holds `held` may take, one after the other."""
    taken = 0
    while may_take(held + taken, free - taken, share):
        taken += 1
    return taken


@dataclass(frozen=True)
class Requester:
    """On whose behalf a place is taken; the contexts are entered only if there is none at once."""

    base: str = ""
    priority: int = 1  # lower numbers come first
    while_waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    while_waiting_long: Callable[[], AbstractContextManager[None]] = (
        nullcontext  # for a place in a slow stage
    )


ANYBODY = Requester()
_URGENT = 0  # the priority that comes before all others
_Line = deque["asyncio.Future[None]"]  # grants, in the order of arrival


class StageGate:
    """The places of one stage in one process."""

    def __init__(self, size: int, share: float = DEFAULT_SHARE, *, is_slow: bool = False) -> None:
        self.size, self._share, self._is_slow = size, share, is_slow
        self._held: Counter[str] = Counter()
        self._queues: dict[
            str, dict[int, _Line]
        ] = {}  # by base and priority; who was served last stands last
        self._last_grants: dict[str, int] = {}  # of bases that hold or wait
        self._grants = 0

    @property
    def free(self) -> int:
        """How many places are free."""
        return self.size - self._held.total()

    def is_wanted_by_others(self, base: str) -> bool:
        """Whether another base waits for a place."""
        self._forget_cancelled()
        return any(other != base for other in self._queues)

    def is_wanted_within(self, requester: Requester, *, by_other_priorities: bool) -> bool:
        """Whether the requester's own base waits for a place: at all, or with requests of other priorities only."""
        self._forget_cancelled()
        lines = self._queues.get(requester.base, {})
        return any(priority != requester.priority or not by_other_priorities for priority in lines)

    @asynccontextmanager
    async def place(self, requester: Requester = ANYBODY) -> AsyncGenerator[None]:
        """Hold a place during the block; waits for it in fair order."""
        await self._take(requester)
        try:
            yield
        finally:
            self._put_back(requester.base)

    async def _take(self, requester: Requester) -> None:
        base = requester.base
        if base not in self._queues and may_take(self._held[base], self.free, self._share):
            self._grant(base)
            return
        grant: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(base, {}).setdefault(requester.priority, deque()).append(grant)
        try:
            with requester.while_waiting_long() if self._is_slow else requester.while_waiting():
                await grant
        except asyncio.CancelledError:
            if grant.done() and not grant.cancelled():
                self._put_back(base)
            else:
                grant.cancel()
                self._serve()
            raise

    def _grant(self, base: str) -> None:
        self._grants += 1
        self._last_grants[base] = self._grants
        self._held[base] += 1

    def _put_back(self, base: str) -> None:
        self._held[base] -= 1
        if not self._held[base]:
            del self._held[base]
            if base not in self._queues:
                del self._last_grants[base]
        self._serve()

    def _serve(self) -> None:
        """Grant free places, as long as the base that holds the fewest may take one."""
        while True:
            self._forget_cancelled()
            base = min(self._queues, key=self._precedence, default=None)
            if base is None or not may_take(self._held[base], self.free, self._share):
                return
            grant = self._pop_next(base)
            self._grant(base)
            grant.set_result(None)

    def _pop_next(self, base: str) -> "asyncio.Future[None]":
        """Remove and return the next request of a base. Its priority moves behind the others of the base."""
        lines = self._queues[base]
        priority = _URGENT if _URGENT in lines else next(iter(lines))
        line = lines.pop(priority)
        grant = line.popleft()
        if line:
            lines[priority] = line
        return grant

    def _precedence(self, base: str) -> tuple[int, int]:
        return self._held[base], self._last_grants.get(base, 0)

    def _forget_cancelled(self) -> None:
        for base, lines in list(self._queues.items()):
            for priority, line in list(lines.items()):
                while line and line[0].done():
                    line.popleft()
                if not line:
                    del lines[priority]
            if not lines:
                del self._queues[base]
                if not self._held[base]:
                    self._last_grants.pop(base, None)
