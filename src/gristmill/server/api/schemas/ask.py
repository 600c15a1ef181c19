"""Questions and answers."""

from typing import Annotated, Self
from uuid import UUID

from pydantic import Field, StrictBool, StrictInt

from gristmill import search
from gristmill.answers import AnswerEnd, Citation, Passage, Retrieved
from gristmill.catalog import Viewer
from gristmill.server.api.schemas.common import ApiModel, BoxOut, NonBlankText, RequestModel
from gristmill.server.api.schemas.search import FiltersIn, HitOut, SkippedSearchOut
from gristmill.server.api.search_targets import MAX_BASES


class AskIn(RequestModel):
    """A question; without `baseIds` to all bases that the caller can see. With `stream`, the answer comes as server-sent events."""

    question: Annotated[NonBlankText, Field(max_length=10_000)]
    base_ids: Annotated[list[UUID], Field(max_length=MAX_BASES)] | None = None
    filters: Annotated[FiltersIn, Field(default_factory=FiltersIn.model_construct)]
    limit: Annotated[StrictInt, Field(ge=1, le=30)] = 8
    stream: StrictBool = False

    def to_query(self, viewer: Viewer) -> search.SearchRequest:
        """The search for passages."""
        return search.SearchRequest(
            query=self.question,
            limit=self.limit,
            filters=self.filters.to_filters(),
            viewer=viewer,
            boxes=True,
            allow_partial=True,
        )


class CitationOut(ApiModel):
    """A passage that the answer cites as `[number]`: characters `start` to `end` of this version of the item's content, at
    `boxes` on its pages."""

    number: int
    item_id: UUID
    base_id: UUID
    title: str
    version: int
    page: int | None
    start: int
    end: int
    boxes: list[BoxOut]
    text: str
    url: str | None
    path: str | None

    @classmethod
    def of(cls, citation: Citation) -> Self:
        """Show `citation`."""
        hit = citation.hit
        return cls(
            number=citation.number,
            item_id=hit.item_id,
            base_id=hit.base_id,
            title=hit.title,
            version=hit.version,
            page=hit.page,
            start=hit.start,
            end=hit.end,
            boxes=[BoxOut.of(box) for box in hit.boxes],
            text=hit.text,
            url=hit.source.get("url"),
            path=hit.source.get("path"),
        )


class PassageOut(ApiModel):
    """A hit that the model was given, under its number."""

    number: int
    hit: HitOut

    @classmethod
    def of(cls, passage: Passage) -> Self:
        """Show `passage`."""
        return cls(number=passage.number, hit=HitOut.of(passage.hit))


class AnswerOut(ApiModel):
    """The answer, in markdown and as HTML that is safe to show. `answered` is false if nothing that was found answers the question; then nothing is cited. `skipped` has what
    could not be searched."""

    answer: str
    answer_html: str
    answered: bool
    citations: list[CitationOut]
    retrieved: list[PassageOut]
    skipped: list[SkippedSearchOut]

    @classmethod
    def of(cls, end: AnswerEnd, answer_html: str, retrieved: Retrieved) -> Self:
        """Show the end of an answer, and what it was made from."""
        return cls(
            answer=end.answer,
            answer_html=answer_html,
            answered=not end.is_refusal,
            citations=[CitationOut.of(citation) for citation in end.citations],
            retrieved=[PassageOut.of(passage) for passage in retrieved.passages],
            skipped=[SkippedSearchOut.of(skipped) for skipped in retrieved.skipped],
        )
