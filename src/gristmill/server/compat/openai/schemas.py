"""Request bodies as OpenAI's SDKs send them. An unknown field is refused, as it is there."""

from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
    model_validator,
)

from gristmill.embedding import Embedder
from gristmill.search import Condition, ConditionGroup
from gristmill.server.api.schemas.common import Name, NonBlankText, require_storable
from gristmill.server.api.schemas.conditions import ComparisonOperator, Value, check_size, comparison

MAX_BATCH = 2000
_AUTO_TOKENS, _AUTO_OVERLAP = 800, 400


class OpenAiRequest(BaseModel):
    """Base of every request body."""

    model_config = ConfigDict(extra="forbid", str_max_length=1_000_000)

    @model_validator(mode="after")
    def _require_storable_text(self) -> Self:
        for name, value in self.__dict__.items():
            require_storable(value, name)
        return self


class RequestWithNulls(OpenAiRequest):
    """Base of requests in which null means that a field is not set: some clients, such as LiteLLM, send all fields."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: object) -> object:
        if not isinstance(body, dict):
            return body
        fields = cast(dict[str, object], body)
        return {name: value for name, value in fields.items() if value is not None}


AttributeKey = Annotated[StrictStr, StringConstraints(min_length=1, max_length=64)]
AttributeValue = (
    StrictBool
    | StrictInt
    | Annotated[StrictFloat, Field(allow_inf_nan=False)]
    | Annotated[StrictStr, StringConstraints(max_length=512)]
)
Attributes = Annotated[dict[AttributeKey, AttributeValue], Field(max_length=16)]
Metadata = Annotated[
    dict[AttributeKey, Annotated[StrictStr, StringConstraints(max_length=512)]], Field(max_length=16)
]


class ExpiresAfter(OpenAiRequest):
    """When a store expires."""

    anchor: Literal["last_active_at"]
    days: Annotated[StrictInt, Field(ge=1, le=365)]


class StaticSize(OpenAiRequest):
    """The size of chunks in tokens, and how many of them the next chunk repeats."""

    max_chunk_size_tokens: Annotated[StrictInt, Field(ge=100, le=4096)]
    chunk_overlap_tokens: Annotated[StrictInt, Field(ge=0)]

    @model_validator(mode="after")
    def _limit_overlap(self) -> Self:
        if self.chunk_overlap_tokens > self.max_chunk_size_tokens // 2:
            raise ValueError("chunk_overlap_tokens must not exceed half of max_chunk_size_tokens")
        return self


class ChunkingStrategy(RequestWithNulls):
    """How a file is split. `auto` in a new store is 800 tokens with 400 repeated; for a file it is what the store has."""

    type: Literal["auto", "static"]
    static: StaticSize | None = None

    @model_validator(mode="after")
    def _require_size(self) -> Self:
        if (self.type == "static") is (self.static is None):
            raise ValueError("static must be given if, and only if, type is static")
        return self


def store_chunking(strategy: ChunkingStrategy | None, embedder: Embedder) -> dict[str, Any]:
    """The chunking of a new store, as far as its embedder can take such long texts."""
    if strategy is None or strategy.static is None:
        return _chunking(_AUTO_TOKENS, _AUTO_OVERLAP, embedder)
    return file_chunking(strategy, embedder)


def file_chunking(strategy: ChunkingStrategy | None, embedder: Embedder) -> dict[str, Any]:
    """What a file asks for other than its store has."""
    if strategy is None or strategy.static is None:
        return {}
    return _chunking(strategy.static.max_chunk_size_tokens, strategy.static.chunk_overlap_tokens, embedder)


def _chunking(tokens: int, overlap: int, embedder: Embedder) -> dict[str, Any]:
    tokens = min(tokens, embedder.max_tokens)
    return {"maxTokens": tokens, "overlapTokens": min(overlap, tokens // 2)}


class NewStore(RequestWithNulls):
    """A vector store to create."""

    name: Name | None = None
    description: Annotated[str, StringConstraints(max_length=2000)] | None = None
    file_ids: Annotated[list[StrictStr], Field(max_length=MAX_BATCH)] = []
    expires_after: ExpiresAfter | None = None
    chunking_strategy: ChunkingStrategy | None = None
    metadata: Metadata | None = None


class ChangedStore(OpenAiRequest):
    """Changes to a vector store; omitted fields stay as they are."""

    name: Name | None = None
    expires_after: ExpiresAfter | None = None
    metadata: Metadata | None = None


class NewStoreFile(RequestWithNulls):
    """A file to put into a store."""

    file_id: StrictStr
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None


class ChangedStoreFile(OpenAiRequest):
    """New attributes of a file in a store, in place of the old ones."""

    attributes: Attributes | None


class NewBatch(RequestWithNulls):
    """Files to put into a store: `file_ids` with common attributes, or `files` with their own."""

    file_ids: Annotated[list[StrictStr], Field(min_length=1, max_length=MAX_BATCH)] | None = None
    files: Annotated[list[NewStoreFile], Field(min_length=1, max_length=MAX_BATCH)] | None = None
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None

    @model_validator(mode="after")
    def _require_one_list(self) -> Self:
        if (self.file_ids is None) is (self.files is None):
            raise ValueError("either file_ids or files must be given")
        return self

    def entries(self) -> list[NewStoreFile]:
        """The files with their attributes and chunking."""
        if self.files is not None:
            return self.files
        return [
            NewStoreFile(
                file_id=file_id, attributes=self.attributes, chunking_strategy=self.chunking_strategy
            )
            for file_id in self.file_ids or ()
        ]


class Filter(RequestWithNulls):
    """A comparison of one attribute, or a group of filters."""

    type: ComparisonOperator | Literal["and", "or"]
    key: AttributeKey | None = None
    value: Value | Annotated[list[Value], Field(max_length=1000)] | None = None
    filters: Annotated[list["Filter"], Field(max_length=100)] | None = None

    @model_validator(mode="after")
    def _require_condition(self) -> Self:
        check_size(self.to_condition())
        return self

    def to_condition(self) -> Condition:
        """The condition as `search/` takes it."""
        if self.type == "and" or self.type == "or":
            if self.filters is None or self.key is not None or self.value is not None:
                raise ValueError(f"a filter of type {self.type} must have filters, and no key or value")
            return ConditionGroup(self.type, tuple(part.to_condition() for part in self.filters))
        if self.key is None or self.value is None or self.filters is not None:
            raise ValueError(f"a filter of type {self.type} must have a key and a value, and no filters")
        return comparison(self.key, self.type, self.value)


class RankingOptions(RequestWithNulls):
    """Which ranker is used, and the lowest score of a result."""

    ranker: Literal["none", "auto", "default-2024-11-15"] = "auto"
    score_threshold: Annotated[float, Field(ge=0, le=1)] = 0.0


class StoreSearch(RequestWithNulls):
    """A search in a vector store. A list of queries is searched one by one; `rewrite_query` is accepted and changes nothing."""

    query: (
        Annotated[NonBlankText, Field(max_length=10_000)]
        | Annotated[
            list[Annotated[NonBlankText, Field(max_length=10_000)]], Field(min_length=1, max_length=10)
        ]
    )
    filters: Filter | None = None
    max_num_results: Annotated[StrictInt, Field(ge=1, le=50)] = 10
    ranking_options: RankingOptions = RankingOptions()
    rewrite_query: StrictBool = False

    @property
    def queries(self) -> list[str]:
        """The queries."""
        return [self.query] if isinstance(self.query, str) else self.query
