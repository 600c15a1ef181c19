"""Embedders, and the test of one."""

import re
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, StringConstraints

from gristmill.embedding import Embedder, Embedders, Origin, StoredEmbedder
from gristmill.embedding.kinds import DEFAULT_KIND
from gristmill.embedding.stored import settings_of
from gristmill.server.api.schemas.common import ApiModel, ErrorBody, RequestModel
from gristmill.settings import EmbedderSettings


def _validate_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:  # brackets without an IPv6 address, or a port that is no number
        raise ValueError("must be an http or https URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https URL, such as https://api.example.com/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not contain a user or password: give the key as apiKey")
    if parts.query or parts.fragment or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must be an address without query, fragment, spaces or special characters")
    return text.rstrip("/")


# One segment of a path, and no option of a command.
_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"


def _validate_name(text: str) -> str:
    if not re.fullmatch(_NAME, text):
        raise ValueError(
            "may contain only letters, digits, dots, hyphens and underscores of ASCII, at most 100, and must begin with a letter or digit"
        )
    return text


def _validate_key(key: SecretStr) -> SecretStr:
    """It is sent in a header."""
    if not all("!" <= letter <= "~" for letter in key.get_secret_value()):
        raise ValueError("may contain only letters, digits and signs of ASCII, without spaces")
    return key


EmbedderName = Annotated[
    str, Field(json_schema_extra={"pattern": f"^{_NAME}$"}), AfterValidator(_validate_name)
]
Url = Annotated[str, StringConstraints(min_length=1, max_length=2_000), AfterValidator(_validate_url)]
Model = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
ApiKeyText = Annotated[
    SecretStr,
    Field(min_length=1, max_length=4_000, json_schema_extra={"pattern": "^[!-~]+$"}),
    AfterValidator(_validate_key),
]
Prefix = Annotated[str, StringConstraints(max_length=1_000)]
Languages = Annotated[list[Annotated[str, StringConstraints(max_length=35)]], Field(max_length=100)]
TimeoutSeconds = Annotated[float, Field(ge=1, le=600)]
Dimensions = Annotated[int, Field(ge=1, le=16_000)]
MaxTokens = Annotated[int, Field(ge=32, le=131_072)]
BatchSize = Annotated[int, Field(ge=1, le=2048)]
RequestsPerMinute = Annotated[int, Field(ge=1, le=10_000_000)]
TokensPerMinute = Annotated[int, Field(ge=1, le=1_000_000_000)]
Concurrency = Annotated[int, Field(ge=1, le=1024)]
Price = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]

# Null removes these; for any other field, it means that the field is not given.
_REMOVABLE = frozenset({"api_key", "requests_per_minute", "tokens_per_minute", "price_per_million_tokens"})


class _EmbedderFields(RequestModel):
    api_key: ApiKeyText | None = None
    dimensions: Dimensions | None = None
    max_tokens: MaxTokens | None = None
    batch_size: BatchSize | None = None
    send_dimensions: bool | None = None
    query_prefix: Prefix | None = None
    document_prefix: Prefix | None = None
    timeout_seconds: TimeoutSeconds | None = None
    requests_per_minute: RequestsPerMinute | None = None
    tokens_per_minute: TokensPerMinute | None = None
    concurrency: Concurrency | None = None
    languages: Languages | None = None
    price_per_million_tokens: Price | None = None

    def to_settings(self) -> dict[str, Any]:
        """The fields that are given, by their names in `EmbedderSettings`. The key is in plain text, only to be encrypted."""
        fields = {name: getattr(self, name) for name in self.model_fields_set - {"name", "kind"}}
        if self.api_key is not None:
            fields["api_key"] = self.api_key.get_secret_value()
        if self.timeout_seconds is not None:
            fields["timeout"] = timedelta(seconds=self.timeout_seconds)
        fields.pop("timeout_seconds", None)
        return {name: value for name, value in fields.items() if value is not None or name in _REMOVABLE}


class NewEmbedder(_EmbedderFields):
    """An embedder to create. Without `dimensions`, the endpoint is asked for them."""

    name: EmbedderName
    kind: Literal["openai"] = DEFAULT_KIND
    url: Url
    model: Model


class EmbedderChange(_EmbedderFields):
    """Changes to a stored embedder; omitted fields stay as they are. Null removes the key, a rate limit or the price."""

    url: Url | None = None
    model: Model | None = None


class EmbedderOut(ApiModel):
    """An embedder that bases can use, without its key. Only stored embedders have an address here, and only for admins."""

    name: str
    origin: Origin
    kind: Literal["local", "openai"]
    model: str | None
    url: str | None
    has_key: bool
    dimensions: int
    max_tokens: int
    chunk_tokens: int
    english_only: bool
    languages: list[str] | None
    price_per_million_tokens: float | None
    batch_size: int | None
    send_dimensions: bool | None
    query_prefix: str | None
    document_prefix: str | None
    timeout_seconds: float | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrency: int | None
    is_default: bool
    created_at: datetime | None
    updated_at: datetime | None

    @classmethod
    def of(cls, embedder: Embedder, embedders: Embedders, *, is_admin: bool, is_default: bool) -> Self:
        """Show `embedder`; its address to admins only."""
        row = embedder.row if isinstance(embedder, StoredEmbedder) else None
        settings = embedders.settings_of(embedder) if row is None else settings_of(row)
        languages = None if embedder.strengths is None else sorted(embedder.strengths)
        return cls(
            name=embedder.name,
            origin=embedders.origin_of(embedder),
            kind="local" if settings is None else "openai",
            url=settings.url if settings and row and is_admin else None,
            has_key=row.api_key is not None if row else bool(settings and settings.api_key),
            dimensions=embedder.dimensions,
            chunk_tokens=embedder.max_tokens,
            english_only=languages == ["english"],
            languages=languages,
            is_default=is_default,
            created_at=row and row.created_at,
            updated_at=row and row.updated_at,
            **_settings_fields(settings, embedder.max_tokens),
        )


def _settings_fields(settings: EmbedderSettings | None, max_tokens: int) -> dict[str, Any]:
    """What is configured for an embedder behind an address; nothing for a model in this process."""
    if settings is None:
        names = (*_CONFIGURED, "timeout_seconds")
        return {**dict.fromkeys(names), "max_tokens": max_tokens}
    fields = {name: getattr(settings, name) for name in _CONFIGURED}
    return {**fields, "max_tokens": settings.max_tokens, "timeout_seconds": settings.timeout.total_seconds()}


_CONFIGURED = (
    "model",
    "price_per_million_tokens",
    "batch_size",
    "send_dimensions",
    "query_prefix",
    "document_prefix",
    "requests_per_minute",
    "tokens_per_minute",
    "concurrency",
)


class EmbedderTestIn(RequestModel):
    """Which embedder to test."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class EmbedderTestOut(ApiModel):
    """Whether the embedder embedded a sample sentence."""

    ok: bool
    took_ms: float
    dimensions: int | None
    error: ErrorBody | None
