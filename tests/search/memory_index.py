"""A search engine in memory: the port in its plainest form, against which the contract suite compares the others."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gristmill.catalog import BaseId, ItemId
from gristmill.search import bm25
from gristmill.search.index.port import (
    SCAN_PAGE,
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
    VectorLeg,
)
from gristmill.search.query_syntax import Term


class MemoryEngine(Engine):
    """An engine whose indexes live in this process. While `is_down`, every call fails; while `answers` is not set, puts and
    removals hang."""

    def __init__(self) -> None:
        self.indexes: dict[Space, MemoryIndex] = {}
        self.is_down = False
        self.answers = asyncio.Event()
        self.answers.set()

    async def prepare(self, space: Space) -> "MemoryIndex":
        self.check()
        return self.indexes.setdefault(space, MemoryIndex(self))

    async def drop(self, base: BaseId) -> None:
        for index in self.indexes.values():
            await index.drop(base)

    async def health(self) -> Health:
        return Health("down", "It is switched off.") if self.is_down else Health("ok", "1 node")

    async def close(self) -> None:
        pass

    def check(self) -> None:
        if self.is_down:
            raise IndexUnavailable("The search engine is switched off.")

    def points(self, base: BaseId) -> list[Point]:
        """All points of a base, by number."""
        found = [
            point for index in self.indexes.values() for point in index.points.values() if point.base == base
        ]
        return sorted(found, key=lambda point: point.no)


class MemoryIndex:
    """The points of one space."""

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine
        self.points: dict[int, Point] = {}
        self.puts = 0
        self.stale_points: dict[int, Point] = {}

    async def put(self, points: Sequence[Point]) -> None:
        self.puts += 1
        await self._engine.answers.wait()
        self._engine.check()
        for point in points:
            self.points.setdefault(point.no, point)

    async def relabel(self, base: BaseId, items: Sequence[ItemId], labels: Labels) -> None:
        self._engine.check()
        for no, point in self.points.items():
            if point.base == base and point.item in items:
                self.points[no] = replace(point, labels=labels)

    async def remove(self, base: BaseId, nos: Sequence[int]) -> None:
        await self._engine.answers.wait()
        self._engine.check()
        for no in nos:
            if no in self.points and self.points[no].base == base:
                del self.points[no]

    async def drop(self, base: BaseId) -> int:
        self._engine.check()
        gone = [no for no, point in self.points.items() if point.base == base]
        for no in gone:
            del self.points[no]
        return len(gone)

    async def ask(
        self, base: BaseId, legs: Sequence[Leg], scope: PointFilter, limit: int
    ) -> list[list[Found]]:
        self._engine.check()
        return [self._leg(base, leg, scope)[:limit] for leg in legs]

    async def statistics(self, base: BaseId, terms: Sequence[Term], scope: PointFilter) -> Statistics:
        self._engine.check()
        points = self._points(base, scope)
        lengths = sum(point.length for point in points)
        by_term = tuple(sum(_frequency(point, term) > 0 for point in points) for term in terms)
        return Statistics(len(points), lengths / max(len(points), 1), by_term)

    async def item_scores(
        self, base: BaseId, leg: KeywordLeg, items: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        self._engine.check()
        sums: dict[ItemId, float] = {}
        for found in self._leg(base, leg, PointFilter(items=tuple(items))):
            item = self.points[found.no].item
            sums[item] = sums.get(item, 0.0) + found.score
        return sums

    async def count_above(self, base: BaseId, leg: KeywordLeg, score: float) -> int:
        self._engine.check()
        return sum(found.score > score * (1 + 1e-5) for found in self._leg(base, leg, PointFilter()))

    async def scan(self, base: BaseId, after: int) -> list[tuple[int, ItemId, int]]:
        self._engine.check()
        points = sorted((p for p in self._points(base, PointFilter()) if p.no > after), key=lambda p: p.no)
        return [(point.no, point.item, point.version) for point in points[:SCAN_PAGE]]

    def _points(self, base: BaseId, scope: PointFilter) -> list[Point]:
        return [point for point in self.points.values() if point.base == base and _passes(point, scope)]

    def _leg(self, base: BaseId, leg: Leg, scope: PointFilter) -> list[Found]:
        score = _cosine if isinstance(leg, VectorLeg) else _keyword_score
        scored = [(point.no, score(point, leg)) for point in self._points(base, scope)]  # pyright: ignore[reportArgumentType]
        hits = [Found(no, value) for no, value in scored if isinstance(leg, VectorLeg) or value > 0]
        return sorted(hits, key=lambda hit: (-hit.score, hit.no))


def _passes(point: Point, scope: PointFilter) -> bool:
    labels = point.labels
    if scope.items is not None and point.item not in scope.items:
        return False
    if scope.principals is not None:
        allowed = (
            scope.sees_base_list
            if labels.principals is None
            else bool({*labels.principals} & {*scope.principals})
        )
        if not allowed:
            return False
    if scope.types and labels.type not in scope.types:
        return False
    if scope.under and not {point.item, *labels.ancestors} & {*scope.under}:
        return False
    return scope.metadata <= labels.metadata


def _cosine(point: Point, leg: VectorLeg) -> float:
    length = float(np.linalg.norm(point.vector) * np.linalg.norm(leg.vector))
    return float(point.vector @ leg.vector) / length if length else 0.0


def _keyword_score(point: Point, leg: KeywordLeg) -> float:
    if any(not any(name in point.lexemes for name in names) for names in leg.required):
        return 0.0
    if any(_frequency(point, term) for term in leg.excluded):
        return 0.0
    statistics, total = leg.statistics, 0.0
    norm = bm25.K1 * (1 - bm25.B + bm25.B * point.length / max(statistics.mean_length, 1e-9))
    for term, chunks in zip(leg.terms, statistics.by_term, strict=True):
        frequency = _frequency(point, term)
        if frequency:
            idf = math.log(1 + (statistics.chunks - chunks + 0.5) / (chunks + 0.5))
            total += term.weight * idf * (bm25.K1 + 1) * frequency / (frequency + norm)
    return total


def _frequency(point: Point, term: Term) -> int:
    if term.prefix:
        return int(any(name.startswith(term.names[0]) for name in point.lexemes))
    return sum(point.lexemes.get(name, 0) for name in term.names)
