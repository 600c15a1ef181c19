"""`/api/knowledge-bases/{id}/search`."""

import time
from typing import Annotated, Self
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field

from gristmill import search
from gristmill.doors.api.context import InContext, PathBase
from gristmill.doors.api.wire import Asked, Body, Wire
from gristmill.operations import guards

router = APIRouter(tags=["search"])


class Question(Asked):
    """What to look for, and how."""

    query: Annotated[Body, Field(max_length=10_000)]
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    mode: search.Mode = "hybrid"


class Ranks(Wire):
    """The hit's place in each leg; null where the leg did not find it."""

    vector: int | None
    text: int | None


class HitSource(Wire):
    """Where the text stands: a place in the document, and the document's own place."""

    url: str | None
    path: str | None
    page: int | None
    start: int
    end: int


class HitOut(Wire):
    """A piece of a document that answers; `highlights` are character ranges of `text`."""

    chunk_id: UUID
    item_id: UUID
    base_id: UUID
    title: str
    text: str
    headings: list[str]
    highlights: list[tuple[int, int]]
    score: float
    ranks: Ranks
    source: HitSource
    version: int

    @classmethod
    def of(cls, hit: search.Hit) -> Self:
        """Show `hit`."""
        return cls(
            chunk_id=hit.chunk_id,
            item_id=hit.item_id,
            base_id=hit.base_id,
            title=hit.title,
            text=hit.text,
            headings=hit.headings,
            highlights=hit.highlights,
            score=hit.score,
            ranks=Ranks(vector=hit.vector_rank, text=hit.text_rank),
            source=HitSource(
                url=hit.source.get("url"),
                path=hit.source.get("path"),
                page=None,
                start=hit.start,
                end=hit.end,
            ),
            version=hit.version,
        )


class Answer(Wire):
    """Hits, best first."""

    hits: list[HitOut]
    took_ms: float


@router.post("/knowledge-bases/{base_id}/search")
async def search_base(base_id: PathBase, body: Question, context: InContext) -> Answer:
    """Search one base."""
    started = time.perf_counter()
    async with context.db.connection() as tx:
        base = await guards.base_exists(tx, base_id)
    embedder = context.embedders.get(base.embedder) if body.mode != "text" else None
    hits = await search.search(context.db, base, embedder, body.query, limit=body.limit, mode=body.mode)
    return Answer(
        hits=[HitOut.of(hit) for hit in hits], took_ms=round(1000 * (time.perf_counter() - started), 2)
    )
