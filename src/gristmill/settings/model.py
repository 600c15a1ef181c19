"""Every setting, with its default and its limits."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from gristmill.settings.secrets import AbsolutePath, SecretSettings
from gristmill.settings.services import Duration, EmbedderSettings, IpNetwork, Lease, ProcessorSettings
from gristmill.settings.sign_in import SignInSettings
from gristmill.settings.toml_file import read_config_file
from gristmill.settings.web_pages import WebPageSettings

ENV_PREFIX = "GRISTMILL_"


def _default_reader_processes(cores: int) -> int:
    """As many as let one base alone, with its default share, use every core."""
    return -(-4 * cores // 3)


def _server_address(address: str) -> str:
    if not address.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://, e.g. https://kb.example.org")
    return address.rstrip("/")


ServerAddress = Annotated[str, AfterValidator(_server_address)]


class Settings(WebPageSettings, SignInSettings, SecretSettings):
    """Every setting of Gristmill; `docs/reference/settings.md` is compared with these descriptions by a test."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    data_dir: AbsolutePath = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("gristmill", appauthor=False)),
        description="Folder for the built-in database and the stored files.",
    )
    cache_dir: AbsolutePath = Field(
        default_factory=lambda: Path(platformdirs.user_cache_dir("gristmill", appauthor=False)),
        description="Folder for files that can be rebuilt, such as the prepared embedding model.",
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="URL of your own PostgreSQL (15 or later, with pgvector 0.8 or later), used instead of the built-in one.",
    )
    host: str = Field(default="127.0.0.1", description="Address that `gristmill serve` listens on.")
    port: int = Field(
        default=7373,
        ge=0,
        le=65_535,
        description="Port that `gristmill serve` listens on; 0 picks a free one.",
    )
    server_processes: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Number of processes of `gristmill serve` that answer requests, on one port.",
    )
    worker_processes: int = Field(
        default=1,
        ge=0,
        le=64,
        description="Number of processes of `gristmill serve` that run jobs; 0 if only `gristmill worker` runs them.",
    )
    single_process: bool = Field(
        default=False,
        description="Run the server and the worker of `gristmill serve` in one process, for tiny machines; always so on systems other than Linux.",
    )
    worker_host: str = Field(
        default="127.0.0.1",
        description="Address that `gristmill worker` listens on, if `worker_port` is set.",
    )
    worker_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Port on which `gristmill worker` serves `/healthz`, `/readyz` and `/metrics`; not served by default.",
    )
    blob_url: str | None = Field(
        default=None,
        description="Object store for uploaded files: `s3://…`, `gs://…` or `az://…`; by default a folder in the data dir.",
    )
    allow_private_addresses: bool = Field(
        default=False,
        description="Allow fetching web pages, sitemaps and connector sources from, and sending webhooks to, private networks and this machine.",
    )
    require_key: bool = Field(
        default=False,
        description="Require an API key for every request, on loopback too. Set it behind a reverse proxy, or on a machine with several users.",
    )
    allowed_hosts: list[str] = Field(
        default_factory=list,
        description="Host names that the server accepts besides loopback; any host name, if the list is empty.",
    )
    trusted_proxies: list[IpNetwork] = Field(
        default_factory=lambda: ["127.0.0.1", "::1"],
        description="Addresses or networks of reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` headers are trusted.",
    )
    allowed_paths: list[AbsolutePath] = Field(
        default_factory=list,
        description="Folders on the server from which requests with an API key may add files and folders; the local user, who needs no key, may add all.",
    )
    url: ServerAddress | None = Field(
        default=None,
        description="Address of the server that commands use, e.g. `https://kb.example.org`; by default the one that runs on the data dir.",
    )
    api_key: SecretStr | None = Field(
        default=None, description="API key that commands send to a server that requires one."
    )
    key_requests_per_minute: int = Field(
        default=6_000,
        ge=1,
        le=10_000_000,
        description="Maximum requests per minute from one API key to one server; further requests get 429.",
    )
    audit_retention: Duration = Field(
        default=timedelta(days=90),
        description="How long audit log entries are kept, unless the retention of their base says otherwise.",
    )
    audit_reads: bool = Field(
        default=False, description="Write requests that only read into the audit log too, searches included."
    )
    access_log: bool = Field(default=False, description="Log every request and its caller.")
    otlp_endpoint: str | None = Field(
        default=None,
        description="OTLP/HTTP endpoint that receives traces, e.g. `http://localhost:4318/v1/traces`; requires `gristmill[otel]`.",
    )
    max_upload_mb: int = Field(
        default=1024,
        ge=1,
        le=1_048_576,
        description="Maximum size of an upload request, in MiB; larger requests get 413.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Minimum log level."
    )
    log_format: Literal["auto", "text", "json"] = Field(
        default="auto", description="Log format; `auto` writes text on a terminal and JSON lines elsewhere."
    )
    max_request_mb: int = Field(
        default=16,
        ge=1,
        le=1024,
        description="Maximum size of a JSON request body, in MiB; larger requests get 413.",
    )
    max_document_mb: int = Field(
        default=2048, ge=1, le=65_536, description="Maximum size of a document, in MiB."
    )
    large_document_mb: int = Field(
        default=100,
        ge=1,
        le=65_536,
        description="Size from which a document gets the warning `large`, in MiB; it is indexed all the same.",
    )
    worker_slots: int = Field(
        default=64,
        ge=1,
        le=256,
        description="Maximum number of jobs that one worker process works on at once. Jobs that wait for the network or for OCR don't count.",
    )
    base_share: float = Field(
        default=0.75,
        ge=0.1,
        le=1.0,
        description="Largest part of a worker's slots, and of each stage, that one base may use of what others leave free. The rest is kept for bases that come later.",
    )
    lane_cap: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Maximum number of jobs of one base that run at once, across all workers; by default only `base_share` limits them.",
    )
    global_cap: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Maximum number of jobs that run at once, across all workers; by default only `worker_slots` limits them.",
    )
    source_slots: int = Field(
        default=64,
        ge=1,
        le=1024,
        description="Maximum number of files and web pages that one worker fetches at once, and of requests to file processors.",
    )
    sync_slots: int = Field(
        default=16, ge=1, le=1024, description="Maximum number of connector runs in one worker at once."
    )
    chunk_threads: int = Field(
        default=3, ge=1, le=256, description="Number of threads in one worker that decode and chunk text."
    )
    reader_processes: int = Field(
        default_factory=lambda: _default_reader_processes(os.cpu_count() or 1),
        ge=1,
        le=256,
        description="Maximum number of processes of one worker that read documents.",
    )
    ocr_processes: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Maximum number of processes of one worker that recognise text in images; each takes up to 1.5 GB.",
    )
    webhook_slots: int = Field(
        default=32,
        ge=1,
        le=256,
        description="Maximum number of webhooks that one worker process delivers to at once; a quarter of them for one organisation.",
    )
    max_webhooks: int = Field(
        default=200,
        ge=1,
        le=10_000,
        description="Maximum number of webhooks of one organisation; creating more is refused with 409.",
    )
    max_queue: int = Field(
        default=1_000_000,
        ge=1,
        description="Maximum number of waiting jobs in total; further requests get 429.",
    )
    max_queue_per_base: int = Field(
        default=100_000,
        ge=1,
        description="Maximum number of waiting jobs of one base; further requests get 429.",
    )
    lease: Lease = Field(
        default=timedelta(seconds=15),
        description="How long a worker keeps its jobs without a heartbeat; at least a second.",
    )
    stop_grace: Duration = Field(
        default=timedelta(seconds=10), description="How long a stopping worker waits for its running jobs."
    )
    job_retention: Duration = Field(default=timedelta(days=7), description="How long finished jobs are kept.")
    event_retention: Duration = Field(default=timedelta(days=30), description="How long events are kept.")
    swap_retention: Duration = Field(
        default=timedelta(days=7),
        description="How long the vectors of an earlier embedder are kept, to go back to.",
    )
    question_retention: Duration = Field(
        default=timedelta(days=30),
        description="How long bases keep what people search for, if their setting `questions` is `keep`.",
    )
    reconcile_cron: str = Field(
        default="*/5 * * * *",
        description="When the reconciler checks for inconsistencies and repairs them: a cron expression in UTC.",
    )
    embedder: str = Field(default="granite-30m-en", description="Default embedder of new bases.")
    embedders: dict[str, EmbedderSettings] = Field(
        default_factory=dict,
        description="Embedders behind HTTP endpoints, keyed by the name that bases refer to.",
    )
    embed_threads: int = Field(
        default_factory=lambda: max(1, os.cpu_count() or 1),
        ge=1,
        le=256,
        description="Number of threads of the local embedder.",
    )
    embed_device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto",
        description="Where the local embedders compute the vectors of documents: on a GPU if PyTorch finds one, on the CPU, or on a GPU always.",
    )
    reranker_url: str | None = Field(
        default=None,
        description="Cohere-compatible endpoint that reranks the best hits: `https://…/rerank`.",
    )
    reranker_model: str | None = Field(default=None, description="Model name sent to the reranker.")
    reranker_api_key: SecretStr | None = Field(default=None, description="API key of the reranker.")
    chat_url: str | None = Field(
        default=None,
        description="OpenAI-compatible API of a chat model that answers questions, e.g. `http://localhost:11434/v1`.",
    )
    chat_model: str | None = Field(default=None, description="Model name sent to the chat API.")
    chat_api_key: SecretStr | None = Field(default=None, description="API key of the chat API.")
    chat_input_price: float | None = Field(
        default=None, ge=0, description="Price of a million tokens that the chat model reads; for usage."
    )
    chat_output_price: float | None = Field(
        default=None, ge=0, description="Price of a million tokens that the chat model writes; for usage."
    )
    chat_timeout: Duration = Field(
        default=timedelta(minutes=2),
        description="How long the chat model may take for the next part of an answer.",
    )
    vision_url: str | None = Field(
        default=None,
        description="OpenAI-compatible API of a vision model that describes images instead of OCR, e.g. `http://localhost:11434/v1`.",
    )
    vision_model: str | None = Field(default=None, description="Model name sent to the vision API.")
    vision_api_key: SecretStr | None = Field(default=None, description="API key of the vision API.")
    vision_price: float | None = Field(
        default=None, ge=0, description="Price of a described image, in any currency; for usage and budgets."
    )
    transcription_url: str | None = Field(
        default=None,
        description="OpenAI-compatible API that transcribes sound and video, e.g. `http://localhost:8000/v1`.",
    )
    transcription_model: str | None = Field(
        default=None, description="Model name sent to the transcription API."
    )
    transcription_api_key: SecretStr | None = Field(
        default=None, description="API key of the transcription API."
    )
    transcription_timeout: Duration = Field(
        default=timedelta(minutes=10), description="How long the transcription of a file may take."
    )
    transcription_max_mb: int = Field(
        default=25,
        ge=1,
        le=102_400,
        description="Size of the largest file that is sent to be transcribed, in MiB.",
    )
    transcription_price: float | None = Field(
        default=None,
        ge=0,
        description="Price of a transcribed minute, in any currency; the log says what each transcript cost.",
    )
    processors: dict[str, ProcessorSettings] = Field(
        default_factory=dict,
        description="File processors, keyed by the name that bases refer to; `local` is the built-in one.",
    )
    search_cache_mb: int = Field(
        default=256,
        ge=1,
        le=1_048_576,
        description="Memory for cached search index data, in MiB; a million chunks of 384 dimensions take about 150.",
    )
    index_url: SecretStr | None = Field(
        default=None,
        description="Addresses of an OpenSearch cluster with the k-NN plugin, separated by commas; new bases are indexed there.",
    )
    index_prefix: str = Field(
        default="gristmill",
        pattern="^[a-z][a-z0-9-]{0,40}$",
        description="Prefix of the names of indexes in the cluster of `index_url`.",
    )
    index_shards: int = Field(
        default=3,
        ge=1,
        le=1024,
        description="Number of shards of an index that is created in the cluster of `index_url`; a base is in one of them.",
    )
    index_replicas: int = Field(
        default=1,
        ge=0,
        le=10,
        description="Number of further copies of each shard, on other nodes.",
    )
    sync_budget: Duration = Field(
        default=timedelta(minutes=15),
        description="How long a connector run works before it yields to other jobs; it then continues from its checkpoint.",
    )
    refresh: str = Field(
        default="1d",
        pattern="^(never|[1-9][0-9]{0,6}[mhdw])$",
        description="How often new bases check their folders, pages and sitemaps for changes, e.g. `12h`, `1d` or `1w`; `never` for only on request.",
    )
    watch_folders: bool = Field(
        default=True,
        description="Let workers watch added folders, so that changed files are indexed within seconds.",
    )
    max_attachment_mb: int = Field(
        default=64,
        ge=1,
        le=65_536,
        description="Maximum size of an attachment that a connector fetches, in MiB.",
    )
    faults: str = Field(
        default="", description="For tests: fault points to arm, e.g. `publish.before_commit=kill@3`."
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
        return init_settings, env_settings, InitSettingsSource(settings_cls, read_config_file())
