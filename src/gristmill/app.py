"""The composition root: settings in, a running Gristmill out. The only module that imports every package.

    running(settings)      database → schema → pool → embedders → listener → worker, and back in reverse

If one part fails to start, the parts started before it are stopped again. Leaving the block stops the worker (its
running jobs return to the queue), closes every connection, and stops PostgreSQL unless another process uses it.
"""

import asyncio
import functools
import logging
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from fastapi import FastAPI

from gristmill import __version__, clock, faults, jobs, secret_references, services
from gristmill.answers import Asker
from gristmill.connectors.permissions import PermissionSync
from gristmill.connectors.registry import ConnectorRegistry
from gristmill.connectors.sync import Synchroniser
from gristmill.db import Database, local_server, schema_watch
from gristmill.db.listen import Listener
from gristmill.db.migrate import migrate
from gristmill.db.outage import Outage
from gristmill.embedding import Embedder, Embedders
from gristmill.errors import GristmillError, SetupError
from gristmill.events import Broadcaster
from gristmill.events.webhook_delivery import WebhookDeliverer, WebhookSender, share_of_organisation
from gristmill.events.webhook_pump import WebhookPump
from gristmill.ingest import (
    Converter,
    Expander,
    ImageAnalyser,
    Pipeline,
    ReaderPool,
    Reindexer,
    Remover,
    move_index,
    update_index,
)
from gristmill.ingest.crawl.crawler import SiteCrawler
from gristmill.ingest.crawl.host_turns import HostTurns
from gristmill.ingest.estimate import Estimator
from gristmill.ingest.image_describers import ImageDescriber, VisionDescriber
from gristmill.ingest.move_items import tending_handlers
from gristmill.ingest.portable_handlers import portable_handlers
from gristmill.ingest.processors import Processor
from gristmill.ingest.refresh.due import due_schedule
from gristmill.ingest.refresh.handlers import refresh_handlers
from gristmill.ingest.refresh.watch import FolderWatcher
from gristmill.ingest.stages import Stages
from gristmill.ingest.swap import EmbedderSwapper
from gristmill.ingest.transcribe import NO_TRANSCRIPTION
from gristmill.ingest.transcriber import HttpTranscriber
from gristmill.integrity import reconcile
from gristmill.integrity.readiness import Readiness
from gristmill.integrity.reconcile import Reconciler, recover_deletions
from gristmill.jobs import Handler, PoolLimits, QueueLimits, Worker, WorkerLimits
from gristmill.operations import uploads
from gristmill.operations.recover import recover_bases, retry_by_cause
from gristmill.operations.source_factory import SourceFactory
from gristmill.search import Searcher, compaction
from gristmill.search.index.engine import Engine
from gristmill.search.index.engine_indexes import EngineIndexes
from gristmill.server import api, compat, ui
from gristmill.settings import Settings
from gristmill.sources.blobs import BlobStore
from gristmill.telemetry import memory, traces
from gristmill.vault import Vault
from gristmill.work import (
    AnalyseAssets,
    CancelConversion,
    CheckFileProcessing,
    CompactBase,
    DeleteBase,
    DeleteSubtree,
    DeliverEvents,
    IndexDocument,
    MoveIndex,
    PrepareRoot,
    Reconcile,
    ReindexSubtree,
    RemoveChunkSet,
    SwapEmbedder,
    SweepIndex,
    SyncAccess,
    SyncConnector,
    UpdateIndex,
)

log = logging.getLogger(__name__)

_SERVER_CONNECTIONS = 10
_SPARE_THREADS = 16  # for everything else that blocks

_WATCH_INTERVAL = timedelta(seconds=1)  # a local PostgreSQL that died is restarted within this time


@dataclass(frozen=True)
class Gristmill:
    """A running Gristmill."""

    settings: Settings
    db: Database
    embedders: Embedders
    sources: SourceFactory
    searcher: Searcher
    context: api.ApiContext
    broadcaster: Broadcaster
    connectors: ConnectorRegistry
    indexes: EngineIndexes
    worker: asyncio.Task[None] | None

    @functools.cached_property
    def api(self) -> FastAPI:
        """The REST API, the compatible ones and the UI, created when first used: a worker needs neither."""
        return compat.create(self.context, ui.UiMiddleware)


@dataclass(frozen=True)
class _WorkerParts:
    """The parts that job handlers are built from."""

    settings: Settings
    db: Database
    listener: Listener
    embedders: Embedders
    sources: SourceFactory
    sender: WebhookSender
    readers: ReaderPool
    connectors: ConnectorRegistry
    analyst: ImageDescriber
    processors: Mapping[str, Processor]
    indexes: EngineIndexes
    transcriber: HttpTranscriber | None


@asynccontextmanager
async def gristmill(
    settings: Settings,
    *,
    work: bool,
    extra_embedders: Mapping[str, Embedder] | None = None,
    engine: Engine | None = None,
) -> AsyncGenerator[Gristmill]:
    """Start a Gristmill, and stop it at the end of the block; with `work`, it also runs jobs. `engine` takes the place of the
    search engine of `index_url`."""
    faults.arm(settings.faults)
    secret_references.use_settings(settings)
    memory.return_freed_memory()
    async with AsyncExitStack() as stack:
        if settings.otlp_endpoint is not None:
            stack.push_async_callback(
                asyncio.to_thread, traces.start(settings.otlp_endpoint, version=__version__)
            )
        url = await _start_database(settings, stack)
        await migrate(url)
        db = Database(url, size=_SERVER_CONNECTIONS + (min(settings.worker_slots, 16) if work else 0))
        await db.open()
        stack.push_async_callback(db.close)
        vault = Vault(settings.secret_key, settings.data_dir, settings.secret_key_file)
        embedders = Embedders(settings, settings.cache_dir / "embedders", extra_embedders, db, vault)
        stack.push_async_callback(embedders.close)
        async with db.connection() as tx:
            await embedders.report_hidden(tx)
        sources = SourceFactory(
            BlobStore.open(settings.blob_url, settings.data_dir),
            limit=settings.max_document_mb * 2**20,
            allow_private=settings.allow_private_addresses,
            disk=services.disk_access(settings),
            wait_turn=HostTurns(db).wait,
            rendering=services.render_settings(settings),
        )
        broadcaster = Broadcaster(db)
        stack.push_async_callback(broadcaster.stop)
        listener = Listener(url)
        broadcaster.listen(listener)
        sender = WebhookSender(vault, private=settings.allow_private_addresses)
        stack.push_async_callback(sender.close)
        # Starts child processes when the first document needs one.
        readers = ReaderPool(
            settings.reader_processes, ocr_size=settings.ocr_processes, share=settings.base_share
        )
        stack.push_async_callback(readers.close)
        connectors = ConnectorRegistry(vault, services.connector_limits(settings), db)
        analyst = services.create_analyst(settings, readers)
        if isinstance(analyst, VisionDescriber):
            stack.push_async_callback(analyst.close)
        processors = {
            name: services.create_processor(processor_settings)
            for name, processor_settings in settings.processors.items()
        }
        for processor in processors.values():
            stack.push_async_callback(processor.close)
        transcriber = services.create_transcriber(settings)
        if transcriber is not None:
            stack.push_async_callback(transcriber.close)
        indexes = EngineIndexes(engine) if engine is not None else services.create_indexes(settings)
        stack.push_async_callback(indexes.close)
        outside = (settings, db, listener, embedders, sources, sender)
        parts = _WorkerParts(*outside, readers, connectors, analyst, processors, indexes, transcriber)
        worker = await _start_worker(parts, stack) if work else None
        listener.start()
        stack.push_async_callback(listener.stop)
        searcher = await services.create_searcher(settings, db, embedders, indexes, stack)
        chat_model = services.create_chat_model(settings)
        if chat_model is not None:
            stack.push_async_callback(chat_model.close)
        asker = Asker(
            searcher, chat_model, services.record_chat_usage(settings, db), services.check_chat_budget(db)
        )
        estimator = Estimator(db, embedders, sources, readers, services.image_costs(settings))
        stack.callback(estimator.close)
        readiness = Readiness(db, embedders.default, services.blob_folder(settings), indexes)
        context = api.ApiContext(
            db,
            embedders,
            sources,
            searcher,
            settings,
            broadcaster,
            vault,
            sender,
            connectors,
            readiness,
            asker,
            api.ActivityRecorder(db),
            estimator,
            open_id=services.create_open_id(settings),
        )
        stack.push_async_callback(context.close)
        context.metrics.streams.set_function(lambda: broadcaster.subscriber_count)
        yield Gristmill(
            settings, db, embedders, sources, searcher, context, broadcaster, connectors, indexes, worker
        )


async def _start_database(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    server = await asyncio.to_thread(local_server.start, settings.data_dir)
    stack.push_async_callback(asyncio.to_thread, server.close)
    watch = asyncio.create_task(_keep_alive(server), name="postgres watch")
    stack.push_async_callback(_stop_task, watch)
    return server.url


async def _keep_alive(server: local_server.LocalServer) -> None:
    outage = Outage(log, "the local PostgreSQL")
    failures = Outage(log, "the watch of the local PostgreSQL")
    while True:
        await clock.pause(_WATCH_INTERVAL)
        try:
            if await asyncio.to_thread(server.restart_if_dead):
                log.warning("PostgreSQL had died and was restarted")
            outage.clear()
            failures.clear()
        except SetupError as error:
            await outage.wait(error.message)
        except Exception as error:  # a bug must not end the watch: the database would stay down
            await failures.wait_unexpected(error)


async def _start_worker(parts: _WorkerParts, stack: AsyncExitStack) -> asyncio.Task[None]:
    settings, db, listener = parts.settings, parts.db, parts.listener
    await uploads.collect_garbage(db, parts.sources.blobs)
    if recovered := await recover_deletions(db):
        log.warning("queued deletions that had no job", extra={"roots": recovered})
    await recover_bases(db, parts.embedders)
    if parts.transcriber is not None:
        await retry_by_cause(db, NO_TRANSCRIPTION)
    async with db.transaction() as tx:
        await jobs.put_schedules(tx, reconcile.reconcile_schedule(settings.reconcile_cron), due_schedule())
    limits = WorkerLimits(
        slots=settings.worker_slots,
        share=settings.base_share,
        away=settings.source_slots,
        lane_cap=settings.lane_cap,
        pools={
            DeliverEvents.pool: PoolLimits(
                settings.webhook_slots, share_of_organisation(settings.webhook_slots)
            )
        },
        global_cap=settings.global_cap,
        lease=settings.lease,
        stop_grace=settings.stop_grace,
        retention=settings.job_retention,
    )
    # A thread for every source that is read at once: one that hangs on a file system must not delay the others.
    executor = ThreadPoolExecutor(settings.source_slots + _SPARE_THREADS, thread_name_prefix="blocking")
    asyncio.get_running_loop().set_default_executor(executor)
    stages = services.create_stages(settings)
    pipeline = Pipeline(
        db,
        parts.embedders,
        parts.sources,
        parts.readers,
        _queue_limits(settings),
        parts.analyst,
        parts.processors,
        stages,
        settings.large_document_mb << 20,
        parts.indexes,
        parts.transcriber,
    )
    stack.callback(pipeline.close)
    worker = Worker(db, listener, _job_handlers(parts, pipeline, stages), limits)
    webhook_pump, schema_changes = WebhookPump(db, listener), schema_watch.watch_changes(listener)
    task = asyncio.create_task(worker.run(), name="worker")

    async def stop() -> None:
        worker.stop()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(stop)
    if settings.watch_folders:
        watcher = FolderWatcher(db, parts.sources.disk, settings.lease)
        stack.push_async_callback(_stop_task, asyncio.create_task(watcher.run(), name="folder watch"))
    for name, background_work in (
        ("webhook pump", webhook_pump.run()),
        ("schema watch", schema_watch.stop_when_outdated(db, schema_changes, worker.stop)),
        ("compaction", compaction.keep_compacting(db)),
        ("index updates", update_index.keep_queueing(db)),
        ("embedder warm-up", load_embedder(parts.embedders)),
    ):
        stack.push_async_callback(_stop_task, asyncio.create_task(background_work, name=name))
    return task


def _queue_limits(settings: Settings) -> QueueLimits:
    return QueueLimits(lane=settings.max_queue_per_base, total=settings.max_queue)


def _job_handlers(parts: _WorkerParts, pipeline: Pipeline, stages: Stages) -> dict[str, Handler]:
    db, sources = parts.db, parts.sources
    private, queue_limits = parts.settings.allow_private_addresses, _queue_limits(parts.settings)
    converter = Converter(db, sources, parts.processors, stages)
    analyser = ImageAnalyser(
        db, parts.embedders, sources, parts.analyst, stages, services.price_of_image(parts.settings)
    )
    remover = Remover(db, sources.blobs, parts.indexes)
    crawler = SiteCrawler(db, sources, stages, queue_limits, parts.settings.crawl_delay)
    expander = Expander(db, crawler, private=private, limits=queue_limits, disk=sources.disk, stages=stages)
    rebuilder = Reindexer(db, limits=queue_limits)
    synchroniser = Synchroniser(
        db,
        sources.blobs,
        parts.connectors,
        parts.settings.sync_budget,
        queue_limits,
        parts.settings.sync_slots,
    )
    updater = update_index.IndexUpdater(db, parts.indexes)
    swapper = EmbedderSwapper(db, parts.embedders, pipeline.offload)
    reconciler = Reconciler.from_settings(db, sources.blobs, parts.settings, parts.embedders)
    return {
        IndexDocument.kind: Handler(pipeline.index, pipeline.record_failure),
        PrepareRoot.kind: Handler(expander.prepare, expander.record_failure),
        DeleteSubtree.kind: Handler(remover.remove_subtree),
        DeleteBase.kind: Handler(remover.remove_base),
        ReindexSubtree.kind: Handler(rebuilder.reindex),
        DeliverEvents.kind: Handler(WebhookDeliverer(db, parts.sender).deliver),
        Reconcile.kind: Handler(reconciler.reconcile),
        **refresh_handlers(db, sources, stages, queue_limits, crawler),
        SyncConnector.kind: Handler(synchroniser.sync, synchroniser.record_failure),
        SyncAccess.kind: Handler(PermissionSync(db, parts.connectors).sync),
        CheckFileProcessing.kind: Handler(converter.check, converter.record_failure),
        CancelConversion.kind: Handler(converter.cancel),
        AnalyseAssets.kind: Handler(analyser.analyse, analyser.record_failure),
        CompactBase.kind: Handler(compaction.Compactor(db).compact),
        UpdateIndex.kind: Handler(updater.update),
        SweepIndex.kind: Handler(updater.sweep),
        MoveIndex.kind: Handler(move_index.IndexMover(db, parts.indexes).move),
        SwapEmbedder.kind: Handler(swapper.run, swapper.record_failure),
        **tending_handlers(db, parts.embedders, pipeline.offload),
        **portable_handlers(db, parts.embedders, sources, pipeline.offload),
        RemoveChunkSet.kind: Handler(remover.remove_chunk_set),
    }


async def load_embedder(embedders: Embedders) -> None:
    """Load the default embedder before the first document or query needs it. A failure is only logged: whoever needs the
    embedder gets the same error."""
    try:
        await embedders.default.load()
        log.info("embedder ready", extra={"embedder": embedders.default.name})
    except GristmillError as error:
        log.error("embedder can't be loaded", extra={"code": error.code, "reason": error.message})
    except Exception:
        log.exception("loading the embedder failed")


async def _stop_task(task: asyncio.Task[None]) -> None:
    await clock.cancel_tasks([task])
