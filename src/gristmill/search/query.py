"""From a question to hits: embed it, ask both legs, fuse, show."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.embedding import Embedder
from gristmill.errors import Invalid
from gristmill.search import fuse, store
from gristmill.search.lexer import is_mostly_cjk, lex

Mode = Literal["hybrid", "vector", "text"]
CANDIDATES = 100  # of each leg


@dataclass(frozen=True)
class Hit:
    """A chunk that answers; `highlights` are character ranges of `text`."""

    chunk_id: UUID
    item_id: UUID
    base_id: UUID
    version: int
    title: str
    text: str
    start: int
    end: int
    headings: list[str]
    source: dict[str, Any]
    score: float
    vector_rank: int | None
    text_rank: int | None
    highlights: list[tuple[int, int]]


async def search(
    db: Database, base: Base, embedder: Embedder | None, query: str, *, limit: int = 10, mode: Mode = "hybrid"
) -> list[Hit]:
    """The best chunks of `base` for `query`, best first; `text` needs no embedder."""
    if embedder is not None and embedder.identity != base.embedder_identity:
        raise Invalid(
            f"The embedder {base.embedder!r} is not the one that made this base's vectors; search with mode text, "
            "or restore the embedder's settings.",
            code="embedder_changed",
        )
    words = list(dict.fromkeys(token.lexeme for token in lex(query)))
    weight = _vector_weight(query, embedder, mode)
    vector, text = await asyncio.gather(
        _vector_leg(db, base, embedder, query) if embedder is not None and weight > 0 else _none(),
        _text_leg(db, base, words) if weight < 1 else _none(),
    )
    fused = fuse.fuse(vector, text, weight)[:limit]
    async with db.connection() as tx:
        rows = await store.chunks(tx, base.id, [hit.id for hit in fused])
    return [_hit(rows[hit.id], hit, frozenset(words)) for hit in fused if hit.id in rows]


async def _vector_leg(db: Database, base: Base, embedder: Embedder, query: str) -> list[fuse.Found]:
    vector = await embedder.embed_query(query)
    async with db.connection() as tx:
        return await store.nearest(tx, base.id, vector, CANDIDATES)


async def _text_leg(db: Database, base: Base, words: Sequence[str]) -> list[fuse.Found]:
    async with db.connection() as tx:
        return await store.matching(tx, base.id, words, CANDIDATES)


async def _none() -> list[fuse.Found]:
    return []


def _vector_weight(query: str, embedder: Embedder | None, mode: Mode) -> float:
    if mode == "vector":
        return 1.0
    if mode == "text" or embedder is None or (embedder.english_only and is_mostly_cjk(query)):
        return 0.0
    return fuse.VECTOR_WEIGHT


def _hit(row: store.ChunkRow, fused: fuse.Fused, words: frozenset[str]) -> Hit:
    return Hit(
        chunk_id=row.id,
        item_id=row.item_id,
        base_id=row.base_id,
        version=row.version,
        title=row.title,
        text=row.text,
        start=row.start,
        end=row.end,
        headings=row.headings,
        source=row.source,
        score=round(fused.score, 6),
        vector_rank=fused.vector_rank,
        text_rank=fused.text_rank,
        highlights=_highlights(row.text, words),
    )


def _highlights(text: str, words: frozenset[str]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for token in lex(text):
        if token.lexeme not in words:
            continue
        if merged and token.start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], token.end))
        else:
            merged.append((token.start, token.end))
    return merged
