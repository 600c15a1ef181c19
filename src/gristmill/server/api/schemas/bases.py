"""Knowledge bases and the queue of one base."""

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, StrictBool, StrictInt, StringConstraints

from gristmill.catalog import (
    AssetReuse,
    Base,
    BaseStats,
    BaseStatus,
    EmptyDocuments,
    IndexKind,
    OnRestart,
    QuestionKeeping,
    RenderChoice,
)
from gristmill.search import AskedQuestion
from gristmill.server.api.schemas.common import (
    Acl,
    ApiModel,
    ErrorBody,
    JsonObject,
    Name,
    Patterns,
    RequestModel,
    StoredModel,
)
from gristmill.server.api.schemas.freshness import RefreshIn, RefreshOut


class Chunking(RequestModel):
    """How the documents of the base are split into chunks."""

    max_tokens: (
        Annotated[StrictInt, Field(ge=32, le=8192, description="Longest chunk, in the embedder's tokens.")]
        | None
    ) = None
    overlap_tokens: (
        Annotated[
            StrictInt,
            Field(
                ge=0,
                le=4096,
                description="Tokens of a chunk that the next one repeats, at most half a chunk.",
            ),
        ]
        | None
    ) = None

    def changes(self) -> dict[str, int | None]:
        """The fields of the request: those that are omitted stay as they are, and null means the default."""
        return self.model_dump(by_alias=True, exclude_unset=True)


Description = Annotated[str, StringConstraints(max_length=2000)]
ExpireDays = Annotated[StrictInt, Field(ge=1, le=3650)]

Synonyms = Annotated[
    list[
        Annotated[
            list[Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]],
            Field(min_length=2, max_length=20),
        ]
    ],
    Field(
        max_length=500, description="Groups of words that mean the same; searches for one find the others."
    ),
]


class Options(RequestModel):
    """Which files of folders are included, from the next listing on, when image descriptions are reused, synonyms,
    which hits searches leave out, and whether what people search for is kept."""

    ignore: (
        Annotated[Patterns, Field(description="Files to leave out: patterns as in .gitignore.")] | None
    ) = None
    include_hidden: (
        Annotated[StrictBool, Field(description="Include names that begin with a dot.")] | None
    ) = None
    synonyms: Synonyms | None = None
    min_score: (
        Annotated[
            float,
            Field(
                ge=0,
                le=1,
                description="Searches leave out hits with a lower score, unless they say otherwise.",
            ),
        ]
        | None
    ) = None
    questions: (
        Annotated[
            QuestionKeeping,
            Field(
                description="`keep`: what people search for is kept, without their names, to compare embedders with. "
                "`off` deletes what was kept."
            ),
        ]
        | None
    ) = None
    asset_reuse: (
        Annotated[AssetReuse, Field(description="When to reuse the description of an identical image.")]
        | None
    ) = None
    empty_documents: (
        Annotated[
            EmptyDocuments,
            Field(
                description="Whether a document with bytes but no text fails, or is completed with a warning."
            ),
        ]
        | None
    ) = None
    render: (
        Annotated[
            RenderChoice,
            Field(
                description="Which web pages a browser renders: none, those with scripts and hardly any text, or all."
            ),
        ]
        | None
    ) = None


class NewBase(RequestModel):
    """A base to create. `onRestart`: interrupted work resumes by itself, or waits for `queue/recover`. Without `refresh`, the
    setting of the same name applies; null: sources are checked on request only."""

    name: Name
    embedder: str | None = None
    languages: Annotated[
        list[Annotated[str, StringConstraints(min_length=2, max_length=20)]],
        Field(
            default_factory=list,
            max_length=20,
            description="Codes of the languages of its documents; they choose the embedder.",
        ),
    ]
    chunking: Chunking = Chunking()
    file_processor_id: Name | None = None
    on_restart: OnRestart = "resume"
    settings: Options = Options()
    acl: Annotated[Acl, Field(default_factory=list)]
    description: Description = ""
    metadata: Annotated[JsonObject, Field(default_factory=dict)]
    expires_after_days: ExpireDays | None = None
    refresh: RefreshIn | None = None


class ChangedBase(RequestModel):
    """Changes to a base; omitted fields stay as they are. `status: ready` restores a failed base once its cause is
    fixed. `expiresAfterDays` counts from now; null: it never expires. `refresh: null`:
    sources are checked on request only."""

    name: Name | None = None
    chunking: Chunking | None = None
    file_processor_id: Name | None = None
    on_restart: OnRestart | None = None
    settings: Options | None = None
    acl: Acl | None = None
    description: Description | None = None
    metadata: JsonObject | None = None
    expires_after_days: ExpireDays | None = None
    refresh: RefreshIn | None = None
    status: Literal["ready"] | None = None


class IndexMove(RequestModel):
    """Where a base moves to: `embedded`, `opensearch`, or an address of `index_url`."""

    to: Annotated[
        str, Field(max_length=2000, description="`embedded`, `opensearch`, or an address of `index_url`.")
    ]


class MovingBase(ApiModel):
    """The job that moves a base."""

    job_id: UUID


class BaseOut(StoredModel):
    """A knowledge base."""

    name: str
    status: BaseStatus
    error: ErrorBody | None
    embedder: str
    dimensions: int
    chunking: JsonObject
    file_processor_id: str | None
    on_restart: str
    settings: JsonObject
    acl: list[str]
    description: str
    metadata: JsonObject
    expires_after_days: int | None
    expires_at: datetime | None
    last_active_at: datetime | None
    item_counts: dict[str, int]
    leaf_counts: dict[str, int]
    chunk_count: int
    progress: float
    index: IndexKind
    moving_to: IndexKind | None
    changed_at: datetime
    suggested_embedder: str | None
    refresh: RefreshOut | None

    @classmethod
    def of(cls, base: Base, stats: BaseStats, suggested_embedder: str | None = None) -> Self:
        """Show `base`."""
        return cls(
            id=base.id,
            created_at=base.created_at,
            updated_at=base.updated_at,
            name=base.name,
            status=base.status,
            error=ErrorBody.from_columns(base.error_code, base.error_message),
            embedder=base.embedder,
            dimensions=base.dimensions,
            chunking=base.chunking,
            file_processor_id=base.file_processor,
            on_restart=base.on_restart,
            settings={
                "ignore": base.ignore,
                "includeHidden": base.include_hidden,
                "assetReuse": base.asset_reuse,
                "emptyDocuments": base.empty_documents,
                "render": base.render,
                "synonyms": base.synonyms,
                "minScore": base.min_score,
                "questions": "keep" if base.keeps_questions else "off",
            },
            acl=base.acl,
            description=base.description,
            metadata=base.metadata,
            expires_after_days=base.expire_days,
            expires_at=base.expires_at,
            last_active_at=base.last_active_at,
            item_counts=stats.items,
            leaf_counts=stats.leaves,
            chunk_count=stats.chunks,
            progress=round(stats.progress, 1),
            index=base.index_kind,
            moving_to=base.index_fill,
            changed_at=max(base.updated_at, stats.changed_at or base.updated_at),
            suggested_embedder=suggested_embedder,
            refresh=RefreshOut.of(base.refresh),
        )


class AskedQuestionOut(ApiModel):
    """What people searched a base for: how often, and when last. `bestScore` is that of the last time; null if there was no hit,
    or an answer was asked for."""

    id: UUID
    question: str
    times: int
    best_score: float | None
    asked_at: datetime

    @classmethod
    def of(cls, row: AskedQuestion) -> Self:
        """Show `row`."""
        score = None if row.best_score is None else round(row.best_score, 4)
        return cls(id=row.id, question=row.question, times=row.times, best_score=score, asked_at=row.asked_at)


class DeletedQuestions(ApiModel):
    """How many questions were deleted."""

    deleted: int


class DeletedBase(ApiModel):
    """The job that removes the base; the job's result is the receipt."""

    job_id: UUID


class Recovered(ApiModel):
    """How many items were queued again."""

    recovered: int


class Dismissed(ApiModel):
    """How many items were marked as failed."""

    dismissed: int


class QueueOut(ApiModel):
    """The work left in a base, its rate and its estimated end."""

    queue_size: int
    processing_count: int
    dead_count: int
    active_item_ids: list[UUID]
    orphan_item_ids: list[UUID]
    per_stage: dict[str, int]
    oldest_queued_at: datetime | None
    rate_per_minute: int
    eta_seconds: int | None
    paused: bool
