"""The composition root: settings in, a running Gristmill out. The only module that sees all.

    running(settings)      database → schema → pool → embedders → listener → worker, and back in reverse

What was started before something fails to start is stopped again. Leaving the block stops the worker (what
it still runs returns to the queue), closes every connection, and stops PostgreSQL if nobody else uses it.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from fastapi import FastAPI

from gristmill import __version__, clock, faults, jobs, memory, traces
from gristmill.connectors.kind import Surroundings
from gristmill.connectors.kinds import Tools
from gristmill.connectors.permissions import Permissions
from gristmill.connectors.sync import Synchroniser
from gristmill.db import Database, embedded
from gristmill.db.listen import Listener
from gristmill.db.migrate import migrate
from gristmill.doors import api, ui
from gristmill.embedding import Embedder, Embedders
from gristmill.errors import GristmillError, SetupError
from gristmill.events import Broadcaster
from gristmill.events.courier import Courier
from gristmill.events.webhooks import Deliverer, Sender
from gristmill.ingest import Analyser, Converter, Expander, Pipeline, ReaderPool, Rebuilder, Remover
from gristmill.ingest.assets import Analyst, LocalAnalyst, VisionAnalyst, VisionConfig
from gristmill.ingest.processors import DoclingServe, MinerU, Processor, ProcessorConfig
from gristmill.ingest.readers import ReadLimits
from gristmill.jobs import Handler, Limits, QueueLimits, Worker
from gristmill.operations import reconcile, uploads
from gristmill.operations.health import recover_deletions
from gristmill.operations.originals import Originals
from gristmill.operations.ready import Readiness
from gristmill.operations.reconcile import Reconciler
from gristmill.search import HttpReranker, Searcher, tidy
from gristmill.settings import ProcessorSettings, Settings
from gristmill.sources.blobs import Blobs
from gristmill.vault import Vault
from gristmill.work import (
    AnalyseAssets,
    CancelConversion,
    CheckFileProcessing,
    DeleteBase,
    DeleteSubtree,
    DeliverEvents,
    IndexDocument,
    PrepareRoot,
    Reconcile,
    ReindexSubtree,
    SyncAccess,
    SyncConnector,
    TidyBase,
)

log = logging.getLogger(__name__)

# How often the embedded server is looked at: one that died is started again within this.
_LOOK = timedelta(seconds=1)
# How often it is looked whether segments are to be merged: searches slow down with their number, a little.
_TIDY = timedelta(seconds=3)


@dataclass(frozen=True)
class Gristmill:
    """What runs."""

    settings: Settings
    db: Database
    embedders: Embedders
    originals: Originals
    searcher: Searcher
    context: api.Context
    api: FastAPI
    broadcaster: Broadcaster
    tools: Tools
    worker: asyncio.Task[None] | None


@dataclass(frozen=True)
class _Parts:
    """What a worker is made of."""

    settings: Settings
    db: Database
    listener: Listener
    embedders: Embedders
    originals: Originals
    sender: Sender
    readers: ReaderPool
    tools: Tools
    analyst: Analyst
    processors: Mapping[str, Processor]


@asynccontextmanager
async def running(
    settings: Settings, *, work: bool, extra_embedders: Mapping[str, Embedder] | None = None
) -> AsyncGenerator[Gristmill]:
    """A running Gristmill; with `work`, it runs jobs too."""
    faults.arm(settings.faults)
    if work:
        memory.stay_small()
    async with AsyncExitStack() as stack:
        if settings.otlp_endpoint is not None:
            stack.push_async_callback(
                asyncio.to_thread, traces.begin(settings.otlp_endpoint, version=__version__)
            )
        url = await _database_url(settings, stack)
        await migrate(url)
        db = Database(url, size=min(settings.worker_slots, 16) + 10)
        await db.open()
        stack.push_async_callback(db.close)
        embedders = Embedders(settings, settings.cache_dir / "embedders", extra_embedders, db)
        stack.push_async_callback(embedders.close)
        originals = Originals(
            Blobs.open(settings.blob_url, settings.data_dir),
            limit=settings.max_document_mb * 2**20,
            private=settings.allow_private_addresses,
        )
        broadcaster = Broadcaster(db)
        stack.push_async_callback(broadcaster.stop)
        listener = Listener(url)
        broadcaster.listen(listener)
        vault = Vault(settings.secret_key, settings.data_dir)
        sender = Sender(vault, private=settings.allow_private_addresses)
        stack.push_async_callback(sender.close)
        readers = ReaderPool()  # its children are started by the first document that needs one
        stack.push_async_callback(readers.close)
        tools = Tools(vault, _surroundings(settings))
        analyst = _analyst(settings, readers)
        if isinstance(analyst, VisionAnalyst):
            stack.push_async_callback(analyst.close)
        processors = {name: _processor(one) for name, one in settings.processors.items()}
        for processor in processors.values():
            stack.push_async_callback(processor.close)
        parts = _Parts(
            settings, db, listener, embedders, originals, sender, readers, tools, analyst, processors
        )
        worker = await _start_worker(parts, stack) if work else None
        reranker = _reranker(settings)
        if reranker is not None:
            stack.push_async_callback(reranker.close)
        searcher = Searcher(db, cache_bytes=settings.search_cache_mb * 2**20, reranker=reranker)
        folder = settings.data_dir if settings.blob_url is None else None
        readiness = Readiness(db, embedders.default, folder)
        stack.push_async_callback(readiness.close)
        context = api.Context(
            db, embedders, originals, searcher, settings, broadcaster, vault, sender, tools, readiness
        )
        yield Gristmill(
            settings,
            db,
            embedders,
            originals,
            searcher,
            context,
            api.create(context, ui.Pages),
            broadcaster,
            tools,
            worker,
        )


def _surroundings(settings: Settings) -> Surroundings:
    return Surroundings(
        private=settings.allow_private_addresses, attachment_limit=settings.max_attachment_mb * 2**20
    )


def _analyst(settings: Settings, readers: ReaderPool) -> Analyst:
    """Who says what is on images: a model that sees, where one is set up, else OCR."""
    if settings.vision_url is None:
        return LocalAnalyst(readers, ReadLimits())
    key = settings.vision_api_key
    return VisionAnalyst(
        VisionConfig(
            settings.vision_url,
            settings.vision_model or "",
            key.get_secret_value() if key is not None else None,
        )
    )


def _processor(given: ProcessorSettings) -> Processor:
    key = given.api_key.get_secret_value() if given.api_key is not None else None
    config = ProcessorConfig(given.url, key, given.timeout)
    return DoclingServe(config) if given.kind == "docling" else MinerU(config)


def _reranker(settings: Settings) -> HttpReranker | None:
    if settings.reranker_url is None:
        return None
    key = settings.reranker_api_key
    return HttpReranker(
        settings.reranker_url, settings.reranker_model, key.get_secret_value() if key is not None else None
    )


async def _database_url(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    server = await asyncio.to_thread(embedded.start, settings.data_dir)
    stack.push_async_callback(asyncio.to_thread, server.close)
    watch = asyncio.create_task(_keep_alive(server), name="postgres watch")
    stack.push_async_callback(_end, watch)
    return server.url


async def _keep_alive(server: embedded.EmbeddedServer) -> None:
    while True:
        await clock.pause(_LOOK)
        try:
            if await asyncio.to_thread(server.revive):
                log.warning("PostgreSQL had died and was started again")
        except SetupError as error:
            log.error(
                "PostgreSQL died and can't be started", extra={"code": error.code, "reason": error.message}
            )


async def _start_worker(parts: _Parts, stack: AsyncExitStack) -> asyncio.Task[None]:
    settings, db, listener = parts.settings, parts.db, parts.listener
    await uploads.collect(db, parts.originals.blobs)
    if recovered := await recover_deletions(db):
        log.warning("deletions without a job were taken up again", extra={"roots": recovered})
    async with db.transaction() as tx:
        await jobs.put_schedules(tx, reconcile.timetable(settings.reconcile_cron))
    limits = Limits(
        slots=settings.worker_slots,
        lane_cap=settings.lane_cap,
        lease=settings.lease,
        stop_grace=settings.stop_grace,
        retention=settings.job_retention,
    )
    pipeline = Pipeline(
        db,
        parts.embedders,
        parts.originals,
        parts.readers,
        _room(settings),
        parts.analyst,
        parts.processors,
    )
    stack.callback(pipeline.close)
    worker = Worker(db, listener, _handlers(parts, pipeline), limits)
    courier = Courier(db, listener)
    listener.start()
    stack.push_async_callback(listener.stop)
    task = asyncio.create_task(worker.run(), name="worker")

    async def stop() -> None:
        worker.stop()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(stop)
    carrying = asyncio.create_task(courier.run(), name="courier")
    stack.push_async_callback(_end, carrying)
    tidying = asyncio.create_task(_keep_tidy(db), name="tidying")
    stack.push_async_callback(_end, tidying)
    warm = asyncio.create_task(_warm(parts.embedders), name="embedder warm-up")
    stack.push_async_callback(_end, warm)
    return task


def _room(settings: Settings) -> QueueLimits:
    return QueueLimits(lane=settings.max_queue_per_base, total=settings.max_queue)


def _handlers(parts: _Parts, pipeline: Pipeline) -> dict[str, Handler]:
    db, originals = parts.db, parts.originals
    private = parts.settings.allow_private_addresses
    room = _room(parts.settings)
    converter = Converter(db, originals, parts.processors)
    analyser = Analyser(db, parts.embedders, originals, parts.analyst)
    remover = Remover(db, originals.blobs)
    expander, rebuilder = Expander(db, private=private, limits=room), Rebuilder(db, limits=room)
    synchroniser = Synchroniser(db, originals.blobs, parts.tools, parts.settings.sync_budget, room)
    reconciler = Reconciler(db, originals.blobs, parts.settings.event_retention)
    return {
        IndexDocument.kind: Handler(pipeline.index, pipeline.failed),
        PrepareRoot.kind: Handler(expander.prepare, expander.failed),
        DeleteSubtree.kind: Handler(remover.subtree),
        DeleteBase.kind: Handler(remover.base),
        ReindexSubtree.kind: Handler(rebuilder.reindex),
        DeliverEvents.kind: Handler(Deliverer(db, parts.sender).deliver),
        Reconcile.kind: Handler(reconciler.reconcile),
        SyncConnector.kind: Handler(synchroniser.sync, synchroniser.failed),
        SyncAccess.kind: Handler(Permissions(db, parts.tools).sync),
        CheckFileProcessing.kind: Handler(converter.check, converter.failed),
        CancelConversion.kind: Handler(converter.cancel),
        AnalyseAssets.kind: Handler(analyser.analyse, analyser.failed),
        TidyBase.kind: Handler(tidy.Tidier(db).tidy),
    }


async def _keep_tidy(db: Database) -> None:
    """Ask for the tidying of what needs it. What is missed is seen the next time, by any worker."""
    while True:
        try:
            await tidy.ask(db)
        except GristmillError as error:
            log.warning("tidying can't be asked for", extra={"code": error.code, "reason": error.message})
        await clock.pause(_TIDY)


async def _warm(embedders: Embedders) -> None:
    """Load the default embedder ahead of the first document; a failure shows again where it matters."""
    try:
        await embedders.default.load()
        log.info("embedder ready", extra={"embedder": embedders.default.name})
    except GristmillError as error:
        log.error("embedder can't be loaded", extra={"code": error.code, "reason": error.message})


async def _end(task: asyncio.Task[None]) -> None:
    await clock.stop([task])
