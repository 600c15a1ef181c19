"""The values of a search: the request, its targets and the hits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from gristmill.catalog import ADMIN, Base, BaseId, Viewer
from gristmill.embedding import Embedder
from gristmill.errors import GristmillError
from gristmill.readers.text_boxes import PageBox
from gristmill.search.explain import TermContribution
from gristmill.search.query_syntax import relax_phrases
from gristmill.search.scope import NO_FILTERS, Filters, Scope

Mode = Literal["hybrid", "vector", "text"]


@dataclass(frozen=True)
class SearchRequest:
    """A search: the query, the mode, the filters and the viewer. `context` is the number of chunks to return on either
    side of each hit; `collapse` groups near-duplicate hits under the best of them; `rerank` allows a configured reranker
    to reorder the hits; hits with a score below `min_score` are left out, None means each base's own setting; with `boxes`,
    hits have the rectangles on their pages. With `allow_partial`, what can't be searched at the moment is skipped and named
    in the answer; otherwise it is an error."""

    query: str
    limit: int = 10
    mode: Mode = "hybrid"
    filters: Filters = NO_FILTERS
    viewer: Viewer = ADMIN
    explain: bool = False
    context: int = 0
    collapse: bool = False
    rerank: bool = True
    min_score: float | None = None
    boxes: bool = False
    allow_partial: bool = False
    is_relaxed: bool = False  # whether the words of required phrases are searched for in place of the phrases

    @property
    def keyword_query(self) -> str:
        """The query for the search by words."""
        return relax_phrases(self.query) if self.is_relaxed else self.query

    @property
    def scope(self) -> Scope:
        """The viewer and filters that hits must pass."""
        return Scope(self.viewer, self.filters)


@dataclass(frozen=True)
class Target:
    """A base to search and the embedder for its queries; None for keyword search only. `embedder_error` says why a base has
    none although its vectors are to be searched."""

    base: Base
    embedder: Embedder | None
    embedder_error: GristmillError | None = None


@dataclass(frozen=True)
class HitContext:
    """The texts before and after a hit in its document."""

    before: list[str]
    after: list[str]


@dataclass(frozen=True)
class HitExplanation:
    """Why a hit ranks where it does, and has its score: both scores, their weights, the contribution of each term."""

    vector_weight: float
    similarity: float | None
    text_score: float | None
    terms: Sequence[TermContribution]
    rerank_score: float | None
    coverage: float | None  # of the query's information by the hit's words
    has_every_word: bool | None  # that says something


@dataclass(frozen=True)
class Hit:
    """A chunk that matches. `score` says how well it fits the query, from 0 to 1, and `fits` whether that is enough.
    `highlights` are character ranges of `text`; `duplicates` are near-duplicate chunks."""

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
    fits: bool
    vector_rank: int | None
    text_rank: int | None
    highlights: list[tuple[int, int]]
    context: HitContext | None = None
    explanation: HitExplanation | None = None
    duplicates: list[UUID] = field(default_factory=list[UUID])
    boxes: list[PageBox] = field(default_factory=list[PageBox])  # where it stands on its pages
    is_pinned: bool = False  # people pinned it: it comes first where it fits


@dataclass(frozen=True)
class WordCorrection:
    """A word of the query that no visible chunk has, and the similar word that was searched for instead."""

    word: str
    replacement: str


@dataclass(frozen=True)
class SkippedSearch:
    """What could not be searched in a base, and why: `vector` if it was searched by words only, `both` if not at all."""

    base_id: BaseId
    base_name: str
    leg: Literal["vector", "both"]
    error: GristmillError

    @property
    def message(self) -> str:
        """A sentence for people."""
        how = "was searched by words only" if self.leg == "vector" else "was not searched"
        return f"“{self.base_name}” {how}: {self.error.message}"


@dataclass(frozen=True)
class SearchAnswer:
    """The hits, and what was changed about the query: phrases that nothing contains, whose words were searched for instead,
    and words that were corrected. `best_score` is that of the best chunk, also if it is too low for a hit; None if there
    was none. `skipped` is what could not be searched."""

    hits: list[Hit]
    best_score: float | None = None
    relaxed: list[str] = field(default_factory=list[str])
    corrected: list[WordCorrection] = field(default_factory=list[WordCorrection])
    skipped: list[SkippedSearch] = field(default_factory=list[SkippedSearch])

    @property
    def fits(self) -> bool:
        """Whether at least one hit fits the query."""
        return any(hit.fits for hit in self.hits)
