"""Compare the pages that a sitemap lists with those that are filed: what is new is filed, what is gone is deleted, the rest stays.

Pages have their own checks (`documents.py`), so a listing touches none that it finds again. Pages that are gone are removed last.
If most of the pages are gone at once (`is_mass_removal`), the site more likely has a problem: nothing is removed, and the item shows `mass_removal` until a check finds fewer of them gone, or someone reindexes the sitemap. Nor is anything removed
while one of the files that a sitemap consists of can't be read: what only that file lists is not gone (`sitemap_incomplete`).
"""

from collections.abc import Sequence

from gristmill import catalog, events, faults
from gristmill.catalog import Item, exclusions, folder_tree
from gristmill.db import Database
from gristmill.errors import Permanent
from gristmill.ingest.refresh.folder_changes import Guard
from gristmill.ingest.source_changes import ChangeCounts, Interrupted, is_mass_removal
from gristmill.jobs import JobId, Priority
from gristmill.operations.delete import mark_for_deletion
from gristmill.operations.freshness import begin_refreshing_pages
from gristmill.operations.next_job import enqueue_next_jobs, record_filed_events
from gristmill.operations.quotas import fail_beyond_quota
from gristmill.sources.sitemap import SitemapListing

_BATCH = 500


class SitemapPages:
    """The pages of one sitemap or site."""

    def __init__(self, db: Database, container: Item, guard: Guard, cause: JobId) -> None:
        self._db, self._container, self._guard, self._cause = db, container, guard, cause

    async def compare(self, listing: SitemapListing) -> ChangeCounts:
        """File new pages as they are listed, then remove those that are gone."""
        async with self._db.connection() as tx:
            children = await folder_tree.find_listed_children(tx, [self._container.id])
        filed = {child.source_key: child.id for child in children if child.type == "url"}
        listed: set[str] = set()
        counts = ChangeCounts()
        async for entries in listing:
            urls = [entry.url for entry in entries]
            listed.update(urls)
            new = [url for url in urls if url not in filed]
            for start in range(0, len(new), _BATCH):
                counts.added += await self._file(new[start : start + _BATCH])
        if not listing.is_complete:
            raise Permanent(
                f"{listing.left_out['unreadable_sitemap']:,} of the files of this sitemap can't be read: new pages of the others were"
                " added, nothing was removed. It is checked again soon.",
                code="sitemap_incomplete",
            )
        gone = [item_id for url, item_id in filed.items() if url not in listed]
        if is_mass_removal(len(gone), len(filed), len(listed)):
            raise Permanent(
                f"{len(gone):,} of {len(filed):,} pages are no longer listed. Nothing was removed. If that is right, reindex the"
                " item to remove them.",
                code="mass_removal",
            )
        for start in range(0, len(gone), _BATCH):
            removed = gone[start : start + _BATCH]
            async with self._db.transaction() as tx:
                base = await catalog.lock_base(tx, self._container.base_id)
                if base is None or not await self._guard(tx):
                    raise Interrupted
                await mark_for_deletion(tx, base, removed)
                await events.announce_ready(tx, [base.id])
            counts.removed += len(removed)
        return counts

    async def _file(self, urls: Sequence[str]) -> int:
        async with self._db.transaction() as tx:
            base = await catalog.lock_base(tx, self._container.base_id)
            if base is None or not await self._guard(tx):
                raise Interrupted
            container = await catalog.find_item(tx, self._container.id)
            if container is None:
                raise Interrupted
            places = await exclusions.find_excluded(tx, container.id, [("url", url) for url in urls])
            pages = [catalog.new_page(url) for place, url in enumerate(urls) if place not in places]
            existing = await catalog.find_existing(tx, base.id, container.id, pages)
            pages = [page for place, page in enumerate(pages) if place not in existing]
            pages = await fail_beyond_quota(tx, base.id, pages)
            items = await catalog.insert_items(
                tx, base.id, container.id, pages, listed_version=container.wanted_version, cause=self._cause
            )
            await begin_refreshing_pages(tx, base, container, items)
            await record_filed_events(tx, items)
            await enqueue_next_jobs(tx, base, items, Priority.BULK)
            await catalog.derive_statuses_above(tx, [item.id for item in items[:1]])
            await faults.point("page_list.before_commit")
        return len(items)
