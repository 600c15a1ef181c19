"""A search engine in memory that fails as engines and networks do, by a plan.

    unavailable    nothing happens, and an error comes back
    lost           it happens, but its acknowledgement is lost
    partial        half of it happens, then an error comes back
    doubled        it happens twice: a proxy or a client has repeated the request
    late           an error comes back, and it happens afterwards, when `deliver_late` is called
    stale          a search reads what was there some time ago

A plan is a list of these; each call takes the next, and none is left, nothing goes wrong.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

from gristmill.catalog import BaseId, ItemId
from gristmill.search.index.port import (
    Engine,
    Found,
    Health,
    IndexUnavailable,
    KeywordLeg,
    Labels,
    Leg,
    Point,
    PointFilter,
    Space,
    Statistics,
)
from gristmill.search.query_syntax import Term
from tests.search.memory_index import MemoryEngine, MemoryIndex

Fault = Literal["none", "unavailable", "lost", "partial", "doubled", "late", "stale"]
WRITE_FAULTS: tuple[Fault, ...] = ("none", "unavailable", "lost", "partial", "doubled", "late")
Value = TypeVar("Value")


class FaultyEngine(Engine):
    """An engine that follows a plan."""

    def __init__(self) -> None:
        self.inner = MemoryEngine()
        self.plan: list[Fault] = []
        self.is_stale = False  # searches read what was there at the last `remember`
        self.late: list[Callable[[], Awaitable[object]]] = []

    def next_fault(self) -> Fault:
        return self.plan.pop(0) if self.plan else "none"

    async def deliver_late(self) -> None:
        """Let everything happen that was late."""
        late, self.late = self.late, []
        for call in late:
            await call()

    def remember(self) -> None:
        """Note what searches read while `is_stale`."""
        for index in self.inner.indexes.values():
            index.stale_points = dict(index.points)

    async def prepare(self, space: Space) -> "FaultyIndex":
        if self.next_fault() == "unavailable":
            raise IndexUnavailable("It can't be reached.")
        return FaultyIndex(self, await self.inner.prepare(space))

    async def drop(self, base: BaseId) -> None:
        await self.inner.drop(base)

    async def health(self) -> Health:
        return await self.inner.health()

    async def close(self) -> None:
        pass


class FaultyIndex:
    """The points of one space."""

    def __init__(self, engine: FaultyEngine, inner: MemoryIndex) -> None:
        self._engine, self._inner = engine, inner

    async def put(self, points: Sequence[Point]) -> None:
        await self._change(points, self._inner.put)

    async def relabel(self, base: BaseId, items: Sequence[ItemId], labels: Labels) -> None:
        await self._change(items, lambda some: self._inner.relabel(base, some, labels))

    async def remove(self, base: BaseId, nos: Sequence[int]) -> None:
        await self._change(nos, lambda some: self._inner.remove(base, some))

    async def drop(self, base: BaseId) -> int:
        await self._change([base], lambda _: self._inner.drop(base))
        return 0

    async def _change(
        self, values: Sequence[Value], work: Callable[[Sequence[Value]], Awaitable[object]]
    ) -> None:
        fault = self._engine.next_fault()
        match fault:
            case "none" | "stale":
                await work(values)
                return
            case "doubled":
                await work(values)
                await work(values)
                return
            case "lost":
                await work(values)
            case "partial":
                await work(values[: len(values) // 2])
            case "late":
                self._engine.late.append(lambda: work(values))
            case "unavailable":
                pass
        raise IndexUnavailable(f"It failed ({fault}).")

    async def ask(
        self, base: BaseId, legs: Sequence[Leg], scope: PointFilter, limit: int
    ) -> list[list[Found]]:
        return await self._reader().ask(base, legs, scope, limit)

    async def statistics(self, base: BaseId, terms: Sequence[Term], scope: PointFilter) -> Statistics:
        return await self._reader().statistics(base, terms, scope)

    async def item_scores(
        self, base: BaseId, leg: KeywordLeg, items: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        return await self._reader().item_scores(base, leg, items)

    async def count_above(self, base: BaseId, leg: KeywordLeg, score: float) -> int:
        return await self._reader().count_above(base, leg, score)

    async def scan(self, base: BaseId, after: int) -> list[tuple[int, ItemId, int]]:
        return await self._inner.scan(base, after)

    def _reader(self) -> MemoryIndex:
        if not self._engine.is_stale:
            return self._inner
        reader = MemoryIndex(self._engine.inner)
        reader.points = self._inner.stale_points
        return reader
