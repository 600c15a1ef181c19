"""From a question to hits: embed it, ask both legs of every base, fuse, look again, show.

Nothing is written. What was published, deleted or taken from these eyes between two steps is looked at again by the last
one, which reads what is shown: it shows only what answers then.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from gristmill.db import Database
from gristmill.embedding import Embedder
from gristmill.errors import Invalid
from gristmill.search import collapse, fuse, nearest, rerank, store, text
from gristmill.search.highlight import highlights
from gristmill.search.hit import Ask, Context, Explanation, Hit, Target
from gristmill.search.question import without_syntax
from gristmill.search.reach import reach
from gristmill.search.rerank import Reranker
from gristmill.search.shelf import Shelf
from gristmill.search.store import ChunkRow
from gristmill.search.text import TextLeg

CANDIDATES = 100  # of each leg
_AT_ONCE = 4  # bases, so that one search over many leaves connections for others
_KEPT_QUESTIONS = 1000


@dataclass(frozen=True)
class Asked:
    """What one base answered."""

    legs: fuse.Legs
    words: TextLeg


@dataclass(frozen=True)
class _Placed:
    """A fused hit with what it shows."""

    fused: fuse.Fused
    row: ChunkRow
    rerank_score: float | None = None


class Searcher:
    """Searches bases; keeps what it has read of them, and the vectors of the last questions."""

    def __init__(self, db: Database, *, cache_bytes: int, reranker: Reranker | None = None) -> None:
        self._db, self._reranker = db, reranker
        self._shelf = Shelf(cache_bytes)
        self._questions: OrderedDict[tuple[str, str], store.Vector] = OrderedDict()

    async def search(self, targets: Sequence[Target], ask: Ask) -> list[Hit]:
        """The best chunks of all targets, best first."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(target: Target) -> Asked:
            async with turns:
                return await self.ask(target, ask)

        asked = await asyncio.gather(*(one(target) for target in targets))
        fused = fuse.fuse([answer.legs for answer in asked])
        placed = await self._placed(targets, ask, fused)
        placed = await self._look_again(ask, placed)
        return await self._shown(targets, ask, asked, placed)

    async def ask(self, target: Target, ask: Ask) -> Asked:
        """Both legs of one base."""
        base, embedder = target.base, target.embedder
        _check(target)
        weight = _weight(ask, embedder)
        wanted = max(CANDIDATES, ask.limit)
        async with store.reading(self._db) as tx:
            reached = await reach(tx, base.id, ask.scope)

        async def by_vector() -> list[fuse.Found]:
            if embedder is None or weight == 0:
                return []
            vector = await self.vector(embedder, ask.query)
            return await nearest.search(self._db, self._shelf, base.id, ask.scope, reached, vector, wanted)

        async def by_words() -> TextLeg:
            if weight == 1 and not ask.explain:
                return await text.read(self._db, self._shelf, base.id, ask.query)
            return await text.search(self._db, self._shelf, base.id, ask.scope, reached, ask.query, wanted)

        near, words = await asyncio.gather(by_vector(), by_words())
        found = words.found if weight < 1 else []
        return Asked(fuse.Legs(near, found, weight, base.embedder_identity), words)

    async def vector(self, embedder: Embedder, query: str) -> store.Vector:
        """The question's vector, kept for who asks the same again."""
        key = (embedder.identity, without_syntax(query))
        vector = self._questions.get(key)
        if vector is None:
            vector = await embedder.embed_query(key[1])
            self._questions[key] = vector
            while len(self._questions) > _KEPT_QUESTIONS:
                self._questions.popitem(last=False)
        self._questions.move_to_end(key)
        return vector

    async def _placed(
        self, targets: Sequence[Target], ask: Ask, fused: Sequence[fuse.Fused]
    ) -> list[_Placed]:
        """As many as are looked at, with what they show; in order."""
        depth = ask.limit
        if ask.collapse:
            depth = 3 * ask.limit
        if ask.rerank and self._reranker is not None:
            depth = max(depth, rerank.LOOKED_AT)
        placed: list[_Placed] = []
        done = 0
        # Some may be gone by now: those behind them move up.
        while len(placed) < depth and done < len(fused):
            part = fused[done : done + depth]
            rows = await self._rows(targets, ask, part)
            placed += [_Placed(hit, rows[hit.no]) for hit in part if hit.no in rows]
            done += len(part)
        return placed[:depth]

    async def _rows(
        self, targets: Sequence[Target], ask: Ask, part: Sequence[fuse.Fused]
    ) -> dict[int, ChunkRow]:
        rows: dict[int, ChunkRow] = {}
        async with store.reading(self._db) as tx:
            for place, target in enumerate(targets):
                if nos := [hit.no for hit in part if hit.base == place]:
                    rows |= await store.chunks(tx, target.base.id, ask.scope, nos)
        return rows

    async def _look_again(self, ask: Ask, placed: list[_Placed]) -> list[_Placed]:
        if self._reranker is None or not ask.rerank or not placed:
            return placed
        first, rest = placed[: rerank.LOOKED_AT], placed[rerank.LOOKED_AT :]
        texts = [f"{hit.row.title}\n{hit.row.text}" for hit in first]
        scores = await self._reranker.scores(without_syntax(ask.query), texts)
        if scores is None:
            return placed
        scored = [replace(hit, rerank_score=score) for hit, score in zip(first, scores, strict=True)]
        return sorted(scored, key=lambda hit: -(hit.rerank_score or 0.0)) + rest

    async def _shown(
        self, targets: Sequence[Target], ask: Ask, asked: Sequence[Asked], placed: Sequence[_Placed]
    ) -> list[Hit]:
        groups = (
            collapse.groups([hit.row.text for hit in placed])
            if ask.collapse
            else [[place] for place in range(len(placed))]
        )[: ask.limit]
        chosen = [placed[group[0]] for group in groups]
        around = await self._around(targets, ask, chosen)
        return [
            _hit(
                hit,
                asked[hit.fused.base],
                ask,
                [placed[place].row.id for place in group[1:]],
                _context(hit.row, around, ask.context),
            )
            for hit, group in zip(chosen, groups, strict=True)
        ]

    async def _around(
        self, targets: Sequence[Target], ask: Ask, chosen: Sequence[_Placed]
    ) -> dict[tuple[UUID, int], str]:
        around: dict[tuple[UUID, int], str] = {}
        if ask.context:
            async with store.reading(self._db) as tx:
                for place, target in enumerate(targets):
                    rows = [hit.row for hit in chosen if hit.fused.base == place]
                    around |= await store.neighbours(tx, target.base.id, rows, ask.context)
        return around


def _check(target: Target) -> None:
    if target.embedder is not None and target.embedder.identity != target.base.embedder_identity:
        raise Invalid(
            f"The embedder {target.base.embedder!r} is not the one that made this base's vectors; search with mode "
            "text, or restore the embedder's settings.",
            code="embedder_changed",
        )


def _weight(ask: Ask, embedder: Embedder | None) -> float:
    if ask.mode == "vector":
        return 1.0
    if ask.mode == "text" or embedder is None:
        return 0.0
    return fuse.vector_weight(ask.query, english_only=embedder.english_only)


def _context(row: ChunkRow, around: Mapping[tuple[UUID, int], str], width: int) -> Context | None:
    if not width:
        return None

    def texts(places: range) -> list[str]:
        return [around[row.item_id, place] for place in places if (row.item_id, place) in around]

    return Context(
        texts(range(row.index - width, row.index)), texts(range(row.index + 1, row.index + width + 1))
    )


def _hit(placed: _Placed, asked: Asked, ask: Ask, duplicates: list[UUID], context: Context | None) -> Hit:
    row, fused = placed.row, placed.fused
    score = fused.score if placed.rerank_score is None else placed.rerank_score
    return Hit(
        chunk_id=row.id,
        item_id=row.item_id,
        base_id=row.base_id,
        version=row.version,
        title=row.title,
        type=row.type,
        text=row.text,
        start=row.start,
        end=row.end,
        page=row.page,
        headings=row.headings,
        source=row.source,
        metadata=row.metadata,
        score=round(score, 6),
        vector_rank=fused.vector_rank,
        text_rank=fused.text_rank,
        highlights=highlights(row.text, asked.words.question),
        context=context,
        explanation=_explained(placed, asked) if ask.explain else None,
        duplicates=duplicates,
    )


def _explained(placed: _Placed, asked: Asked) -> Explanation:
    return Explanation(
        vector_weight=asked.legs.vector_weight,
        similarity=placed.fused.vector_score,
        text_score=placed.fused.text_score,
        terms=asked.words.explain(placed.fused.no),
        rerank_score=placed.rerank_score,
    )
