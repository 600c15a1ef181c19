"""What can be set, and where it is read: `GRISTMILL_*` in the environment, then `gristmill.toml`.

The environment wins over the file, the file over the defaults. The file is the one that
`GRISTMILL_CONFIG` names, else `./gristmill.toml`, else `gristmill.toml` in the user's config folder.
A name that is not a setting is an error in both, so that a typing mistake never passes for a setting.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from gristmill.errors import SetupError

ENV_PREFIX = "GRISTMILL_"
LOCAL_PROCESSOR = "local"  # the file processor that needs no setting: our own readers
CONFIG_VARIABLE = "GRISTMILL_CONFIG"


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _parse_seconds(value: object) -> object:
    return float(value) if isinstance(value, str) and value.replace(".", "", 1).isdecimal() else value


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
# A number is seconds, wherever it comes from; else ISO 8601, as in PT15S.
Duration = Annotated[timedelta, BeforeValidator(_parse_seconds)]


class EmbedderSettings(BaseModel):
    """An embedding model behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, TEI and others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(description="Base URL of the API, e.g. `http://localhost:11434/v1`.")
    model: str = Field(description="The model's name, as the endpoint knows it.")
    dimensions: int = Field(ge=1, le=16_000, description="Length of the vectors that the model gives.")
    api_key: SecretStr | None = Field(default=None, description="Sent as a bearer token.")
    max_tokens: int = Field(
        default=512, ge=32, le=131_072, description="Longest text the model takes, in tokens."
    )
    batch_size: int = Field(default=64, ge=1, le=2048, description="Texts in one request.")
    send_dimensions: bool = Field(default=False, description="Ask the endpoint for vectors of `dimensions`.")
    query_prefix: str = Field(default="", description="Put before every query.")
    document_prefix: str = Field(default="", description="Put before every document.")
    timeout: Duration = Field(default=timedelta(seconds=60), description="Longest wait for one request.")
    requests_per_minute: int | None = Field(
        default=None, ge=1, le=10_000_000, description="Most requests a minute, of all workers together."
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, le=1_000_000_000, description="Most tokens a minute, of all workers together."
    )
    concurrency: int = Field(
        default=8, ge=1, le=1024, description="Most requests at once, of all workers together."
    )


class ProcessorSettings(BaseModel):
    """A service that converts files to markdown, in place of our own readers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["docling", "mineru"] = Field(
        description="What it speaks: docling-serve's API, or MinerU's."
    )
    url: str = Field(description="Its address, e.g. `http://localhost:5001`.")
    api_key: SecretStr | None = Field(default=None, description="Its key.")
    timeout: Duration = Field(default=timedelta(seconds=60), description="Longest wait for one request.")


class Settings(BaseSettings):
    """Every setting of Gristmill; `docs/reference/settings.md` is written from these descriptions."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    data_dir: AbsolutePath = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("gristmill", appauthor=False)),
        description="Holds the embedded database and the blobs.",
    )
    cache_dir: AbsolutePath = Field(
        default_factory=lambda: Path(platformdirs.user_cache_dir("gristmill", appauthor=False)),
        description="Holds what can be made again, such as the prepared embedder.",
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="A PostgreSQL of your own (15 or later, pgvector 0.8 or later) in place of the embedded one.",
    )
    host: str = Field(default="127.0.0.1", description="Address that `gristmill serve` binds.")
    port: int = Field(
        default=7373, ge=0, le=65_535, description="Port that `gristmill serve` binds; 0 takes a free one."
    )
    worker_host: str = Field(
        default="127.0.0.1", description="Address that `gristmill worker` binds when it has a port."
    )
    worker_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Port on which `gristmill worker` answers `/healthz`, `/readyz` and `/metrics`; none by default.",
    )
    blob_url: str | None = Field(
        default=None,
        description="Store for uploaded files: `s3://…`, `gs://…`, `az://…`; by default a folder of the data dir.",
    )
    allow_private_addresses: bool = Field(
        default=False,
        description="Let web pages, sitemaps and tools be fetched from, and webhooks be sent to, private networks and this machine.",
    )
    secret_key: SecretStr | None = Field(
        default=None,
        description="Seals the secrets of webhooks and connectors, 32 bytes in base64; by default `secret.key` of the data dir.",
    )
    require_key: bool = Field(
        default=False,
        description="Let nobody in without an API key, on loopback too: for a proxy in front, or a machine with many users.",
    )
    allowed_hosts: list[str] = Field(
        default_factory=list,
        description="Host names that the server answers under beyond loopback; any, when none is given.",
    )
    allowed_paths: list[AbsolutePath] = Field(
        default_factory=list,
        description="Folders of the server's disk that callers may add files and folders from; not needed on loopback.",
    )
    api_key: SecretStr | None = Field(
        default=None, description="Key with which commands speak to a server that wants one."
    )
    key_requests_per_minute: int = Field(
        default=6_000,
        ge=1,
        le=10_000_000,
        description="Requests that one API key may send a minute to one server; more are refused with 429.",
    )
    session_life: Duration = Field(
        default=timedelta(hours=12), description="How long a browser is let in by one key."
    )
    audit_retention: Duration = Field(
        default=timedelta(days=90), description="How long it is kept what was asked for."
    )
    access_log: bool = Field(default=False, description="Log every request, with who sent it.")
    otlp_endpoint: str | None = Field(
        default=None,
        description="Where traces are sent, by OTLP over HTTP, e.g. `http://localhost:4318/v1/traces`; needs `gristmill[otel]`.",
    )
    max_upload_mb: int = Field(
        default=1024,
        ge=1,
        le=1_048_576,
        description="Largest upload request, in MiB. A larger one is refused with 413.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged."
    )
    log_format: Literal["auto", "text", "json"] = Field(
        default="auto", description="`auto` writes text on a terminal and JSON lines elsewhere."
    )
    max_request_mb: int = Field(
        default=16,
        ge=1,
        le=1024,
        description="Largest JSON request body, in MiB. A larger one is refused with 413.",
    )
    max_document_mb: int = Field(
        default=2048, ge=1, le=65_536, description="Largest document that is read, in MiB."
    )
    worker_slots: int = Field(
        default=32, ge=1, le=256, description="Jobs that one worker process runs at once."
    )
    lane_cap: int = Field(
        default=32, ge=1, le=256, description="Jobs of one base that run at once, in all workers together."
    )
    max_queue: int = Field(
        default=1_000_000, ge=1, description="Jobs that may wait in all; more are refused with 429."
    )
    max_queue_per_base: int = Field(
        default=100_000, ge=1, description="Jobs of one base that may wait; more are refused with 429."
    )
    lease: Duration = Field(
        default=timedelta(seconds=15),
        description="How long a worker that shows no sign of life keeps its jobs.",
    )
    stop_grace: Duration = Field(
        default=timedelta(seconds=10), description="How long a stopping worker lets its running jobs go on."
    )
    job_retention: Duration = Field(default=timedelta(days=7), description="How long finished jobs are kept.")
    event_retention: Duration = Field(default=timedelta(days=30), description="How long events are kept.")
    reconcile_cron: str = Field(
        default="*/5 * * * *",
        description="When the reconciler looks for what should not be, as a cron expression in UTC.",
    )
    embedder: str = Field(default="granite-30m-en", description="Embedder of new bases that name none.")
    embedders: dict[str, EmbedderSettings] = Field(
        default_factory=dict, description="Embedders behind HTTP endpoints, by the name that bases use."
    )
    embed_threads: int = Field(
        default_factory=lambda: max(1, os.cpu_count() or 1),
        ge=1,
        le=256,
        description="Threads of the local embedder.",
    )
    reranker_url: str | None = Field(
        default=None,
        description="Endpoint that looks again at the best hits, of Cohere's form: `https://…/rerank`.",
    )
    reranker_model: str | None = Field(default=None, description="Model that the reranker is asked for.")
    reranker_api_key: SecretStr | None = Field(default=None, description="Key of the reranker.")
    vision_url: str | None = Field(
        default=None,
        description="OpenAI-compatible API of a model that sees, e.g. `http://localhost:11434/v1`; it describes images in place of OCR.",
    )
    vision_model: str | None = Field(default=None, description="Model that images are shown to.")
    vision_api_key: SecretStr | None = Field(default=None, description="Key of the vision model.")
    processors: dict[str, ProcessorSettings] = Field(
        default_factory=dict,
        description="File processors, by the name that bases use; `local` are our own readers.",
    )
    search_cache_mb: int = Field(
        default=256,
        ge=1,
        le=1_048_576,
        description="Memory for what searches keep of bases, in MiB; about 85 for a million chunks of 384 dimensions.",
    )
    sync_budget: Duration = Field(
        default=timedelta(minutes=15),
        description="How long a run of a connector works in one go; it goes on from there after others had their turn.",
    )
    max_attachment_mb: int = Field(
        default=64, ge=1, le=65_536, description="Largest attachment that a connector fetches, in MiB."
    )
    faults: str = Field(
        default="", description="For tests: named crash points to arm, e.g. `publish.before_commit=kill@3`."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then the file."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, _read_file())


def load(**overrides: Any) -> Settings:
    """Read the settings, or say in one sentence which one is wrong; `given` wins over all sources."""
    _refuse_unknown_names(os.environ)
    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        raise SetupError("; ".join(_messages(error)), code="bad_setting") from None


def config_file() -> Path | None:
    """The `gristmill.toml` that is in force, if there is one."""
    configured = os.environ.get(CONFIG_VARIABLE)
    if configured:
        path = Path(configured).expanduser()
        if not path.is_file():
            raise SetupError(f"{CONFIG_VARIABLE} names {path}, which is not a file.", code="no_config_file")
        return path
    candidates = (
        Path("gristmill.toml"),
        Path(platformdirs.user_config_dir("gristmill", appauthor=False)) / "gristmill.toml",
    )
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _read_file() -> dict[str, Any]:
    path = config_file()
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SetupError(f"{path} can't be read: {error}", code="bad_config_file") from error


def _refuse_unknown_names(environment: Mapping[str, str]) -> None:
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields} | {CONFIG_VARIABLE}
    for name in sorted(environment):
        if not name.upper().startswith(ENV_PREFIX) or name.upper().split("__")[0] in known:
            continue
        similar = difflib.get_close_matches(name.upper(), known, n=1)
        hint = (
            f" Did you mean {similar[0]}?"
            if similar
            else " `gristmill doctor --help` tells where settings are listed."
        )
        raise SetupError(f"{name} is not a setting of Gristmill.{hint}", code="unknown_setting")


def _messages(error: ValidationError) -> list[str]:
    return [
        f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg'].removeprefix('Value error, ')}"
        for problem in error.errors(include_url=False, include_input=False, include_context=False)
    ]
