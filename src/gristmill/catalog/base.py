"""A knowledge base: a tree of items that share one embedder and are searched together."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NewType
from uuid import UUID

from gristmill.catalog.lifecycle import BaseStatus
from gristmill.identity.organisation import OrgId

BaseId = NewType("BaseId", UUID)
ChunkSetId = NewType("ChunkSetId", UUID)
OnRestart = Literal["resume", "park"]
AssetReuse = Literal["any", "document", "force"]
EmptyDocuments = Literal["fail", "warn"]
RenderChoice = Literal["never", "auto", "always"]
IndexKind = Literal["embedded", "opensearch"]
QuestionKeeping = Literal["off", "keep"]


@dataclass(frozen=True)
class Base:
    """A row of `base`."""

    id: BaseId
    name: str
    status: BaseStatus
    error_code: str | None
    error_message: str | None
    embedder: str
    embedder_identity: str
    dimensions: int
    chunking: dict[str, Any]
    file_processor: str | None
    on_restart: OnRestart
    acl: list[str]
    created_at: datetime
    updated_at: datetime
    ingested: bool  # whether it was announced as ready since its last work
    busy_since: datetime | None  # since when it has work that was not announced as done
    settings: dict[str, Any]
    org_id: OrgId
    chunk_set: ChunkSetId  # the chunks that searches read
    switching_until: datetime | None = (
        None  # another set of chunks is about to take over: nothing is published until then
    )
    index_kind: IndexKind = "embedded"  # where its chunks are searched: here, or in a search engine
    index_fill: IndexKind | None = None  # where it is moving to
    description: str = ""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    expire_days: int | None = None  # how long after its last use it expires
    last_active_at: datetime | None = None  # the last search or change of its items, to the minute
    expires_at: datetime | None = None
    refresh: dict[str, Any] | None = None  # when its sources are checked; None: never by themselves
    suggested_embedder: str | None = None  # which embedder the last event suggested

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", BaseStatus(self.status))

    @property
    def lane(self) -> str:
        """The lane that the base's jobs run in."""
        return str(self.id)

    @property
    def indexes(self) -> set[str | None]:
        """Where everything that is written goes."""
        return {self.index_kind, self.index_fill} - {None}

    @property
    def is_in_engine(self) -> bool:
        """Whether a search engine has its chunks, or is getting them."""
        return "opensearch" in (self.index_kind, self.index_fill)

    @property
    def is_rebuilding(self) -> bool:
        """Whether the index that answers is being built again."""
        return self.index_fill == self.index_kind

    @property
    def has_segments(self) -> bool:
        """Whether the embedded index has its chunks, or is getting them."""
        return "embedded" in (self.index_kind, self.index_fill)

    @property
    def ignore(self) -> list[str]:
        """Patterns of files and folders that its directories skip."""
        return self.settings.get("ignore", [])

    @property
    def synonyms(self) -> tuple[tuple[str, ...], ...]:
        """Groups of words that mean the same in its texts."""
        return tuple(tuple(group) for group in self.settings.get("synonyms", []))

    @property
    def min_score(self) -> float:
        """Searches leave out hits with a lower score; 0 if they return all."""
        return float(self.settings.get("minScore", 0))

    @property
    def keeps_questions(self) -> bool:
        """Whether what people search it for is kept, for the comparison of embedders."""
        return self.settings.get("questions") == "keep"

    @property
    def asset_reuse(self) -> AssetReuse:
        """Whether an earlier description of an equal image is reused: of any document, of the same one, or never."""
        return self.settings.get("assetReuse", "any")

    @property
    def include_hidden(self) -> bool:
        """Whether its directories include names that begin with a dot."""
        return self.settings.get("includeHidden", False)

    @property
    def empty_documents(self) -> EmptyDocuments:
        """Whether a document that has bytes but no text fails, or is completed with a warning."""
        return self.settings.get("emptyDocuments", "fail")

    @property
    def render(self) -> RenderChoice:
        """Which of its web pages a browser renders, unless they or their container have a choice of their own."""
        return self.settings.get("render", "never")
