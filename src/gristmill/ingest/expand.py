"""List a container's source and create its children: the job `prepare_root`.

    move        a folder that was listed before: files that were moved since keep their items (refresh/folder_scan.py)
    list        list the source in batches, outside any transaction; a web site is crawled instead (crawl/)
    file        one fenced transaction per batch, under the base's lock: check that the root is still wanted and not being
                deleted, insert new children, request new versions of known ones, and enqueue their jobs. A batch contains
                the subfolders that fit in it, which are done with that (file_listing.py). The lock is exclusive, except
                for a container that has no children yet: nothing else works on them
    finish      delete children that the source no longer has, and record what was left out. From now on the container's
                status is derived from its children. A folder whose disk is not mounted fails instead, and keeps them

If the queue is full, the job pauses until half of it is done, and then lists again. A batch is filed whenever there is any
room, so that a listing always finishes. Killed anywhere: the next attempt lists again and skips what this version has
listed. So the first files become searchable while later ones are still being listed, and a listing of any size fits in
memory.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, ExpandedContainer, Item, ItemStatus, NewItem
from gristmill.db import Database, Tx
from gristmill.errors import GristmillError, Permanent, Unsupported
from gristmill.events import ContainerExpanded, ItemFailed
from gristmill.ingest.crawl.crawler import QueueFull, SiteBusy, SiteCrawler
from gristmill.ingest.file_listing import ChildrenExist, ListedFolder, ListedItem, file_listing
from gristmill.ingest.refresh.folder_scan import follow_moves, refuse_unmounted
from gristmill.ingest.source_changes import Interrupted
from gristmill.ingest.stages import Stages
from gristmill.ingest.task import base_of
from gristmill.jobs import Activity, Done, Job, Outcome, QueueLimits, Snooze
from gristmill.operations.delete import mark_for_deletion
from gristmill.operations.next_job import has_room, pause_until_room
from gristmill.operations.source_factory import ADDED_LOCALLY, disk_access
from gristmill.sources.directory import DirectoryEntry, IgnoreRules, list_folder
from gristmill.sources.disk import EVERYWHERE, DiskAccess
from gristmill.sources.sitemap import SitemapRules, list_sitemap
from gristmill.work import PrepareRoot


class Expander:
    """Lists containers."""

    def __init__(
        self,
        db: Database,
        crawler: SiteCrawler | None = None,
        *,
        private: bool,
        limits: QueueLimits | None = None,
        disk: DiskAccess = EVERYWHERE,
        stages: Stages | None = None,
    ) -> None:
        self._db, self._private, self._limits, self._disk = db, private, limits, disk
        self._stages, self._crawler = stages or Stages(), crawler

    async def prepare(self, job: Job) -> Outcome:
        """Create the children of the job's container, unless a newer version is wanted."""
        opened = await self._open(job)
        if isinstance(opened, Outcome):
            return opened
        root, rules, shared = opened
        await faults.point("expand.opened")
        if root.type == "site" and self._crawler is not None:
            return await self._crawl(job, root, self._crawler)
        if not shared and root.type == "directory" and {"path", "root"} & root.source.keys() == {"path"}:
            await self._follow_moves(job, root)
        left_out = Counter[str]()
        if root.type == "sitemap":  # its server may be slow, and must not take a slot from other bases
            with job.during(Activity.AWAY):
                async with self._stages.sources.place(jobs.requester(job)):
                    outcome = await self._file_listing(job, root, self._list(root, rules, left_out), shared)
        else:
            outcome = await self._file_listing(
                job, root, self._list(root, rules, left_out, is_listed_again=not shared), shared
            )
        if outcome is not None:
            return outcome
        # What only an unreadable file of a sitemap lists is not gone.
        await self._finish(job, root, left_out, shared, remove_stale=not left_out["unreadable_sitemap"])
        return Done()

    async def _crawl(self, job: Job, root: Item, crawler: SiteCrawler) -> Outcome:
        """Crawl a site for a while; the crawl itself removes pages that are gone."""
        try:
            result = await crawler.crawl(job, root, root.wanted_version)
        except Interrupted:
            return Done()
        except QueueFull:
            return pause_until_room("The crawl continues")
        except SiteBusy as busy:
            return Snooze(busy.wait, busy.reason)
        if result is None:
            return Snooze(timedelta(0))
        await self._finish(job, root, result[1], shared=False, remove_stale=False)
        return Done()

    async def _follow_moves(self, job: Job, root: Item) -> None:
        async def may_write(tx: Tx) -> bool:
            await jobs.fence(tx, job)
            return await catalog.is_wanted(tx, root.id, root.wanted_version)

        await follow_moves(self._db, root, self._disk, may_write, job.id)

    async def _file_listing(
        self, job: Job, root: Item, listing: AsyncGenerator[list[ListedItem]], shared: bool
    ) -> Outcome | None:
        """Create the children batch by batch. Returns an outcome if the listing has to stop or pause."""
        async with aclosing(listing) as batches:
            async for batch in batches:
                await faults.point("expand.listed")
                if (outcome := await self._file_batch(job, root, batch, shared)) is not None:
                    return outcome
                await faults.point("expand.filed")
        return None

    async def record_failure(self, tx: Tx, job: Job, error: GristmillError) -> None:
        """Mark the container as failed, in the transaction that buries the job. Its children stay as they are."""
        await catalog.lock_base(tx, base_of(job))
        work = PrepareRoot.of(job)
        if await catalog.fail_version(tx, work.item_id, work.version, error.code, error.message):
            event = ItemFailed(base_of(job), work.item_id, work.version, error.code, error.message)
            await events.record(tx, event)
            await events.announce_ready(tx, [base_of(job)])

    async def _open(self, job: Job) -> tuple[Item, IgnoreRules, bool] | Outcome:
        """The container, its ignore rules, and whether a shared lock is enough because it has no children; or the outcome
        if it can't be listed now."""
        async with self._db.transaction() as tx:
            locked = await self._lock_container(tx, job, shared=True)
            if locked is None:
                return Done()
            base, root = locked
            if job.interrupted and base.on_restart == "park":
                raise Permanent(
                    "Listing was interrupted, and this base does not resume automatically. Recover the base to continue.",
                    code="interrupted",
                )
            begun = root.status is ItemStatus.PROCESSING
            if not await has_room(tx, base, self._limits.half() if self._limits and begun else self._limits):
                return pause_until_room("Listing continues")
            # The last matching pattern decides: those of the added folder override the base's.
            folder_patterns = (await catalog.root_source(tx, root.id)).get("ignore", [])
            shared = not await catalog.has_children(tx, root.id)
            return root, IgnoreRules((*base.ignore, *folder_patterns), base.include_hidden), shared

    async def _lock_container(self, tx: Tx, job: Job, *, shared: bool = False) -> tuple[Base, Item] | None:
        """Lock the base, and return it with the root's current row. None if the job's version is no longer wanted."""
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
        self, root: Item, rules: IgnoreRules, left_out: Counter[str], *, is_listed_again: bool = False
    ) -> AsyncGenerator[list[ListedItem]]:
        """The source's entries in batches. `left_out` counts the skipped entries; it is complete after the last batch."""
        if root.type == "directory" and "path" not in root.source:
            return  # people file its children
        if root.type == "directory":
            path = Path(root.source["path"])
            top = Path(root.source.get("root", path))
            access, is_empty = disk_access(self._disk, root.source), True
            async with aclosing(list_folder(path, rules, top, left_out, access=access)) as folder:
                async for entries in folder:
                    is_empty = False
                    yield [_listed_item(entry, top, root, is_listed_again) for entry in entries]
            if is_empty and is_listed_again:
                await refuse_unmounted(self._db, root.id, path)
        elif root.type == "sitemap":
            listing = list_sitemap(root.source["url"], SitemapRules(private=self._private))
            async for pages in listing:
                yield [ListedItem(catalog.new_page(page.url)) for page in pages]
            left_out.update(listing.left_out)
            del left_out["duplicate"]  # listed once, so nothing was left out
        elif root.type == "connector":
            return  # connector runs create its children
        else:
            raise Unsupported(f"Items of type {root.type!r} can't be listed yet.")

    async def _file_batch(
        self, job: Job, root: Item, listed: Sequence[ListedItem], shared: bool
    ) -> Outcome | None:
        """Create the children of a batch. Returns an outcome if the listing has to stop or pause here."""
        try:
            async with self._db.transaction() as tx:
                locked = await self._lock_container(tx, job, shared=shared)
                if locked is None:
                    return Done()
                base, root = locked
                if not await has_room(tx, base, self._limits):
                    return pause_until_room("Listing continues")
                await file_listing(tx, base, root, listed, is_exclusive=not shared)
        except ChildrenExist:  # they were added in the meantime
            return await self._file_batch(job, root, listed, shared=False)
        return None

    async def _finish(
        self, job: Job, root: Item, left_out: Counter[str], shared: bool, *, remove_stale: bool = True
    ) -> None:
        async with self._db.transaction() as tx:
            locked = await self._lock_container(tx, job, shared=shared)
            if locked is not None:
                base, root = locked
                version = root.wanted_version
                if remove_stale and not shared:
                    stale = await catalog.stale_children(tx, [(root.id, version)])
                    await mark_for_deletion(tx, base, stale)
                await catalog.mark_expanded(tx, [ExpandedContainer(root.id, version, +left_out)])
                await events.record(tx, ContainerExpanded(base.id, root.id, version))
            await jobs.complete(tx, job)
            if locked is not None:
                await events.announce_ready(tx, [base_of(job)])
            await faults.point("expand.before_commit")


def _listed_item(entry: DirectoryEntry, top: Path, folder: Item, is_listed_again: bool) -> ListedItem:
    """A folder's entry as an item, with the entry's own contents. It may be read from the same part of the disk as the folder. A subfolder remembers the
    topmost folder, whose ignore rules apply to it. One that is empty the next time is listed by itself: its disk may not be mounted."""
    source: dict[str, Any] = {"path": str(entry.path)}
    if entry.kind == "directory":
        source["root"] = str(top)
    if ADDED_LOCALLY in folder.source:
        source[ADDED_LOCALLY] = folder.source[ADDED_LOCALLY]
    item = NewItem(
        entry.kind,
        entry.name,
        str(entry.path),
        source=source,
        size_bytes=entry.size,
        error=entry.error,
        fingerprint=entry.fingerprint,
    )
    if entry.contents is None or (is_listed_again and not entry.contents.entries):
        return ListedItem(item)
    children = [_listed_item(child, top, folder, is_listed_again) for child in entry.contents.entries]
    return ListedItem(item, ListedFolder(children, entry.contents.left_out))
