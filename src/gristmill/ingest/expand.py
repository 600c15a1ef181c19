"""Containers become children: the job `prepare_root`.

    list        the source, in batches, outside any transaction
    file        each batch in one fenced transaction, in the base's turn: the root is read again and must still be
                wanted and not deleting; new children are filed, known ones wanted anew, each with its job. What was
                never listed has no children that anybody works on: its batches share the turn
    finish      children that the source no longer has are deleted; the container says what was left out, and is from
                now on as its children are

Where too many jobs wait already, it pauses until half of them are done, and then lists again: a batch is filed while
there is any room, so that a listing always comes to its end. Killed anywhere: the next attempt lists again, and passes over what this version has listed already. So the first
files are searchable while later ones are still being listed, and a listing of any size fits in memory.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, Item, ItemId, ItemStatus, NewItem
from gristmill.db import Database, Tx
from gristmill.errors import GristmillError, Permanent, Unsupported
from gristmill.events import ContainerExpanded, ItemFailed
from gristmill.ingest.pipeline import base_of
from gristmill.jobs import Done, Job, Outcome, Priority, QueueLimits, Snooze
from gristmill.operations.delete import mark_for_deletion
from gristmill.operations.next_job import enqueue_next_jobs, has_room, record_filed_events
from gristmill.sources.directory import DirectoryEntry, IgnoreRules, list_folder
from gristmill.sources.sitemap import SitemapRules, list_sitemap
from gristmill.work import PrepareRoot

# As long as a caller who is refused is asked to wait.
_PAUSE = timedelta(seconds=30)


class Expander:
    """Lists containers."""

    def __init__(self, db: Database, *, private: bool, limits: QueueLimits | None = None) -> None:
        self._db, self._private, self._limits = db, private, limits

    async def prepare(self, job: Job) -> Outcome:
        """File what the job's container holds, unless something newer is wanted."""
        opened = await self._open(job)
        if isinstance(opened, Outcome):
            return opened
        root, rules, shared = opened
        await faults.point("expand.opened")
        left_out = Counter[str]()
        async with aclosing(self._list(root, rules, left_out)) as batches:
            async for batch in batches:
                await faults.point("expand.listed")
                if (outcome := await self._file_batch(job, root, batch, shared)) is not None:
                    return outcome
                await faults.point("expand.filed")
        await self._finish(job, root, left_out, shared)
        return Done()

    async def record_failure(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """The job is dead: the container failed, whatever became of the children it has."""
        await catalog.lock_base(tx, base_of(job))
        work = PrepareRoot.of(job)
        if await catalog.fail_version(tx, work.item_id, work.version, error.code, error.message):
            event = ItemFailed(base_of(job), work.item_id, work.version, error.code, error.message)
            await events.record(tx, event)
            await events.announce_ready(tx, [base_of(job)])

    async def _open(self, job: Job) -> tuple[Item, IgnoreRules, bool] | Outcome:
        """The container, what its listing leaves out beside what the source itself says, and whether it was never
        listed; or why not now."""
        async with self._db.transaction() as tx:
            locked = await self._lock_container(tx, job, shared=True)
            if locked is None:
                return Done()
            base, root = locked
            if job.interrupted and base.on_restart == "park":
                raise Permanent(
                    "Listing was interrupted, and this base does not resume by itself: recover it when you like.",
                    code="interrupted",
                )
            begun = root.status is ItemStatus.PROCESSING
            if not await has_room(tx, base, self._limits.half() if self._limits and begun else self._limits):
                return Snooze(_PAUSE)
            # The later of two patterns decides: those of the folder that was added are nearer than the base's.
            folder_patterns = (await catalog.root_source(tx, root.id)).get("ignore", [])
            shared = not await catalog.has_children(tx, root.id)
            return root, IgnoreRules((*base.ignore, *folder_patterns), base.include_hidden), shared

    async def _lock_container(self, tx: Tx, job: Job, *, shared: bool = False) -> tuple[Base, Item] | None:
        """The base's turn, and the root as it is then; None when it is gone, deleting or wanted otherwise."""
        if shared:
            await catalog.lock_base_shared(tx, base_of(job))
            base = await catalog.find_base(tx, base_of(job))
        else:
            base = await catalog.lock_base(tx, base_of(job))
        await jobs.fence(tx, job)
        work = PrepareRoot.of(job)
        root = await catalog.find_item(tx, work.item_id)
        if base is None or root is None or not await catalog.is_wanted(tx, root.id, work.version):
            return None
        return base, root

    async def _list(
        self, root: Item, rules: IgnoreRules, left_out: Counter[str]
    ) -> AsyncGenerator[list[NewItem]]:
        """What the source holds; `left_out` counts what it has beside that, once all is listed."""
        if root.type == "directory":
            top = Path(root.source.get("root", root.source["path"]))
            async with aclosing(list_folder(Path(root.source["path"]), rules, top, left_out)) as folder:
                async for entries in folder:
                    yield [_new_item(entry, top) for entry in entries]
        elif root.type == "sitemap":
            listing = list_sitemap(root.source["url"], SitemapRules(private=self._private))
            async for pages in listing:
                yield [NewItem("url", page.url[:500], page.url, source={"url": page.url}) for page in pages]
            left_out.update(listing.left_out)
            del left_out["duplicate"]  # is listed, once
        elif root.type == "connector":
            return  # its runs file what is below it
        else:
            raise Unsupported(f"Items of type {root.type!r} can't be listed yet.")

    async def _file_batch(
        self, job: Job, root: Item, listed: Sequence[NewItem], shared: bool
    ) -> Outcome | None:
        """File a batch; an outcome when that was the last one, for now or for good."""
        async with self._db.transaction() as tx:
            locked = await self._lock_container(tx, job, shared=shared)
            if locked is None:
                return Done()
            base, root = locked
            if not await has_room(tx, base, self._limits):
                return Snooze(_PAUSE)
            known = await catalog.find_existing(tx, base.id, root.id, listed)
            if not (known and shared):
                await self._insert_children(tx, base, root, listed, known)
        if known and shared:  # somebody else filed some meanwhile, and they may be worked on
            return await self._file_batch(job, root, listed, shared=False)
        return None

    async def _insert_children(
        self, tx: Tx, base: Base, root: Item, listed: Sequence[NewItem], known: Mapping[int, ItemId]
    ) -> None:
        version = root.wanted_version
        await catalog.resume_version(tx, root.id, version, ItemStatus.PROCESSING)
        new_items = [item for place, item in enumerate(listed) if place not in known]
        children = await catalog.request_listed_versions(
            tx, [(known[place], listed[place]) for place in known], version
        )
        if new_items:
            inserted = await catalog.insert_items(tx, base.id, root.id, new_items, listed_version=version)
            await record_filed_events(tx, inserted)
            children += inserted
        await enqueue_next_jobs(tx, base, children, Priority.NORMAL)

    async def _finish(self, job: Job, root: Item, left_out: Counter[str], shared: bool) -> None:
        async with self._db.transaction() as tx:
            locked = await self._lock_container(tx, job, shared=shared)
            if locked is not None:
                base, root = locked
                if not shared and (stale := await catalog.stale_children(tx, root.id, root.wanted_version)):
                    await mark_for_deletion(tx, base, stale)
                await catalog.mark_expanded(tx, root.id, root.wanted_version, +left_out)
                await events.record(tx, ContainerExpanded(base.id, root.id, root.wanted_version))
            await jobs.complete(tx, job)
            if locked is not None:
                await events.announce_ready(tx, [base_of(job)])
            await faults.point("expand.before_commit")


def _new_item(entry: DirectoryEntry, top: Path) -> NewItem:
    """A folder's entry as an item; a folder knows the top, whose ignore rules it stands under."""
    source = {"path": str(entry.path), **({"root": str(top)} if entry.kind == "directory" else {})}
    return NewItem(
        entry.kind, entry.name, str(entry.path), source=source, size_bytes=entry.size, error=entry.error
    )
