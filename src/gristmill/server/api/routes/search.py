"""`/api/knowledge-bases/{id}/search`, `/api/search` and `/api/knowledge-items/{id}/why-not`."""

import time
from typing import Annotated, Self
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field, StrictBool, StrictInt

from gristmill import catalog, search
from gristmill.catalog import Base, BaseId, Viewer
from gristmill.operations import guards
from gristmill.search.keyword_search import TermContribution
from gristmill.server.api.context import (
    ApiContext,
    CurrentContext,
    CurrentViewer,
    PathBase,
    PathItem,
)
from gristmill.server.api.schemas.common import (
    ApiModel,
    JsonObject,
    NonBlankText,
    RequestModel,
    Timestamp,
)

router = APIRouter(tags=["search"])

MAX_BASES = 100

Ids = Annotated[list[UUID], Field(default_factory=list, max_length=1000)]


class FiltersIn(RequestModel):
    """Conditions on the items of hits; all that are given must hold. `parentIds` and `connectorIds` stand for all that
    is below them, `metadata` for items that have at least these entries."""

    types: Annotated[list[str], Field(default_factory=list, max_length=20)]
    parent_ids: Ids
    connector_ids: Ids
    metadata: Annotated[JsonObject, Field(default_factory=dict)]
    created_after: Timestamp | None = None
    created_before: Timestamp | None = None
    updated_after: Timestamp | None = None
    updated_before: Timestamp | None = None

    def to_filters(self) -> search.Filters:
        """As searching takes them."""
        return search.Filters(
            types=tuple(self.types),
            under=(*self.parent_ids, *self.connector_ids),
            metadata=self.metadata,
            created_after=self.created_after,
            created_before=self.created_before,
            updated_after=self.updated_after,
            updated_before=self.updated_before,
        )


class Inquiry(RequestModel):
    """What to look for, and where not."""

    query: Annotated[NonBlankText, Field(max_length=10_000)]
    mode: search.Mode = "hybrid"
    filters: Annotated[FiltersIn, Field(default_factory=FiltersIn.model_construct)]

    def to_query(self, viewer: Viewer) -> search.SearchRequest:
        """As searching takes it."""
        return search.SearchRequest(
            query=self.query, mode=self.mode, filters=self.filters.to_filters(), viewer=viewer
        )


class Question(Inquiry):
    """What to look for, how, and what to tell of it."""

    limit: Annotated[StrictInt, Field(ge=1, le=100)] = 10
    explain: StrictBool = False
    context: Annotated[StrictInt, Field(ge=0, le=5)] = 0
    collapse: StrictBool = False
    rerank: StrictBool = True

    def to_query(self, viewer: Viewer) -> search.SearchRequest:
        """As searching takes it."""
        return search.SearchRequest(
            query=self.query,
            limit=self.limit,
            mode=self.mode,
            filters=self.filters.to_filters(),
            viewer=viewer,
            explain=self.explain,
            context=self.context,
            collapse=self.collapse,
            rerank=self.rerank,
        )


class WideQuestion(Question):
    """The same, over several bases; without `baseIds` over all that the caller sees something of."""

    base_ids: Annotated[list[UUID], Field(max_length=MAX_BASES)] | None = None


class Ranks(ApiModel):
    """The hit's place in each leg; null where the leg did not find it."""

    vector: int | None
    text: int | None


class HitSource(ApiModel):
    """Where the text stands: a place in the document, and the document's own place."""

    url: str | None
    path: str | None
    page: int | None
    start: int
    end: int


class ContextOut(ApiModel):
    """What stands before and after a hit in its document, in order."""

    before: list[str]
    after: list[str]


class TermOut(ApiModel):
    """What a word adds to the score by words: how often it stands in the chunk, and in how many chunks it stands."""

    term: str
    count: int
    chunks: int
    score: float

    @classmethod
    def of(cls, term: TermContribution) -> Self:
        """Show `term`."""
        return cls(term=term.term, count=term.count, chunks=term.chunks, score=term.score)


class ExplanationOut(ApiModel):
    """Why a hit stands where it does."""

    vector_weight: float
    similarity: float | None
    text_score: float | None
    terms: list[TermOut]
    rerank_score: float | None


class HitOut(ApiModel):
    """A piece of a document that answers; `highlights` are character ranges of `text`."""

    chunk_id: UUID
    item_id: UUID
    base_id: UUID
    title: str
    type: str
    text: str
    headings: list[str]
    highlights: list[tuple[int, int]]
    score: float
    ranks: Ranks
    source: HitSource
    metadata: JsonObject
    version: int
    context: ContextOut | None
    explain: ExplanationOut | None
    duplicates: list[UUID]

    @classmethod
    def of(cls, hit: search.Hit) -> Self:
        """Show `hit`."""
        return cls(
            chunk_id=hit.chunk_id,
            item_id=hit.item_id,
            base_id=hit.base_id,
            title=hit.title,
            type=hit.type,
            text=hit.text,
            headings=hit.headings,
            highlights=hit.highlights,
            score=hit.score,
            ranks=Ranks(vector=hit.vector_rank, text=hit.text_rank),
            source=HitSource(
                url=hit.source.get("url"),
                path=hit.source.get("path"),
                page=hit.page,
                start=hit.start,
                end=hit.end,
            ),
            metadata=hit.metadata,
            version=hit.version,
            context=ContextOut(before=hit.context.before, after=hit.context.after) if hit.context else None,
            explain=_explanation_out(hit.explanation) if hit.explanation else None,
            duplicates=hit.duplicates,
        )


class Answer(ApiModel):
    """Hits, best first."""

    hits: list[HitOut]
    took_ms: float


class ReasonOut(ApiModel):
    """One thing that keeps an item out, or puts it behind others."""

    code: str
    message: str


class WhyNotOut(ApiModel):
    """Where an item stands among the answers to a question, and what keeps it from standing higher."""

    rank: int | None
    reasons: list[ReasonOut]
    ranks: Ranks
    text_score: float | None
    similarity: float | None
    terms: list[TermOut]
    acl: list[str]


@router.post("/knowledge-bases/{base_id}/search")
async def search_base(
    base_id: PathBase, body: Question, context: CurrentContext, viewer: CurrentViewer
) -> Answer:
    """Search one base."""
    started = time.perf_counter()
    async with context.db.connection() as tx:
        base = await guards.require_base(tx, base_id, viewer)
    hits = await context.searcher.search([_target(context, base, body)], body.to_query(viewer))
    context.metrics.search_seconds.labels(body.mode).observe(time.perf_counter() - started)
    return _search_results(hits, started)


@router.post("/search")
async def search_bases(body: WideQuestion, context: CurrentContext, viewer: CurrentViewer) -> Answer:
    """Search several bases at once, whatever embeds them."""
    started = time.perf_counter()
    async with context.db.connection() as tx:
        if body.base_ids is None:
            bases = await catalog.list_bases(tx, limit=MAX_BASES, viewer=viewer)
        else:
            base_ids = [BaseId(base_id) for base_id in dict.fromkeys(body.base_ids)]
            bases = [await guards.require_base(tx, base_id, viewer) for base_id in base_ids]
    targets = [_target(context, base, body) for base in bases]
    hits = await context.searcher.search(targets, body.to_query(viewer))
    context.metrics.search_seconds.labels(body.mode).observe(time.perf_counter() - started)
    return _search_results(hits, started)


@router.post("/knowledge-items/{item_id}/why-not")
async def why_not(
    item_id: PathItem, body: Inquiry, context: CurrentContext, viewer: CurrentViewer
) -> WhyNotOut:
    """Tell why an item is not among the hits of a question, or where it is. For admins, on anybody's behalf."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
        base = await guards.require_base(tx, item.base_id)
    placement = await search.explain_missing(
        context.db, context.searcher, _target(context, base, body), body.to_query(viewer), item
    )
    return WhyNotOut(
        rank=placement.rank,
        reasons=[ReasonOut(code=reason.code, message=reason.message) for reason in placement.reasons],
        ranks=Ranks(vector=placement.vector_rank, text=placement.text_rank),
        text_score=placement.text_score,
        similarity=placement.similarity,
        terms=[TermOut.of(term) for term in placement.terms],
        acl=list(placement.acl),
    )


def _target(context: ApiContext, base: Base, body: Inquiry) -> search.Target:
    return search.Target(base, context.embedders.get(base.embedder) if body.mode != "text" else None)


def _search_results(hits: list[search.Hit], started: float) -> Answer:
    return Answer(
        hits=[HitOut.of(hit) for hit in hits], took_ms=round(1000 * (time.perf_counter() - started), 2)
    )


def _explanation_out(explanation: search.HitExplanation) -> ExplanationOut:
    return ExplanationOut(
        vector_weight=explanation.vector_weight,
        similarity=explanation.similarity,
        text_score=explanation.text_score,
        terms=[TermOut.of(term) for term in explanation.terms],
        rerank_score=explanation.rerank_score,
    )
