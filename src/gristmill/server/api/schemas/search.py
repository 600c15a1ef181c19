"""Searches, hits and explanations."""

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, StrictBool, StrictInt

from gristmill import search
from gristmill.catalog import Viewer
from gristmill.search.explain import TermContribution
from gristmill.server.api.schemas.common import (
    ApiModel,
    BoxOut,
    ErrorBody,
    JsonObject,
    NonBlankText,
    RequestModel,
    Timestamp,
)
from gristmill.server.api.schemas.conditions import ConditionIn
from gristmill.server.api.search_targets import MAX_BASES

Ids = Annotated[list[UUID], Field(default_factory=list, max_length=1000)]


class FiltersIn(ConditionIn):
    """Conditions on the items of hits; all of them must hold. `parentIds` and `connectorIds` match everything below
    them; `metadata` matches items that have at least these entries; `op`, `and` and `or` compare entries of the metadata."""

    types: Annotated[list[str], Field(default_factory=list, max_length=20)]
    parent_ids: Ids
    connector_ids: Ids
    metadata: Annotated[JsonObject, Field(default_factory=dict)]
    created_after: Timestamp | None = None
    created_before: Timestamp | None = None
    updated_after: Timestamp | None = None
    updated_before: Timestamp | None = None

    @property
    def is_alone(self) -> bool:
        """Whether a condition is all that it can have."""
        return False

    def to_filters(self) -> search.Filters:
        """The filters as `search/` takes them."""
        return search.Filters(
            types=tuple(self.types),
            under=(*self.parent_ids, *self.connector_ids),
            metadata=self.metadata,
            condition=self.to_condition(),
            created_after=self.created_after,
            created_before=self.created_before,
            updated_after=self.updated_after,
            updated_before=self.updated_before,
        )


class _QueryFields(RequestModel):
    query: Annotated[NonBlankText, Field(max_length=10_000)]
    mode: search.Mode = "hybrid"
    filters: Annotated[FiltersIn, Field(default_factory=FiltersIn.model_construct)]


class WhyNotIn(_QueryFields):
    """A query that an item was expected to match."""

    def to_query(self, viewer: Viewer) -> search.SearchRequest:
        """The request as `search/` takes it."""
        return search.SearchRequest(
            query=self.query, mode=self.mode, filters=self.filters.to_filters(), viewer=viewer
        )


class SearchIn(_QueryFields):
    """What to search for, how, and what to return with each hit."""

    limit: Annotated[StrictInt, Field(ge=1, le=100)] = 10
    explain: StrictBool = False
    context: Annotated[StrictInt, Field(ge=0, le=5)] = 0
    collapse: StrictBool = False
    rerank: StrictBool = True
    min_score: (
        Annotated[
            float,
            Field(ge=0, le=1, description="Leave out hits with a lower score; by default as the base says."),
        ]
        | None
    ) = None

    def to_query(self, viewer: Viewer) -> search.SearchRequest:
        """The request as `search/` takes it."""
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
            min_score=self.min_score,
            boxes=True,
            allow_partial=True,
        )


class SearchBasesIn(SearchIn):
    """A search over several bases; without `baseIds` over all bases that the caller can see."""

    base_ids: Annotated[list[UUID], Field(max_length=MAX_BASES)] | None = None


class Ranks(ApiModel):
    """The rank of the hit in the vector and the keyword results; null where it was not found."""

    vector: int | None
    text: int | None


class HitSource(ApiModel):
    """Where the text comes from: the document, and the position in it."""

    url: str | None
    path: str | None
    page: int | None
    start: int
    end: int


class ContextOut(ApiModel):
    """The chunks before and after the hit in its document, in order."""

    before: list[str]
    after: list[str]


class TermOut(ApiModel):
    """What a term adds to the keyword score. `count` is how often the chunk has it, `chunks` how many chunks have it."""

    term: str
    count: int
    chunks: int
    score: float

    @classmethod
    def of(cls, term: TermContribution) -> Self:
        """Show `term`."""
        return cls(term=term.term, count=term.count, chunks=term.chunks, score=term.score)


class ExplanationOut(ApiModel):
    """Why a hit has its rank and its score. `coverage` is how much of the query's information the words of the hit have, and
    `hasEveryWord` whether these are all words of the query that say something; both are null if only vectors were searched."""

    vector_weight: float
    similarity: float | None
    text_score: float | None
    terms: list[TermOut]
    rerank_score: float | None
    coverage: float | None
    has_every_word: bool | None

    @classmethod
    def of(cls, explanation: search.HitExplanation) -> Self:
        """Show `explanation`."""
        return cls(
            vector_weight=explanation.vector_weight,
            similarity=explanation.similarity,
            text_score=explanation.text_score,
            terms=[TermOut.of(term) for term in explanation.terms],
            rerank_score=explanation.rerank_score,
            coverage=explanation.coverage,
            has_every_word=explanation.has_every_word,
        )


class HitOut(ApiModel):
    """A chunk that matches the query. `score` is how well it fits, from 0 to 1; `fits` whether that reaches the threshold.
    `highlights` are character ranges of `text`; `boxes` are where it stands on its pages."""

    chunk_id: UUID
    item_id: UUID
    base_id: UUID
    title: str
    type: str
    text: str
    headings: list[str]
    highlights: list[tuple[int, int]]
    score: float
    fits: bool
    ranks: Ranks
    source: HitSource
    boxes: list[BoxOut]
    metadata: JsonObject
    version: int
    context: ContextOut | None
    explain: ExplanationOut | None
    duplicates: list[UUID]
    pinned: bool

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
            fits=hit.fits,
            ranks=Ranks(vector=hit.vector_rank, text=hit.text_rank),
            source=HitSource(
                url=hit.source.get("url"),
                path=hit.source.get("path"),
                page=hit.page,
                start=hit.start,
                end=hit.end,
            ),
            boxes=[BoxOut.of(box) for box in hit.boxes],
            metadata=hit.metadata,
            version=hit.version,
            context=ContextOut(before=hit.context.before, after=hit.context.after) if hit.context else None,
            explain=ExplanationOut.of(hit.explanation) if hit.explanation else None,
            duplicates=hit.duplicates,
            pinned=hit.is_pinned,
        )


class CorrectionOut(ApiModel):
    """A word of the query that no visible text has, and the similar word that was searched for instead."""

    word: str
    replacement: str


class SkippedSearchOut(ApiModel):
    """A base that was searched by words only (`leg` is `vector`) or not at all (`both`), and why. `message` is a sentence
    for people that has the error's."""

    base_id: UUID
    base_name: str
    leg: Literal["vector", "both"]
    error: ErrorBody
    message: str

    @classmethod
    def of(cls, skipped: search.SkippedSearch) -> Self:
        """Show `skipped`."""
        return cls(
            base_id=skipped.base_id,
            base_name=skipped.base_name,
            leg=skipped.leg,
            error=ErrorBody(code=skipped.error.code, message=skipped.error.message),
            message=skipped.message,
        )


class SearchOut(ApiModel):
    """Hits, best first. `fits` is false if none of them reaches the threshold; `bestScore` is the highest score, also of a
    chunk that was left out. `relaxed` has the quoted phrases that nothing contains: their words were searched for instead.
    `skipped` has what could not be searched."""

    hits: list[HitOut]
    fits: bool
    best_score: float | None
    relaxed: list[str]
    corrected: list[CorrectionOut]
    skipped: list[SkippedSearchOut]
    took_ms: float


class ReasonOut(ApiModel):
    """One reason why an item is missing from the hits, or ranks low."""

    code: str
    message: str


class WhyNotOut(ApiModel):
    """The rank of an item for a query, and the reasons why it is not higher."""

    rank: int | None
    reasons: list[ReasonOut]
    ranks: Ranks
    text_score: float | None
    similarity: float | None
    terms: list[TermOut]
    acl: list[str]
