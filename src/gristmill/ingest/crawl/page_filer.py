"""Write what a crawl found: a batch of pages in one transaction, with the addresses that they lead to; at the end, removals.

    first crawl, reindex    every page gets a new version
    check by schedule       new pages are filed, changed ones get a new version; nothing else of the base is written

New and changed pages are filed with the bytes that were fetched, so that indexing does not fetch them again. Bytes are stored before
the transaction. Killed before it: the same addresses are fetched again. Killed after it: they are done.

If a check finds most of the pages gone (`is_mass_removal`), the site more likely has a problem: nothing is removed, and the item
shows `mass_removal` until a check finds fewer of them gone, or someone reindexes the site.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gristmill import catalog, contents, events, faults, jobs
from gristmill.catalog import Base, Item, ItemId, crawls, exclusions
from gristmill.catalog.crawls import CrawledPage, MetAddress, PageBytes, SiteCrawlRow
from gristmill.db import Database, Tx
from gristmill.errors import Permanent, Transient
from gristmill.ingest.source_changes import ChangeCounts, Interrupted, is_mass_removal
from gristmill.jobs import Job, Priority
from gristmill.operations.delete import mark_for_deletion
from gristmill.operations.next_job import enqueue_next_jobs, record_filed_events
from gristmill.operations.quotas import fail_beyond_quota
from gristmill.sources import Original

_REMOVAL_BATCH = 500


@dataclass(frozen=True)
class PageToFile:
    """A page that is new or has changed: its bytes as they are in the store, and its item if it has one."""

    url: str
    item_id: ItemId | None
    blob: bytes
    original: Original

    def response_fields(self) -> dict[str, object]:
        """What the server declared about the bytes."""
        return {
            "name": self.original.name,
            "mediaType": self.original.media_type,
            "charset": self.original.charset,
            "validators": dict(self.original.metadata),
        }


@dataclass(frozen=True)
class CrawlBatch:
    """What the requests of a batch found. `requests` is how many count, of those that a crawl may send."""

    pages: Sequence[CrawledPage]
    to_file: Sequence[PageToFile]
    met: Sequence[MetAddress]
    new_sites: Sequence[str]
    requests: int


class PageFiler:
    """Writes what one crawl finds, while its job has the lease."""

    def __init__(self, db: Database, job: Job, site: Item, crawl: SiteCrawlRow) -> None:
        self._db, self._job, self._site, self._crawl = db, job, site, crawl

    async def record(self, batch: CrawlBatch) -> ChangeCounts:
        """Write a batch."""
        counts = ChangeCounts()
        async with self._db.transaction() as tx:
            if batch.to_file or self._crawl.version:
                base, site = await self._lock(tx)
                counts = await self._file(tx, base, site, batch.to_file)
            else:
                await jobs.fence(tx, self._job)
            await crawls.record_pages(tx, self._crawl, batch.pages)
            addresses = await crawls.meet_addresses(tx, self._crawl, batch.met)
            await crawls.advance_crawl(
                tx,
                self._site.id,
                requests=batch.requests,
                pages=sum(1 for page in batch.pages if page.is_done and page.state == "page"),
                addresses=addresses,
                sites=batch.new_sites,
            )
            await jobs.reset_attempts(tx, [self._job])
            await faults.point("crawl.before_commit")
        return counts

    async def meet(
        self, addresses: Sequence[MetAddress], *, is_seeded: bool = False, is_incomplete: bool = False
    ) -> None:
        """Note addresses of sitemaps; or that all of them are noted, or that some can't be seen."""
        async with self._db.transaction() as tx:
            await jobs.fence(tx, self._job)
            count = await crawls.meet_addresses(tx, self._crawl, addresses)
            await crawls.advance_crawl(
                tx, self._site.id, addresses=count, is_seeded=is_seeded, is_incomplete=is_incomplete
            )

    async def remove_gone(self, *, is_complete: bool) -> ChangeCounts:
        """Remove pages that the site no longer has. Raises Permanent `mass_removal` if a check finds too many of them."""
        async with self._db.connection() as tx:
            gone = await crawls.find_gone_pages(tx, self._crawl, is_complete=is_complete)
            filed = await crawls.count_filed_pages(tx, self._site.id)
            crawl = await crawls.find_crawl(tx, self._site.id)
        if not self._crawl.version and is_mass_removal(len(gone), filed, 0 if crawl is None else crawl.pages):
            await self._end(is_complete=False)
            raise Permanent(
                f"{len(gone):,} of {filed:,} pages are gone from the site. Nothing was removed. If that is right, reindex the"
                " item to remove them.",
                code="mass_removal",
            )
        for start in range(0, len(gone), _REMOVAL_BATCH):
            async with self._db.transaction() as tx:
                base, _ = await self._lock(tx)
                await mark_for_deletion(tx, base, gone[start : start + _REMOVAL_BATCH])
                await events.announce_ready(tx, [base.id])
                await faults.point("crawl.removed")
        await self._end(is_complete=is_complete)
        return ChangeCounts(removed=len(gone))

    async def _end(self, *, is_complete: bool) -> None:
        async with self._db.transaction() as tx:
            await jobs.fence(tx, self._job)
            left_out = await crawls.count_left_out(tx, self._crawl)
            left_out.pop("other_site", None)  # it belongs to no one's expectations
            await crawls.finish_crawl(tx, self._crawl, left_out, is_complete=is_complete)
            await faults.point("crawl.finished")

    async def _lock(self, tx: Tx) -> tuple[Base, Item]:
        base = await catalog.lock_base(tx, self._site.base_id)
        await jobs.fence(tx, self._job)
        site = await catalog.find_item(tx, self._site.id)
        version = self._crawl.version
        if base is None or site is None or (version and not await catalog.is_wanted(tx, site.id, version)):
            raise Interrupted
        if version:
            await catalog.begin_listing(tx, site.id, version)
        return base, site

    async def _file(self, tx: Tx, base: Base, site: Item, pages: Sequence[PageToFile]) -> ChangeCounts:
        if not await contents.lock_blobs_shared(tx, [page.blob for page in pages]):
            raise Transient(
                "An equal page was being deleted at the same moment. It is fetched again.", code="upload_lost"
            )
        top = await exclusions.top_container(tx, site.id) or site.id
        excluded = await exclusions.find_excluded(tx, top, [("url", page.url) for page in pages])
        wanted = [page for place, page in enumerate(pages) if place not in excluded]
        items = [catalog.new_page(page.url) for page in wanted]
        existing = await catalog.find_existing(tx, base.id, site.id, items)
        known = [(existing[place], items[place]) for place in sorted(existing)]
        if self._crawl.version:
            version = self._crawl.version
            requested = await catalog.request_listed_versions(
                tx, [(item_id, item, version) for item_id, item in known]
            )
        else:
            requested = await catalog.request_changed_versions(tx, known, self._job.id)
        new = [item for place, item in enumerate(items) if place not in existing]
        inserted = await catalog.insert_items(
            tx,
            base.id,
            site.id,
            await fail_beyond_quota(tx, base.id, new),
            listed_version=site.wanted_version,
            cause=None if self._crawl.version else self._job.id,
        )
        await self._hand_over(tx, wanted, [*requested, *inserted])
        await record_filed_events(tx, inserted)
        priority = Priority.NORMAL if self._crawl.version else Priority.BULK
        await enqueue_next_jobs(tx, base, [*requested, *inserted], priority)
        await catalog.derive_statuses_above(tx, [item.id for item in [*requested, *inserted][:1]])
        return ChangeCounts(added=len(inserted), changed=len(requested))

    async def _hand_over(self, tx: Tx, pages: Sequence[PageToFile], items: Sequence[Item]) -> None:
        by_url = {page.url: page for page in pages}
        await crawls.hand_over_pages(
            tx,
            [
                PageBytes(item.id, page.blob, len(page.original.data), page.response_fields())
                for item in items
                for page in (by_url[item.source["url"]],)
            ],
        )
