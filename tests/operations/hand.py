"""Jobs in a test's own hands: claimed one by one, run by the real handlers, settled as a worker would.

What a worker does in the background happens here when the test says so: a job can be claimed and forgotten
(a crash), run twice (a zombie beside its successor), or held in the middle by `faults.watch`. An error that
is not one of ours is the test's to see: only `FaultInjected` counts as a failed attempt.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID, uuid4

from gristmill import catalog, search
from gristmill.catalog import Base, BaseId, Item, ItemId, NewItem
from gristmill.db import Database, Tx, Unavailable
from gristmill.embedding import Embedders
from gristmill.errors import GristmillError, LeaseLost, Permanent
from gristmill.faults import FaultInjected
from gristmill.ingest import Analyser, Converter, Expander, Pipeline, ReaderPool, Rebuilder, Remover
from gristmill.ingest.assets import Analyst
from gristmill.ingest.processors import Processor
from gristmill.jobs import Handler, Job, QueueLimits, retry, store
from gristmill.jobs.worker import LOST
from gristmill.operations import add, bases, health, reindex
from gristmill.operations.originals import Folder, Originals
from gristmill.operations.reconcile import DAMAGE, Reconciler
from gristmill.settings import Settings
from gristmill.sources import NoteSource
from gristmill.sources.blobs import Blobs
from gristmill.work import (
    AnalyseAssets,
    CancelConversion,
    CheckFileProcessing,
    DeleteBase,
    DeleteSubtree,
    IndexDocument,
    OnActive,
    PrepareRoot,
    Reconcile,
    ReindexSubtree,
)
from tests.embedding.hashed import HashedEmbedder

LEASE = timedelta(seconds=10)
WIDE = QueueLimits(lane=100_000, total=100_000)


@dataclass
class Hand:
    """One worker, moved by hand."""

    db: Database
    originals: Originals
    handlers: dict[str, Handler]
    id: UUID = field(default_factory=uuid4)

    @classmethod
    async def at(
        cls,
        db: Database,
        settings: Settings,
        embedder: HashedEmbedder | None = None,
        pool: ReaderPool | None = None,
        analyst: Analyst | None = None,
        processors: Mapping[str, Processor] | None = None,
    ) -> "Hand":
        """A worker with every handler that the app has; without a pool, everything is text."""
        embedders = Embedders(settings, settings.cache_dir, {"hashed": embedder or HashedEmbedder()})
        originals = Originals(Blobs.open(None, settings.data_dir), 1 << 20, private=True)
        pipeline, remover = (
            Pipeline(db, embedders, originals, pool, None, analyst, processors),
            Remover(db, originals.blobs),
        )
        expander, rebuilder = Expander(db, private=True), Rebuilder(db)
        converter = Converter(db, originals, processors or {})
        handlers = {
            IndexDocument.kind: Handler(pipeline.index, pipeline.failed),
            PrepareRoot.kind: Handler(expander.prepare, expander.failed),
            DeleteSubtree.kind: Handler(remover.subtree),
            DeleteBase.kind: Handler(remover.base),
            ReindexSubtree.kind: Handler(rebuilder.reindex),
            CheckFileProcessing.kind: Handler(converter.check, converter.failed),
            CancelConversion.kind: Handler(converter.cancel),
            Reconcile.kind: Handler(Reconciler(db, originals.blobs, timedelta(days=30)).reconcile),
        }
        if analyst is not None:
            analyser = Analyser(db, embedders, originals, analyst)
            handlers[AnalyseAssets.kind] = Handler(analyser.analyse, analyser.failed)
        hand = cls(db, originals, handlers)
        await hand.enrol()
        return hand

    async def enrol(self) -> None:
        """Join, under a new id."""
        self.id = uuid4()
        async with self.db.connection() as tx:
            await store.enrol(tx, self.id, {}, LEASE)

    async def claim(self, limit: int = 1) -> list[Job]:
        """Take what is next."""
        async with self.db.connection() as tx:
            return await store.cycle(
                tx, self.id, [], limit=limit, general=limit, lane_cap=1000, global_cap=None
            )

    async def take(self, kind: str) -> Job:
        """Take the next job, which must be of this kind."""
        (job,) = await self.claim()
        assert job.kind == kind, job
        return job

    async def run(self, job: Job) -> retry.Move:
        """Run a claimed job and settle it."""
        move = await self._attempt(job)
        with contextlib.suppress(LeaseLost):
            await self._settle(job, move)
        return move

    async def step(self) -> retry.Move:
        """Take the next job and run it."""
        (job,) = await self.claim()
        return await self.run(job)

    async def work(self, most: int = 10_000) -> int:
        """Run what can be claimed until nothing can; how many jobs."""
        done = 0
        while jobs := await self.claim(16):
            for job in jobs:
                await self.run(job)
            done += len(jobs)
            assert done < most, "the work never ends"
        return done

    async def due(self) -> None:
        """Whatever was postponed may be claimed now."""
        await self.fetch("update job set state = 'queued' where state = 'delayed' returning id")
        await self.fetch("update lane set busy = true, urgent = true returning lane")

    async def _attempt(self, job: Job) -> retry.Move:
        handler = self.handlers[job.kind]
        try:
            if job.attempt > LOST * job.max_attempts:
                raise Permanent("The worker was lost at most attempts.", code="worker_lost")
            return retry.after_outcome(await handler.run(job))
        except Unavailable:
            raise  # a deadlock would come as this
        except (GristmillError, FaultInjected) as error:
            return retry.after_error(error, job, 0.5)

    async def _settle(self, job: Job, move: retry.Move) -> None:
        async with self.db.transaction() as tx:
            match move:
                case retry.Complete():
                    if not job.settled:
                        await store.complete(tx, job)
                case retry.Postpone(delay, counted, error):
                    await store.postpone(tx, job, delay, counted=counted, error=error)
                case retry.Bury(error):
                    if (buried := self.handlers[job.kind].buried) is not None:
                        await buried(tx, job, error)
                    await store.bury(tx, job, error)
                case retry.Withdraw() | retry.Nothing():
                    pass

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────

    async def base(self, name: str = "one") -> Base:
        """A new base."""
        return await bases.create(self.db, name, HashedEmbedder(), {})

    async def add(self, base: Base, *entries: add.Entry, **more: Any) -> list[Item]:
        """Add entries, all of which must be taken."""
        added = await add.add(self.db, base.id, entries, WIDE, **more)
        assert added.failed == []
        return added.created

    async def reindex(self, base: Base, *ids: ItemId, on_active: OnActive = "reject") -> reindex.Reindexing:
        """Ask as the door does, with the sources of what is selected."""
        async with self.db.connection() as tx:
            items = await catalog.find_items(tx, ids)
            blobs = await catalog.blobs_of(tx, ids)
        sources = {
            item.id: self.originals.of(item, blob=blobs.get(item.id)) for item in items if item.type != "note"
        }
        return await reindex.reindex(self.db, base.id, ids, sources, on_active)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────

    async def fetch(self, statement: LiteralString, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        async with self.db.connection() as tx:
            return await (await tx.execute(statement, parameters)).fetchall()

    async def one(self, statement: LiteralString, *parameters: Any) -> Any:
        """The only value of a statement."""
        ((value,),) = await self.fetch(statement, *parameters)
        return value

    async def statuses(self) -> dict[str, str]:
        """Every item's status, by its title; what is being deleted too."""
        return {row[0]: row[1] for row in await self.fetch("select title, status from item")}

    async def texts(self, base: Base, words: str) -> list[str]:
        """What a search for any of the words answers."""
        ask = search.Ask(words, limit=100, mode="text")
        hits = await search.Searcher(self.db, cache_bytes=2**20).search([search.Target(base, None)], ask)
        return sorted(hit.text for hit in hits)

    async def healthy(self) -> None:
        """The promises hold."""
        async with self.db.connection() as tx:
            assert await health.violations(tx) == []
            assert await underived(tx) == []

    async def reconcile(self) -> dict[str, int]:
        """What a thorough pass of the reconciler puts right: nothing, in a healthy system."""
        found = await Reconciler(self.db, self.originals.blobs, timedelta(days=30)).once()
        return {name: found[name] for name in DAMAGE if found[name]}

    async def left(self) -> dict[str, int]:
        """How many rows there are of everything that a deletion has to take away."""
        rows = await self.fetch(
            "select 'items', count(*) from item union all select 'versions', count(*) from item_version"
            " union all select 'chunks', count(*) from chunk union all select 'contents', count(*) from content"
            " union all select 'blobs', count(*) from blob union all select 'strays', count(*) from stray"
            " union all select 'jobs', count(*) from job"
        )
        return {name: count for name, count in rows if count}


async def underived(tx: Tx) -> list[tuple[Any, ...]]:
    """Containers that are not as their children say (the table above `item_settle`), told by another way of asking."""
    return await (
        await tx.execute(
            "with told as (select i.title, i.status, case"
            "      when i.expanded_version < i.wanted_version then"
            "           case when i.status in ('preparing', 'processing') then i.status else 'preparing' end"
            "      when bool_or(c.status in ('idle', 'preparing', 'processing', 'reading', 'embedding'))"
            "           then 'processing'"
            "      when i.error_code <> 'all_failed' then 'failed'"
            "      when bool_or(c.status = 'completed') then 'completed'"
            "      when bool_or(c.status = 'failed') then 'failed' else 'completed' end as derived"
            "   from item i left join item c on c.parent_id = i.id and c.status <> 'deleting'"
            "  where i.type = 'directory' and i.status <> 'deleting' group by i.id)"
            " select title, status, derived from told where status <> derived"
        )
    ).fetchall()


def note(title: str, text: str | None = None) -> add.Entry:
    """A note to add."""
    body = text or f"{title} text"
    return add.Entry(NewItem("note", title, title, body=body), NoteSource(body, title))


def folder(path: Path) -> add.Entry:
    """A folder to add."""
    return add.Entry(NewItem("directory", path.name, str(path), source={"path": str(path)}), Folder(path))


def file(hand: Hand, path: Path) -> add.Entry:
    """A file of the disk to add."""
    return add.Entry(
        NewItem("file", path.name, str(path), source={"path": str(path)}), hand.originals.file(path)
    )


def upload(name: str, digest: bytes, size: int) -> add.Entry:
    """Bytes to add that are in the store."""
    return add.Entry(
        NewItem("file", name, f"upload:{name}", source={"name": name}, blob=digest, size_bytes=size), None
    )


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    """Bytes as a request brings them."""
    yield data


async def tree(hand: Hand, base: Base, path: Path) -> dict[str, Item]:
    """A folder, indexed: every item of the base by its title."""
    await hand.add(base, folder(path))
    await hand.work()
    return await by_title(hand, base)


async def by_title(hand: Hand, base: Base) -> dict[str, Item]:
    """Every item of the base by its title; what is being deleted too."""
    async with hand.db.connection() as tx:
        items = await catalog.list_items(tx, base.id, limit=1000, everywhere=True, deleting=True)
    return {item.title: item for item in items}


def unknown_base() -> BaseId:
    """An id that no base has."""
    return BaseId(uuid4())
