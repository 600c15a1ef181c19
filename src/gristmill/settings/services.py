"""The settings of services that Gristmill calls: embedders and file processors."""

import ipaddress
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr


def _parse_seconds(value: object) -> object:
    return float(value) if isinstance(value, str) and value.replace(".", "", 1).isdecimal() else value


# A number of seconds, also as a string from the environment; or ISO 8601, as in PT15S.
Duration = Annotated[timedelta, BeforeValidator(_parse_seconds)]


def _check_lease(lease: timedelta) -> timedelta:
    if lease < _SHORTEST_LEASE:
        raise ValueError("must be at least a second: a worker renews it three times while it lasts")
    return lease


_SHORTEST_LEASE = timedelta(seconds=1)
Lease = Annotated[Duration, AfterValidator(_check_lease)]


def _check_network(network: str) -> str:
    try:
        ipaddress.ip_network(network)
    except ValueError:
        raise ValueError("must be an address or a network, e.g. 10.0.0.7 or 10.0.0.0/8") from None
    return network


IpNetwork = Annotated[str, AfterValidator(_check_network)]


class EmbedderSettings(BaseModel):
    """An embedding model behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, TEI and others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(description="Base URL of the API, e.g. `http://localhost:11434/v1`.")
    model: str = Field(description="Model name at the endpoint.")
    dimensions: int = Field(ge=1, le=16_000, description="Number of dimensions of the model's vectors.")
    api_key: SecretStr | None = Field(default=None, description="API key, sent as a bearer token.")
    max_tokens: int = Field(
        default=512, ge=32, le=131_072, description="Maximum length of a text, in tokens."
    )
    batch_size: int = Field(default=64, ge=1, le=2048, description="Maximum number of texts in one request.")
    send_dimensions: bool = Field(default=False, description="Send `dimensions` with each request.")
    query_prefix: str = Field(default="", description="Text put before every query.")
    document_prefix: str = Field(default="", description="Text put before every document.")
    timeout: Duration = Field(
        default=timedelta(seconds=60),
        description="Timeout of one request. A query waits at most 15 seconds.",
    )
    requests_per_minute: int | None = Field(
        default=None, ge=1, le=10_000_000, description="Maximum requests per minute, across all workers."
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, le=1_000_000_000, description="Maximum tokens per minute, across all workers."
    )
    concurrency: int = Field(
        default=8, ge=1, le=1024, description="Maximum concurrent requests, across all workers."
    )
    languages: list[str] = Field(
        default=[],
        max_length=100,
        description="Languages that the model knows, such as `en`; empty means all.",
    )
    price_per_million_tokens: float | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        allow_inf_nan=False,
        description="Price of a million tokens, in any currency.",
    )


class ProcessorSettings(BaseModel):
    """A service that converts files to markdown, used instead of the built-in readers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["docling", "mineru"] = Field(
        description="Which API the service has: docling-serve's or MinerU's."
    )
    url: str = Field(description="URL of the service, e.g. `http://localhost:5001`.")
    api_key: SecretStr | None = Field(default=None, description="API key of the service.")
    timeout: Duration = Field(default=timedelta(seconds=60), description="Timeout of one request.")
