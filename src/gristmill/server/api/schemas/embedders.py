"""Embedders and the test of one."""

from typing import Annotated

from pydantic import StringConstraints

from gristmill.server.api.schemas.common import ApiModel, ErrorBody, RequestModel


class EmbedderOut(ApiModel):
    """An embedder that bases can use."""

    name: str
    dimensions: int
    max_tokens: int
    english_only: bool
    languages: list[str] | None
    is_default: bool


class EmbedderTestIn(RequestModel):
    """Which embedder to test."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class EmbedderTestOut(ApiModel):
    """Whether the embedder embedded a sample sentence."""

    ok: bool
    took_ms: float
    dimensions: int | None
    error: ErrorBody | None
