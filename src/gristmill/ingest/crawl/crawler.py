"""Crawl a web site: from its start page and its sitemaps, by links, nearest pages first.

    begin      the crawl that is running for this version goes on; else the next one starts
    seed       robots.txt, then the sitemaps that it names, or /sitemap.xml
    a batch    choose waiting addresses → fetch them, a few at a time, each in its host's turn → decide what they are → one
               transaction: pages filed, addresses met, progress
    end        when no address waits, or a limit is reached: remove what is gone

After `SLICE` the job returns to the queue, so that other work of the base has its turn. While requests are under way it uses no slot
of its worker. All progress is in the tables: after a kill, at most one batch is fetched again.

If every request of a batch fails in a way that may pass, the start page is fetched: if that fails too, the site has an outage, and
the crawl waits as it is. A start page that can't be had at all ends the crawl with its error; nothing is removed. If a site asks for
fewer requests (429, 503) while other pages respond, the crawl pauses for as long as it asks, and fetches these pages later.
"""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

import httpx

from gristmill import catalog, faults, jobs, net
from gristmill.catalog import Item, RenderChoice, crawls, exclusions
from gristmill.catalog.crawls import MetAddress, SiteCrawlRow, WaitingPage
from gristmill.db import Database
from gristmill.errors import LeaseLost, Permanent, Transient, WorkError
from gristmill.identity import OrgId, scoped_digest
from gristmill.ingest.crawl.decide import PageDecision, can_be_unchanged, decide, decide_error, is_busy
from gristmill.ingest.crawl.host_turns import HostTurns
from gristmill.ingest.crawl.page_filer import CrawlBatch, PageFiler, PageToFile
from gristmill.ingest.render import create_renderer
from gristmill.ingest.source_changes import ChangeCounts, Interrupted
from gristmill.ingest.stages import Stages
from gristmill.jobs import Activity, Job, QueueLimits
from gristmill.operations import uploads
from gristmill.operations.next_job import has_room
from gristmill.operations.source_factory import MAX_PAGE_BYTES, SourceFactory
from gristmill.sources import Original, fetch, threads
from gristmill.sources.rendering.renderer import DIGEST
from gristmill.sources.robots import Robots, fetch_robots
from gristmill.sources.site_fetch import FetchedAddress, as_page, fetch_address
from gristmill.sources.site_rules import MAX_VARIANTS, SiteRules, crawl_address, origin_of, site_of
from gristmill.sources.sitemap import SitemapRules, list_sitemap

BATCH = 16
SLICE = timedelta(minutes=1)
_TOGETHER = 4  # requests at the same time
_SLOW_HOST = timedelta(seconds=1)
_PATIENCE = timedelta(minutes=10)
_BUSY_PAUSE = timedelta(seconds=30)  # if the site does not say how long


class QueueFull(Exception):
    """The base's queue has no room for more pages: the crawl pauses."""


class SiteBusy(Exception):
    """The site asks for fewer requests: the crawl pauses. `reason` is its response."""

    def __init__(self, reason: Transient) -> None:
        super().__init__(reason.message)
        self.reason, self.wait = reason, reason.retry_after or _BUSY_PAUSE


@dataclass
class _CrawlSlice:
    """One slice of a crawl."""

    job: Job
    site: Item
    org: OrgId
    rules: SiteRules
    crawl: SiteCrawlRow
    filer: PageFiler
    client: httpx.AsyncClient
    render: RenderChoice
    robots: dict[str, Robots] = field(default_factory=dict[str, Robots])
    counts: ChangeCounts = field(default_factory=ChangeCounts)
    excluded: set[str] = field(default_factory=set[str])  # of the batch: what people deleted


class SiteCrawler:
    """Crawls sites. `delay` is the shortest time between two requests to a host."""

    def __init__(
        self,
        db: Database,
        sources: SourceFactory,
        stages: Stages,
        limits: QueueLimits | None = None,
        delay: timedelta = timedelta(0),
    ) -> None:
        self._db, self._sources, self._stages, self._limits = db, sources, stages, limits
        self._delay, self._turns = delay, HostTurns(db)
        self._renderer = create_renderer(sources, stages)

    async def crawl(self, job: Job, site: Item, version: int) -> tuple[ChangeCounts, Counter[str]] | None:
        """Crawl for at most a slice: what was written and left out, or None if there is more to do. `version` is that of the item
        which the crawl lists, 0 for a check by schedule."""
        rules = SiteRules.of(site.source)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            base = await catalog.find_base(tx, site.base_id)
            if base is None:
                raise Interrupted
            crawl = await crawls.find_crawl(tx, site.id)
            if version and crawl is not None and crawl.version == version and not crawl.is_running:
                return ChangeCounts(), Counter(crawl.left_out)
            if crawl is None or not crawl.is_running or crawl.version != version:
                start = crawl_address(rules.start, rules.start) or rules.start
                crawl = await crawls.start_crawl(tx, site.id, version, [site_of(start)])
                await crawls.meet_addresses(tx, crawl, [MetAddress(start, 0)])
        filer = PageFiler(self._db, job, site, crawl)
        async with net.client(allow_private=self._sources.allow_private) as client:
            client.follow_redirects = False
            render = site.source.get("render") or base.render
            run = _CrawlSlice(job, site, base.org_id, rules, crawl, filer, client, render)
            with job.during(Activity.AWAY):
                return await self._run_slice(run)

    async def _run_slice(self, run: _CrawlSlice) -> tuple[ChangeCounts, Counter[str]] | None:
        deadline = time.monotonic() + SLICE.total_seconds()
        await self._find_robots(run, run.rules.start)
        await self._seed(run)
        while True:
            async with self._db.connection() as tx:
                run.crawl = await crawls.find_crawl(tx, run.site.id) or run.crawl
                base = await catalog.find_base(tx, run.site.base_id)
                pages = await crawls.find_waiting_pages(
                    tx, run.site.base_id, run.crawl, self._batch_size(run)
                )
                addresses = [("url", page.url) for page in pages]
                places = await exclusions.find_excluded(tx, run.site.id, addresses)
                run.excluded = {pages[place].url for place in places}
                if base is None:
                    raise Interrupted
                if not await has_room(tx, base, self._limits):
                    raise QueueFull
            is_over_limit = (
                run.crawl.pages >= run.rules.max_pages or run.crawl.requests >= run.rules.max_requests
            )
            if not pages or is_over_limit:
                async with self._db.transaction() as tx:
                    await jobs.fence(tx, run.job)
                    requeued = 0 if is_over_limit else await crawls.requeue_aliases(tx, run.crawl)
                if requeued:
                    continue
                break
            await self._crawl_batch(run, pages[: max(1, run.rules.max_pages - run.crawl.pages)])
            if time.monotonic() > deadline:
                return None
        has_room_left = run.crawl.addresses < run.rules.max_addresses
        is_complete = run.crawl.is_complete and has_room_left and not (is_over_limit and pages)
        run.counts.add(await run.filer.remove_gone(is_complete=is_complete))
        async with self._db.connection() as tx:
            ended = await crawls.find_crawl(tx, run.site.id)
        return run.counts, Counter(ended.left_out if ended else {})

    def _batch_size(self, run: _CrawlSlice) -> int:
        delays = [self._delay, *(robots.crawl_delay for robots in run.robots.values())]
        return _TOGETHER if max(delays) >= _SLOW_HOST else BATCH

    # ── seeds ────────────────────────────────────────────────────────────────────────────────────────────

    async def _seed(self, run: _CrawlSlice) -> None:
        """Meet the pages that sitemaps list. A site without one is crawled by its links alone."""
        if run.crawl.is_seeded:
            return
        is_incomplete = False
        if run.rules.use_sitemaps:
            rules = SitemapRules(limit=run.rules.max_addresses, private=self._sources.allow_private)
            listing = list_sitemap(f"{origin_of(run.rules.start)}/", rules)
            try:
                async for entries in listing:
                    addresses = [
                        (url, 1)
                        for entry in entries
                        if (url := crawl_address(entry.url, entry.url)) is not None
                    ]
                    await run.filer.meet(await self._judge(run, addresses, sites=run.crawl.sites))
            except Transient:
                is_incomplete = True  # links are enough to go on, but not to remove what only sitemaps list
            except LeaseLost:
                raise
            except WorkError:
                pass  # none of its sitemaps can be read
            is_incomplete = is_incomplete or not listing.is_complete
        await run.filer.meet([], is_seeded=True, is_incomplete=is_incomplete)
        await faults.point("crawl.seeded")

    async def _find_robots(self, run: _CrawlSlice, url: str) -> Robots:
        """The rules of an address's host; its turns follow them."""
        origin = origin_of(url)
        if (robots := run.robots.get(origin)) is None:
            run.robots[origin] = robots = await fetch_robots(run.client, origin)
            async with self._db.transaction() as tx:
                delay = max(self._delay, robots.crawl_delay)
                await crawls.set_host_delay(tx, origin.partition("://")[2], delay)
        return robots

    # ── a batch ──────────────────────────────────────────────────────────────────────────────────────────

    async def _crawl_batch(self, run: _CrawlSlice, pages: Sequence[WaitingPage]) -> None:
        for page in pages:
            if page.depth == 0 and not (await self._find_robots(run, page.url)).allows(page.url):
                raise Permanent(
                    f"The robots.txt of {site_of(page.url)} asks crawlers to leave {fetch.display_url(page.url)} alone. Choose another"
                    " start page, or add single pages.",
                    code="disallowed_by_robots",
                )
        gate = asyncio.Semaphore(_TOGETHER)
        async with asyncio.TaskGroup() as tasks:
            requests = [tasks.create_task(self._fetch(run, page, gate)) for page in pages]
        results = [request.result() for request in requests]
        await self._raise_outage(run, pages, results)
        is_limited = any(not isinstance(result, Transient) for result in results)
        busy = [result for result in results if is_limited and is_busy(result)]
        decisions: list[PageDecision] = []
        to_file: list[PageToFile] = []
        for page, result in zip(pages, results, strict=True):
            if isinstance(result, WorkError):
                decisions.append(decide_error(page, result, is_limited=is_limited))
                continue
            sites = {*run.crawl.sites, *_new_sites(page, result)}
            decision = decide(page, result, run.rules, sites)
            if decision.page.state == "page" and result.original is not None:
                decision, page_to_file = await self._prepare_page(run, page, decision, result.original)
                to_file += [page_to_file] if page_to_file is not None else []
            decisions.append(decision)
        new_sites = [
            site
            for page, result in zip(pages, results, strict=True)
            if not isinstance(result, WorkError)
            for site in _new_sites(page, result)
        ]
        addresses = [address for decision in decisions for address in decision.next_addresses]
        met = await self._judge(run, addresses, sites={*run.crawl.sites, *new_sites})
        pages_read = [decision.page for decision in decisions]
        await faults.point("crawl.fetched")
        requests = len(pages) - len(busy)
        run.counts.add(await run.filer.record(CrawlBatch(pages_read, to_file, met, new_sites, requests)))
        waits = [SiteBusy(result) for result in busy if isinstance(result, Transient)]
        if waits:
            raise max(waits, key=lambda busy_site: busy_site.wait)

    async def _fetch(
        self, run: _CrawlSlice, page: WaitingPage, gate: asyncio.Semaphore
    ) -> FetchedAddress | WorkError:
        is_excluded = page.url in run.excluded and page.state == "page"
        is_conditional = not run.crawl.version and (is_excluded or can_be_unchanged(page))
        if run.render == "always" and DIGEST not in page.validators:
            is_conditional = False  # the server only knows about the page as it sends it
        limit = min(self._sources.limit, MAX_PAGE_BYTES)
        try:
            async with gate:
                await self._turns.wait(page.url, _PATIENCE)
                async with self._stages.sources.place(jobs.requester(run.job)):
                    fetched = await fetch_address(
                        run.client, page.url, page.validators if is_conditional else {}, limit
                    )
                return await self._render(run, page, fetched)
        except WorkError as error:
            return error

    async def _render(self, run: _CrawlSlice, page: WaitingPage, fetched: FetchedAddress) -> FetchedAddress:
        """The page as a browser has it, if it is to be rendered. Holds no place of another stage."""
        original = fetched.original
        if original is None or not await self._renderer.must_render(original, run.render):
            return fetched
        allows = (await self._find_robots(run, page.url)).allows
        rendered = await self._renderer.render(original, page.url, jobs.requester(run.job), allows)
        if rendered.original is None:
            return FetchedAddress("redirect", location=crawl_address(rendered.location or "", page.url))
        return await as_page(rendered.original, page.url, fetched.headers)

    async def _raise_outage(
        self, run: _CrawlSlice, pages: Sequence[WaitingPage], results: Sequence[FetchedAddress | WorkError]
    ) -> None:
        """Raise the error of a site that can't be reached now, or of a start page that can't be had."""
        for page, result in zip(pages, results, strict=True):
            if page.depth == 0 and isinstance(result, WorkError):
                raise result
        if any(not isinstance(result, Transient) for result in results):
            return
        try:
            await self._turns.wait(run.rules.start, _PATIENCE)
            await fetch_address(run.client, run.rules.start, {}, min(self._sources.limit, MAX_PAGE_BYTES))
        except Permanent:
            return  # it answers

    async def _prepare_page(
        self, run: _CrawlSlice, page: WaitingPage, decision: PageDecision, original: Original
    ) -> tuple[PageDecision, PageToFile | None]:
        """The page with its digest; and the page to file, if the base does not have it like this."""
        hashed = await threads.run_blocking(partial(hashlib.sha256, original.data))
        digest = scoped_digest(run.org, hashed.digest())
        decision = replace(decision, page=replace(decision.page, digest=digest))
        is_same_text = original.metadata.get(DIGEST, "") == page.validators.get(DIGEST)
        # What failed to be indexed counts, too: a page may be again as it was before that.
        is_same = page.item_id is not None and (digest == (page.digest or page.original) or is_same_text)
        if (is_same and not run.crawl.version) or page.url in run.excluded:
            return decision, None

        async def data_stream() -> AsyncGenerator[bytes]:
            yield original.data

        blob = await uploads.store_upload(self._db, self._sources.blobs, data_stream, org=run.org)
        return decision, PageToFile(page.url, page.item_id, blob.hash, original)

    # ── addresses ────────────────────────────────────────────────────────────────────────────────────────

    async def _judge(
        self, run: _CrawlSlice, addresses: Sequence[tuple[str, int]], sites: set[str] | list[str]
    ) -> list[MetAddress]:
        """Which of the addresses are fetched, and why others are not. Those of other sites are dropped, and those beyond the limit
        of what a crawl remembers."""
        room = run.rules.max_addresses - run.crawl.addresses
        nearest: dict[str, int] = {}
        for url, depth in addresses:
            nearest[url] = min(depth, nearest.get(url, depth))
        met: list[MetAddress] = []
        for url, depth in list(nearest.items())[: max(0, room)]:
            reason = run.rules.reason_to_leave_out(url, depth, sites)
            if depth == 0 and reason == "excluded":
                reason = None  # where the start page redirects to
            if reason == "other_site":
                continue
            if reason is None and not (await self._find_robots(run, url)).allows(url):
                reason = "disallowed"
            met.append(MetAddress(url, depth, reason))
        return await self._bound_variants(run, met)

    async def _bound_variants(self, run: _CrawlSlice, met: Sequence[MetAddress]) -> list[MetAddress]:
        """Leave out further addresses of a path that has very many, each with another query: calendars, filters, sorted lists."""
        paths = {address.url.partition("?")[0] for address in met if "?" in address.url}
        if not paths:
            return list(met)
        async with self._db.connection() as tx:
            counts = Counter(await crawls.count_variants(tx, run.crawl, sorted(paths)))
        bounded: list[MetAddress] = []
        for address in met:
            path, mark, _ = address.url.partition("?")
            if mark and address.reason is None:
                counts[path] += 1
                if counts[path] > MAX_VARIANTS:
                    address = replace(address, reason="trap")
            bounded.append(address)
        return bounded


def _new_sites(page: WaitingPage, result: FetchedAddress) -> list[str]:
    """The site that the start page redirects to belongs to the crawl."""
    if page.depth == 0 and result.kind == "redirect" and result.location is not None:
        return [site_of(result.location)]
    return []
