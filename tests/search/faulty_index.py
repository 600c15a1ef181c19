"""A wrapper around a search engine that fails as engines and networks do.

By a plan, of which each change takes the next entry; when none is left, nothing goes wrong:

    unavailable    nothing happens, and an error comes back
    lost           it happens, but its acknowledgement is lost
    partial        half of it happens, then an error comes back
    doubled        it happens twice: a proxy or a client has repeated the request
    late           an error comes back, and it happens afterwards, when `deliver_late` is called

Until told otherwise:

    is_down        every call fails
    answers        changes hang while it is not set
    may_return     searches hang while it is not set, after they have read; `has_read` says that one does
    is_stale       searches read what was there at the last `remember`
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar
from uuid import uuid4

from gristmill.catalog import BaseId, ItemId
from gristmill.search.index.engine import (
    Engine,
    EngineIndex,
    Found,
    Health,
    IndexUnavailable,
    ItemCounts,
    KeywordLeg,
    Labels,
    Leg,
    Point,
    PointFilter,
    Space,
    Statistics,
)
from gristmill.search.query_syntax import Term
from tests.search.index_setup import copy_points
from tests.search.opensearch_cluster import Cluster

Fault = Literal["none", "unavailable", "lost", "partial", "doubled", "late"]
FAULTS: tuple[Fault, ...] = ("none", "unavailable", "lost", "partial", "doubled", "late")
Value = TypeVar("Value")


class FaultyEngine(Engine):
    """An engine that fails when it is told to."""

    def __init__(self, inner: Engine) -> None:
        self._inner = inner
        self.plan: list[Fault] = []
        self.late: list[Callable[[], Awaitable[object]]] = []
        self.is_down = False
        self.answers = asyncio.Event()
        self.answers.set()
        self.may_return, self.has_read = asyncio.Event(), asyncio.Event()
        self.may_return.set()
        self.requests = 0  # changes that were asked for
        self.stale_copies: dict[BaseId, BaseId] = {}

    @property
    def is_stale(self) -> bool:
        """Whether searches read what was there some time ago."""
        return bool(self.stale_copies)

    def next_fault(self) -> Fault:
        return self.plan.pop(0) if self.plan else "none"

    def check(self) -> None:
        if self.is_down:
            raise IndexUnavailable("It is switched off.")

    async def deliver_late(self) -> None:
        """Let everything happen that was late."""
        late, self.late = self.late, []
        for call in late:
            await call()

    def remember(self, cluster: Cluster, base: BaseId) -> None:
        """From now on, searches of the base read what the engine has at this moment: a copy, under another id."""
        copy = BaseId(uuid4())
        copy_points(cluster, base, copy)
        self.stale_copies[base] = copy

    async def prepare(self, space: Space) -> "FaultyIndex":
        self.check()
        if self.next_fault() == "unavailable":
            raise IndexUnavailable("It can't be reached.")
        return FaultyIndex(self, await self._inner.prepare(space))

    async def drop(self, base: BaseId) -> None:
        self.check()
        await self._inner.drop(base)

    async def health(self) -> Health:
        return Health("down", "It is switched off.") if self.is_down else await self._inner.health()

    async def close(self) -> None:
        await self._inner.close()


class FaultyIndex:
    """The points of one space."""

    def __init__(self, engine: FaultyEngine, inner: EngineIndex) -> None:
        self._engine, self._inner = engine, inner

    async def put(self, points: Sequence[Point], *, replace: bool = False) -> None:
        await self._change(points, lambda some: self._inner.put(some, replace=replace))

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
        self._engine.requests += 1
        await self._engine.answers.wait()
        self._engine.check()
        fault = self._engine.next_fault()
        match fault:
            case "none":
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
        hits = await self._inner.ask(self._read_base(base), legs, scope, limit)
        self._engine.has_read.set()
        await self._engine.may_return.wait()
        return hits

    async def statistics(self, base: BaseId, terms: Sequence[Term], scope: PointFilter) -> Statistics:
        return await self._inner.statistics(self._read_base(base), terms, scope)

    async def item_counts(
        self, base: BaseId, terms: Sequence[Term], items: Sequence[ItemId]
    ) -> dict[ItemId, ItemCounts]:
        return await self._inner.item_counts(self._read_base(base), terms, items)

    async def similar_words(self, base: BaseId, words: Sequence[str]) -> dict[str, list[str]]:
        return await self._inner.similar_words(self._read_base(base), words)

    async def count_above(self, base: BaseId, leg: KeywordLeg, score: float) -> int:
        return await self._inner.count_above(self._read_base(base), leg, score)

    async def scan(self, base: BaseId, after: int) -> list[tuple[int, ItemId, int]]:
        self._engine.check()
        return await self._inner.scan(base, after)

    def _read_base(self, base: BaseId) -> BaseId:
        """The base, or the copy that a stale search reads."""
        self._engine.check()
        return self._engine.stale_copies.get(base, base)
