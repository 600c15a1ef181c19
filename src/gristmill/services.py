"""Builds the services that settings describe: what the disk and connectors may do, models, processors, the search engine."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gristmill.answers import ChatModelConfig, HttpChatModel, TokenUsage
from gristmill.catalog import Base
from gristmill.connectors.registry import ConnectorLimits
from gristmill.db import Database
from gristmill.embedding import Embedder, Embedders
from gristmill.errors import SetupError
from gristmill.identity.open_id import OpenIdClient, OpenIdProvider
from gristmill.ingest import ReaderPool
from gristmill.ingest.estimate_images import ImageCosts
from gristmill.ingest.image_describers import (
    ImageDescriber,
    OcrDescriber,
    VisionConfig,
    VisionDescriber,
    ocr_identity,
)
from gristmill.ingest.processors import DoclingServe, MinerU, Processor, ProcessorConfig
from gristmill.ingest.stages import Stages
from gristmill.ingest.transcriber import HttpTranscriber, TranscriptionConfig
from gristmill.readers import ReadLimits
from gristmill.search import HttpReranker, Searcher
from gristmill.search.index.engine_indexes import EngineIndexes
from gristmill.search.index.opensearch import OpenSearch
from gristmill.settings import ProcessorSettings, Settings
from gristmill.sources.disk import SYSTEM_FOLDERS, DiskAccess
from gristmill.sources.rendering import BrowserLimits, RenderSettings
from gristmill.usage import (
    QueryUsage,
    Spending,
    caller_name,
    price_of_tokens,
    require_chat_budget,
    settle_base,
)


def disk_access(settings: Settings) -> DiskAccess:
    """What requests with a key may read of the disk. Our own folders are protected from everyone: they hold the secrets and
    documents of all organisations."""
    own_folders = [settings.data_dir, settings.cache_dir]
    if settings.secret_key_file is not None:
        own_folders.append(settings.secret_key_file.parent)
    if settings.blob_url is not None and settings.blob_url.startswith("file://"):
        own_folders.append(Path(unquote(urlsplit(settings.blob_url).path)))
    return DiskAccess(tuple(settings.allowed_paths), (*SYSTEM_FOLDERS, *own_folders))


def render_settings(settings: Settings) -> RenderSettings:
    """Which browser renders pages, and what one page may cost."""
    limits = BrowserLimits(settings.render_memory_mb << 20, settings.render_timeout.total_seconds())
    return RenderSettings(settings.chromium_path, limits)


def create_stages(settings: Settings) -> Stages:
    """The stages of a worker."""
    return Stages.create(
        sources=settings.source_slots,
        threads=settings.chunk_threads,
        renders=settings.render_slots,
        share=settings.base_share,
    )


def connector_limits(settings: Settings) -> ConnectorLimits:
    """What connectors may do."""
    return ConnectorLimits(
        allow_private=settings.allow_private_addresses, attachment_limit=settings.max_attachment_mb * 2**20
    )


def create_analyst(settings: Settings, readers: ReaderPool) -> ImageDescriber:
    """Images are described by a vision model if one is configured, else read by OCR."""
    if settings.vision_url is None:
        return OcrDescriber(readers, ReadLimits())
    key = settings.vision_api_key
    secret = key.get_secret_value() if key is not None else None
    return VisionDescriber(VisionConfig(settings.vision_url, settings.vision_model or "", secret))


def image_costs(settings: Settings) -> ImageCosts:
    """Who describes images, and what that takes."""
    if settings.vision_url is None:
        return ImageCosts(ocr_identity(ReadLimits()))
    config = VisionConfig(settings.vision_url, settings.vision_model or "")
    return ImageCosts(config.identity, settings.vision_price or 0.0, usual_tokens=150)


def price_of_image(settings: Settings) -> Spending:
    """What the vision model of the settings takes for an image."""
    return Spending(settings.vision_model or "vision", 1, 0, Decimal(str(settings.vision_price or 0)))


def create_transcriber(settings: Settings) -> HttpTranscriber | None:
    """The endpoint of the settings that transcribes sound and video, if there is one."""
    if settings.transcription_url is None:
        return None
    key = settings.transcription_api_key
    return HttpTranscriber(
        TranscriptionConfig(
            settings.transcription_url,
            settings.transcription_model or "",
            key.get_secret_value() if key is not None else None,
            settings.transcription_timeout,
            settings.transcription_max_mb << 20,
            settings.transcription_price,
        )
    )


def create_processor(processor_settings: ProcessorSettings) -> Processor:
    """A file processor."""
    key = processor_settings.api_key.get_secret_value() if processor_settings.api_key is not None else None
    config = ProcessorConfig(processor_settings.url, key, processor_settings.timeout)
    return DoclingServe(config) if processor_settings.kind == "docling" else MinerU(config)


def create_chat_model(settings: Settings) -> HttpChatModel | None:
    """The chat model of the settings, if there is one."""
    if settings.chat_url is None:
        return None
    key = settings.chat_api_key
    return HttpChatModel(
        ChatModelConfig(
            settings.chat_url,
            settings.chat_model or "",
            key.get_secret_value() if key is not None else None,
            settings.chat_timeout,
        )
    )


def record_chat_usage(settings: Settings, db: Database) -> Callable[[Base, TokenUsage], Awaitable[None]]:
    """Counts the tokens of answers in the ledger, by the prices of the settings."""

    async def record(base: Base, tokens: TokenUsage) -> None:
        cost = price_of_tokens(tokens.prompt, settings.chat_input_price)
        cost += price_of_tokens(tokens.completion, settings.chat_output_price)
        spending = Spending(settings.chat_model or "chat", 1, tokens.prompt + tokens.completion, cost)
        async with db.transaction() as tx:
            await settle_base(tx, base.org_id, base.id, "chat", spending, caller=caller_name.get())

    return record


def check_chat_budget(db: Database) -> Callable[[Base], Awaitable[None]]:
    """Refuses to answer a question while a budget of money is used up."""

    async def check(base: Base) -> None:
        async with db.connection() as tx:
            await require_chat_budget(tx, base.org_id, base.id)

    return check


async def create_searcher(
    settings: Settings, db: Database, embedders: Embedders, indexes: EngineIndexes, stack: AsyncExitStack
) -> Searcher:
    """The searcher, with the reranker of the settings. What queries cost is counted."""
    reranker = create_reranker(settings)
    if reranker is not None:
        stack.push_async_callback(reranker.close)
    usage = QueryUsage(db)
    await stack.enter_async_context(usage.running())

    def record_query(base: Base, embedder: Embedder, query: str) -> None:
        price = embedders.price_of(embedder)
        usage.record(base.org_id, base.id, embedder.name, embedder.count_tokens(query), price)

    return Searcher(
        db,
        cache_bytes=settings.search_cache_mb * 2**20,
        reranker=reranker,
        indexes=indexes,
        record_query=record_query,
    )


def create_reranker(settings: Settings) -> HttpReranker | None:
    """The reranker of the settings, if there is one."""
    if settings.reranker_url is None:
        return None
    key = settings.reranker_api_key
    return HttpReranker(
        settings.reranker_url, settings.reranker_model, key.get_secret_value() if key is not None else None
    )


def create_open_id(settings: Settings) -> OpenIdProvider | None:
    """The OpenID provider at which people sign in, if there is one. Raises `SetupError` if its client id is missing."""
    if settings.oidc_issuer is None:
        return None
    if settings.oidc_client_id is None:
        raise SetupError(
            "oidc_issuer is set without oidc_client_id. Set both, or neither.", code="open_id_incomplete"
        )
    return OpenIdProvider(
        OpenIdClient(
            settings.oidc_issuer,
            settings.oidc_client_id,
            settings.oidc_client_secret,
            settings.oidc_scopes,
            settings.oidc_groups_claim,
        )
    )


def create_indexes(settings: Settings) -> EngineIndexes:
    """The search engine of the settings, if there is one."""
    if settings.index_url is None:
        return EngineIndexes()
    urls = settings.index_url.get_secret_value().split(",")
    return EngineIndexes(
        OpenSearch(
            urls,
            prefix=settings.index_prefix,
            shards=settings.index_shards,
            replicas=settings.index_replicas,
        )
    )


def blob_folder(settings: Settings) -> Path | None:
    """The folder below which uploads are stored; None if they are in an object store."""
    return None if settings.blob_url else settings.data_dir
