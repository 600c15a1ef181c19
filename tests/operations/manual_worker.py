"""A worker that the test steps: jobs are claimed one by one, run by the real handlers, and end as with a real worker.

What a worker does in the background happens here when the test says so: a job can be claimed and forgotten (a crash), run twice (a
zombie and its successor), or paused in the middle by `faults.watch`. Unexpected errors reach the test: only `FaultInjected` counts
as a failed attempt.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID, uuid4

from gristmill import catalog, contents, search
from gristmill.catalog import Base, BaseId, Item, ItemId, NewItem
from gristmill.db import Database, DatabaseUnavailable, Tx
from gristmill.embedding import Embedder, Embedders
from gristmill.errors import GristmillError, LeaseLost, Permanent
from gristmill.faults import FaultInjected
from gristmill.ingest import Converter, Expander, ImageAnalyser, Pipeline, ReaderPool, Reindexer, Remover
from gristmill.ingest.crawl.crawler import SiteCrawler
from gristmill.ingest.image_describers import ImageDescriber
from gristmill.ingest.index_title import TitleIndexer
from gristmill.ingest.move_index import IndexMover
from gristmill.ingest.processors import Processor
from gristmill.ingest.refresh.containers import ContainerRefresher
from gristmill.ingest.refresh.documents import DocumentRefresher
from gristmill.ingest.refresh.due import DueFinder
from gristmill.ingest.stages import Stages
from gristmill.ingest.swap import EmbedderSwapper
from gristmill.ingest.update_index import IndexUpdater
from gristmill.integrity import invariants
from gristmill.integrity.reconcile import DAMAGE, Reconciler
from gristmill.jobs import Handler, Job, QueueLimits, retry, store
from gristmill.jobs.retry import LOST_FACTOR
from gristmill.operations import add, bases, reindex
from gristmill.operations.source_factory import FolderSource, SourceFactory
from gristmill.search.compaction import Compactor
from gristmill.search.index.engine_indexes import NO_ENGINE, EngineIndexes
from gristmill.settings import Settings
from gristmill.sources import FileSource, NoteSource
from gristmill.sources.blobs import BlobStore
from gristmill.work import (
    AnalyseAssets,
    CancelConversion,
    CheckFileProcessing,
    CompactBase,
    DeleteBase,
    DeleteSubtree,
    FindDue,
    IndexDocument,
    IndexTitle,
    MoveIndex,
    OnActive,
    PrepareRoot,
    Reconcile,
    RefreshContainer,
    RefreshDocuments,
    ReindexSubtree,
    RemoveChunkSet,
    SwapEmbedder,
    SweepIndex,
    UpdateIndex,
)
from tests.embedding.hashed import HashedEmbedder

LEASE = timedelta(seconds=10)
UNLIMITED = QueueLimits(lane=100_000, total=100_000)


@dataclass
class ManualWorker:
    """One worker that the test steps."""

    db: Database
    originals: SourceFactory
    handlers: dict[str, Handler]
    id: UUID = field(default_factory=uuid4)

    @classmethod
    async def start(
        cls,
        db: Database,
        settings: Settings,
        embedder: HashedEmbedder | None = None,
        pool: ReaderPool | None = None,
        analyst: ImageDescriber | None = None,
        processors: Mapping[str, Processor] | None = None,
        indexes: EngineIndexes = NO_ENGINE,
        others: Mapping[str, Embedder] | None = None,
    ) -> "ManualWorker":
        """A worker with every handler of the app; without a reader pool, every file is read as text."""
        embedders = Embedders(
            settings, settings.cache_dir, {"hashed": embedder or HashedEmbedder(), **(others or {})}
        )
        originals = SourceFactory(BlobStore.open(None, settings.data_dir), 1 << 20, allow_private=True)
        pipeline, remover = (
            Pipeline(db, embedders, originals, pool, None, analyst, processors, indexes=indexes),
            Remover(db, originals.blobs, indexes),
        )
        expander, rebuilder = Expander(db, SiteCrawler(db, originals, Stages()), private=True), Reindexer(db)
        converter = Converter(db, originals, processors or {})
        updater = IndexUpdater(db, indexes)
        swapper = EmbedderSwapper(db, embedders, pipeline.offload)
        handlers = {
            IndexDocument.kind: Handler(pipeline.index, pipeline.record_failure),
            PrepareRoot.kind: Handler(expander.prepare, expander.record_failure),
            DeleteSubtree.kind: Handler(remover.remove_subtree),
            DeleteBase.kind: Handler(remover.remove_base),
            ReindexSubtree.kind: Handler(rebuilder.reindex),
            CheckFileProcessing.kind: Handler(converter.check, converter.record_failure),
            CancelConversion.kind: Handler(converter.cancel),
            UpdateIndex.kind: Handler(updater.update),
            SweepIndex.kind: Handler(updater.sweep),
            MoveIndex.kind: Handler(IndexMover(db, indexes).move),
            SwapEmbedder.kind: Handler(swapper.run, swapper.record_failure),
            RemoveChunkSet.kind: Handler(remover.remove_chunk_set),
            CompactBase.kind: Handler(Compactor(db).compact),
            IndexTitle.kind: Handler(TitleIndexer(db, pipeline.offload).run),
            FindDue.kind: Handler(DueFinder(db).find),
            RefreshDocuments.kind: Handler(DocumentRefresher(db, originals, Stages()).refresh),
            RefreshContainer.kind: Handler(ContainerRefresher(db, originals, Stages()).refresh),
            Reconcile.kind: Handler(Reconciler(db, originals.blobs, timedelta(days=30)).reconcile),
        }
        if analyst is not None:
            analyser = ImageAnalyser(db, embedders, originals, analyst)
            handlers[AnalyseAssets.kind] = Handler(analyser.analyse, analyser.record_failure)
        worker = cls(db, originals, handlers)
        await worker.enrol()
        return worker

    async def enrol(self) -> None:
        """Register under a new id."""
        self.id = uuid4()
        async with self.db.connection() as tx:
            await store.register_worker(tx, self.id, {}, LEASE)

    async def claim(self, limit: int = 1) -> list[Job]:
        """Claim the next jobs."""
        async with self.db.connection() as tx:
            return await store.complete_and_claim(
                tx, self.id, [], limit=limit, non_interactive_limit=limit, lane_cap=1000, global_cap=None
            )

    async def take(self, kind: str) -> Job:
        """Claim the next job, which must be of this kind."""
        (job,) = await self.claim()
        assert job.kind == kind, job
        return job

    async def run(self, job: Job) -> retry.Transition:
        """Run a claimed job and record its outcome."""
        move = await self._attempt(job)
        with contextlib.suppress(LeaseLost):
            await self._record_outcome(job, move)
        return move

    async def step(self) -> retry.Transition:
        """Claim the next job and run it."""
        (job,) = await self.claim()
        return await self.run(job)

    async def work(self, limit: int = 10_000) -> int:
        """Run jobs until none can be claimed; how many."""
        count = 0
        while jobs := await self.claim(16):
            for job in jobs:
                await self.run(job)
            count += len(jobs)
            assert count < limit, "the work never ends"
        return count

    async def make_due(self) -> None:
        """Make all delayed jobs claimable now."""
        await self.rows("update job set state = 'queued' where state = 'delayed' returning id")
        await self.rows("update lane set busy = true, urgent = true returning lane")

    async def _attempt(self, job: Job) -> retry.Transition:
        handler = self.handlers[job.kind]
        try:
            if job.attempt > LOST_FACTOR * job.max_attempts:
                raise Permanent("The worker was lost at most attempts.", code="worker_lost")
            return retry.after_outcome(await handler.run(job))
        except DatabaseUnavailable:
            raise  # a deadlock is raised as this
        except (GristmillError, FaultInjected) as error:
            return retry.after_error(error, job, 0.5)

    async def _record_outcome(self, job: Job, move: retry.Transition) -> None:
        async with self.db.transaction() as tx:
            match move:
                case retry.Complete():
                    if not job.completed:
                        await store.complete(tx, job)
                case retry.Postpone(delay, counted, error):
                    await store.postpone(tx, job, delay, counted=counted, error=error)
                case retry.Bury(error):
                    if (on_dead := self.handlers[job.kind].on_dead) is not None:
                        await on_dead(tx, job, error)
                    await store.bury(tx, job, error)
                case retry.FinishCancel() | retry.Ignore():
                    pass

    # ── operations ───────────────────────────────────────────────────────────────────────────────────────────

    async def base(self, name: str = "one") -> Base:
        """A new base."""
        return await bases.create(self.db, name, HashedEmbedder(), {})

    async def add(self, base: Base, *entries: add.ItemToAdd, **more: Any) -> list[Item]:
        """Add entries, all of which must be accepted."""
        result = await add.add(self.db, base.id, entries, UNLIMITED, **more)
        assert result.failed == []
        return result.created

    async def reindex(
        self, base: Base, *ids: ItemId, on_active: OnActive = "reject"
    ) -> reindex.ReindexResult:
        """Re-index as the server does, with the sources of the selected items."""
        async with self.db.connection() as tx:
            items = await catalog.find_items(tx, ids)
            blobs = await contents.item_blob_names(tx, ids)
        sources = {
            item.id: self.originals.for_item(item, blob=blobs.get(item.id))
            for item in items
            if item.type != "note"
        }
        return await reindex.reindex(self.db, base.id, ids, sources, on_active)

    # ── queries ──────────────────────────────────────────────────────────────────────────────────────────

    async def rows(self, statement: LiteralString, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        async with self.db.connection() as tx:
            return await (await tx.execute(statement, parameters)).fetchall()

    async def value(self, statement: LiteralString, *parameters: Any) -> Any:
        """The only value of a statement."""
        ((value,),) = await self.rows(statement, *parameters)
        return value

    async def statuses(self) -> dict[str, str]:
        """Every item's status, by its title; what is being deleted too."""
        return {row[0]: row[1] for row in await self.rows("select title, status from item")}

    async def search_texts(self, base: Base, words: str) -> list[str]:
        """The texts that a search for any of the words returns."""
        request = search.SearchRequest(words, limit=100, mode="text")
        hits = await search.Searcher(self.db, cache_bytes=2**20).search([search.Target(base, None)], request)
        return sorted(hit.text for hit in hits)

    async def assert_healthy(self) -> None:
        """Assert that the invariants hold."""
        async with self.db.connection() as tx:
            assert await invariants.find_violations(tx) == []
            assert await containers_with_wrong_status(tx) == []

    async def reconcile(self) -> dict[str, int]:
        """What a thorough pass of the reconciler repairs: nothing, in a healthy system."""
        repairs = await Reconciler(self.db, self.originals.blobs, timedelta(days=30)).run_pass()
        return {name: repairs[name] for name in DAMAGE if repairs[name]}

    async def remaining_rows(self) -> dict[str, int]:
        """The number of rows in every table that a deletion has to empty."""
        rows = await self.rows(
            "select 'items', count(*) from item union all select 'versions', count(*) from item_version"
            " union all select 'chunks', count(*) from chunk union all select 'contents', count(*) from content"
            " union all select 'blobs', count(*) from blob union all select 'strays', count(*) from pending_blob_name"
            " union all select 'jobs', count(*) from job"
        )
        return {name: count for name, count in rows if count}


async def containers_with_wrong_status(tx: Tx) -> list[tuple[Any, ...]]:
    """Containers whose status does not follow from their children (see `item_derive_status`), by an independent query."""
    return await (
        await tx.execute(
            "with derived as (select i.title, i.status, case"
            "      when i.expanded_version < i.wanted_version then"
            "           case when i.status in ('preparing', 'processing') then i.status else 'preparing' end"
            "      when bool_or(c.status not in ('completed', 'failed'))"
            "           then 'processing'"
            "      when i.error_code <> 'all_failed' then 'failed'"
            "      when bool_or(c.status = 'completed') then 'completed'"
            "      when bool_or(c.status = 'failed') then 'failed' else 'completed' end as derived"
            "   from item i left join item c on c.parent_id = i.id and c.status <> 'deleting'"
            "  where i.type = 'directory' and i.status <> 'deleting' group by i.id)"
            " select title, status, derived from derived where status <> derived"
        )
    ).fetchall()


def note_to_add(title: str, text: str | None = None) -> add.ItemToAdd:
    """A note to add."""
    body = text or f"{title} text"
    return add.ItemToAdd(NewItem("note", title, title, body=body), NoteSource(body, title))


def folder_to_add(path: Path) -> add.ItemToAdd:
    """A folder to add."""
    return add.ItemToAdd(
        NewItem("directory", path.name, str(path), source={"path": str(path)}), FolderSource(path)
    )


def file_to_add(path: Path) -> add.ItemToAdd:
    """A file of the disk to add."""
    return add.ItemToAdd(
        NewItem("file", path.name, str(path), source={"path": str(path)}), FileSource(path, 1 << 20)
    )


def upload_to_add(name: str, digest: bytes, size: int) -> add.ItemToAdd:
    """A stored upload to add."""
    return add.ItemToAdd(
        NewItem("file", name, f"upload:{name}", source={"name": name}, blob=digest, size_bytes=size), None
    )


async def byte_stream(data: bytes) -> AsyncIterator[bytes]:
    """Bytes as the body of a request."""
    yield data


async def index_folder(worker: ManualWorker, base: Base, path: Path) -> dict[str, Item]:
    """Add a folder and index it; every item of the base by its title."""
    await worker.add(base, folder_to_add(path))
    await worker.work()
    return await items_by_title(worker, base)


async def items_by_title(worker: ManualWorker, base: Base) -> dict[str, Item]:
    """Every item of the base by its title; what is being deleted too."""
    async with worker.db.connection() as tx:
        items = await catalog.list_items(
            tx, base.id, catalog.ItemFilter(everywhere=True, include_deleting=True), limit=1000
        )
    return {item.title: item for item in items}


def unknown_base() -> BaseId:
    """An id that no base has."""
    return BaseId(uuid4())
