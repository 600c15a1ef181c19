"""What an answer is made of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from gristmill.catalog import ADMIN, Base, Viewer
from gristmill.embedding import Embedder
from gristmill.search.keyword_search import TermContribution
from gristmill.search.scope import NO_FILTERS, Filters, Scope

Mode = Literal["hybrid", "vector", "text"]


@dataclass(frozen=True)
class SearchRequest:
    """What to look for, how, where and for whose eyes. `context` is how many chunks around each hit come with it;
    `collapse` puts hits that say the same behind the best of them; `rerank` has a configured reranker look again."""

    query: str
    limit: int = 10
    mode: Mode = "hybrid"
    filters: Filters = NO_FILTERS
    viewer: Viewer = ADMIN
    explain: bool = False
    context: int = 0
    collapse: bool = False
    rerank: bool = True

    @property
    def scope(self) -> Scope:
        """What may answer."""
        return Scope(self.viewer, self.filters)


@dataclass(frozen=True)
class Target:
    """A base to search, with what embeds questions for it; None where words alone are asked."""

    base: Base
    embedder: Embedder | None


@dataclass(frozen=True)
class HitContext:
    """What stands before and after a hit in its document."""

    before: list[str]
    after: list[str]


@dataclass(frozen=True)
class HitExplanation:
    """Why a hit stands where it does: the legs' own scores, how they were weighed, and what each word added."""

    vector_weight: float
    similarity: float | None
    text_score: float | None
    terms: Sequence[TermContribution]
    rerank_score: float | None


@dataclass(frozen=True)
class Hit:
    """A chunk that answers; `highlights` are character ranges of `text`, `duplicates` chunks that say the same."""

    chunk_id: UUID
    item_id: UUID
    base_id: UUID
    version: int
    title: str
    type: str
    text: str
    start: int
    end: int
    page: int | None
    headings: list[str]
    source: dict[str, Any]
    metadata: dict[str, Any]
    score: float
    vector_rank: int | None
    text_rank: int | None
    highlights: list[tuple[int, int]]
    context: HitContext | None = None
    explanation: HitExplanation | None = None
    duplicates: list[UUID] = field(default_factory=list[UUID])
