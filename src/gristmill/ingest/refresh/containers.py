"""Compare a folder, sitemap or site with its source: the job `refresh_container`.

    folder      its tree on the disk, by fingerprints (`folder_scan.py`)
    sitemap     its list of pages (`page_lists.py`)
    site        a crawl, with conditional requests (`crawl/`)

A container that is being listed waits. One that can't be read keeps its items; its schedule has the error, and minutes later it
is checked again. Every write proves the job's lease.
"""

from datetime import timedelta

from gristmill import catalog, faults, jobs
from gristmill.catalog import Item, refresh
from gristmill.catalog.refresh import DueItem
from gristmill.db import Database, Tx
from gristmill.errors import GristmillError, WorkError
from gristmill.ingest.crawl.crawler import QueueFull, SiteBusy, SiteCrawler
from gristmill.ingest.refresh.folder_changes import FolderWriter
from gristmill.ingest.refresh.folder_scan import FolderComparison, folder_rules
from gristmill.ingest.refresh.outcome import after_check, after_failure
from gristmill.ingest.refresh.page_lists import SitemapPages
from gristmill.ingest.source_changes import ChangeCounts, Interrupted
from gristmill.ingest.stages import Stages
from gristmill.jobs import Activity, Done, Job, Outcome, Priority, QueueLimits, Snooze
from gristmill.operations.next_job import enqueue_next_jobs, has_room, pause_until_room
from gristmill.operations.source_factory import SourceFactory
from gristmill.sources.sitemap import SitemapRules, list_sitemap
from gristmill.work import RefreshContainer

_LISTING_DELAY = timedelta(seconds=5)  # until a listing that is under way is looked for again


class ContainerRefresher:
    """Compares containers with their sources."""

    def __init__(
        self,
        db: Database,
        sources: SourceFactory,
        stages: Stages,
        limits: QueueLimits | None = None,
        crawler: SiteCrawler | None = None,
    ) -> None:
        self._db, self._sources, self._stages, self._limits = db, sources, stages, limits
        self._crawler = crawler or SiteCrawler(db, sources, stages, limits)

    async def refresh(self, job: Job) -> Outcome:
        """Bring the container's items up to date with its source."""
        work = RefreshContainer.of(job)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            base = await catalog.find_base(tx, work.base_id)
            item = await catalog.find_item(tx, work.item_id)
            if base is None or item is None:
                return Done()
            if not await catalog.is_expanded(tx, item.id):
                return Snooze(_LISTING_DELAY)
            if not await has_room(tx, base, self._limits):
                return pause_until_room("Checking the source continues")
        if item.error_code not in (None, "all_failed"):
            return await self._list_again(job, item)
        await faults.point("refresh_container.begun")
        try:
            counts = await self._compare(job, item)
        except Interrupted:
            return Done()
        except QueueFull:
            return pause_until_room("The crawl continues")
        except SiteBusy as busy:
            return Snooze(busy.wait, busy.reason)
        except WorkError as error:
            await self._record(job, item, None, error)
            return Done()
        if counts is None:
            return Snooze(timedelta(0))
        await self._record(job, item, counts, None)
        return Done()

    async def _list_again(self, job: Job, item: Item) -> Outcome:
        """Request a new listing of a container whose last one failed."""
        async with self._db.transaction() as tx:
            base = await catalog.lock_base(tx, item.base_id)
            await jobs.fence(tx, job)
            if base is not None:
                requested = await catalog.request_version(tx, [item.id], cause=job.id)
                await enqueue_next_jobs(tx, base, requested, Priority.BULK)
        await self._record(job, item, ChangeCounts(changed=1), None)
        return Done()

    async def _compare(self, job: Job, item: Item) -> ChangeCounts | None:
        """What was written; None if a crawl has more to do."""

        async def prove_lease(tx: Tx) -> bool:
            await jobs.fence(tx, job)
            return True

        if item.type == "directory":
            rules = await folder_rules(self._db, item)
            if rules is None:
                raise Interrupted
            writer = FolderWriter(self._db, item, prove_lease, job.id)
            return await FolderComparison(self._db, item, rules, self._sources.disk, writer).compare_all()
        if item.type == "site":
            result = await self._crawler.crawl(job, item, version=0)
            return None if result is None else result[0]
        with job.during(Activity.AWAY):
            async with self._stages.sources.place(jobs.requester(job)):
                listing = list_sitemap(item.source["url"], SitemapRules(private=self._sources.allow_private))
                return await SitemapPages(self._db, item, prove_lease, job.id).compare(listing)

    async def _record(
        self, job: Job, item: Item, counts: ChangeCounts | None, error: GristmillError | None
    ) -> None:
        """Note how the check ended and when the next one is due, and complete the job."""
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            schedule = (await refresh.find_refreshes(tx, [item.id])).get(item.id)
            if schedule is not None:
                now = await refresh.database_time(tx)
                due = DueItem.of(item, schedule)
                check = (
                    after_check(due, now, is_changed=counts is not None and counts.total > 0)
                    if error is None
                    else after_failure(due, now, error)
                )
                await refresh.run_checks_now(tx, [item.id])
                await refresh.record_checks(tx, [check])
            await jobs.complete(tx, job)
            await faults.point("refresh_container.before_commit")
