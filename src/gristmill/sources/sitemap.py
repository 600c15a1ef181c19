"""sitemap: the pages of a site, as its sitemaps list them, in batches.

    a sitemap                  its pages
    an index of sitemaps       the pages of each, to a depth of three
    the root of a site         the sitemaps that robots.txt names, else /sitemap.xml

    `left_out` counts what is left out, by reason:
    not_http, bad_url          an address that can't be fetched at all
    other_site                 neither on the host of the sitemap nor on the same host with `www.`
    duplicate                  listed before, by `normalise`
    disallowed                 excluded by robots.txt
    robots_unknown             on another site, whose robots.txt can't be fetched
    over_file_limit            after the 50,000th of its file
    over_limit                 after the limit of the rules
    gone_sitemap               a sitemap that is named, but does not exist: the others continue
    unreadable_sitemap         one that is malformed, or that we may not read: the others continue. `is_complete` is then
                               false, because pages that exist may be missing
    too_deep, unread_sitemap   a sitemap below the depth, or beyond the limits, that was not read

The sitemap that the caller asked for raises: SourceGone or Unreadable when it is none, Transient when it, one of its
sitemaps or the site's robots.txt can't be fetched now; a retry starts over. The pages of the other sitemaps are returned before
that, unless `MAX_OUTAGES` of them can't be fetched. Each file is downloaded completely before its entries are returned, so that a slow caller keeps no server waiting.
"""

import tempfile
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from typing import IO
from urllib.parse import urlsplit

import httpx

from gristmill import net
from gristmill.errors import Permanent, SourceGone, Transient, WorkError
from gristmill.sources import fetch, threads
from gristmill.sources.robots import Robots, fetch_robots
from gristmill.sources.sitemap_file import MAX_FILE_BYTES, SitemapEntry, SitemapFile
from gristmill.sources.url import normalise

BATCH = 500
MAX_DEPTH = 3
MAX_OUTAGES = 3

_CHUNK = 64 * 1024
_MAX_IN_MEMORY = 1024 * 1024
# Other sites that a sitemap may lead to: each costs a request for its robots.txt.
_MAX_ORIGINS = 100


@dataclass(frozen=True)
class SitemapRules:
    """Which pages are taken; `private` allows private networks, `timeout` is for one file."""

    limit: int = 50_000
    max_sitemaps: int = 1_000
    same_site: bool = True
    respect_robots: bool = True
    private: bool = False
    timeout: timedelta = timedelta(minutes=2)


class SitemapListing:
    """The pages of one sitemap: iterate once over the batches, then read `left_out` and `is_complete`."""

    def __init__(self, url: str, rules: SitemapRules) -> None:
        self.left_out: Counter[str] = Counter()
        self._url = url
        self._rules = rules
        self._page_count = 0
        self._seen: set[bytes] = set()
        self._sites: set[str] = set()
        self._robots: dict[str, Robots | None] = {}
        self._queue: deque[tuple[str, int]] = deque()
        self._guess = ""  # the sitemap that no one has named
        self._outages: list[Transient] = []

    async def __aiter__(self) -> AsyncIterator[list[SitemapEntry]]:
        batch: list[SitemapEntry] = []
        async with net.client(allow_private=self._rules.private) as client:
            await self._enqueue_roots(client)
            async with aclosing(self._list_pages(client)) as pages:
                async for entries in pages:
                    batch += entries
                    while len(batch) >= BATCH:
                        yield batch[:BATCH]
                        del batch[:BATCH]
        if batch:
            yield batch
        if self._outages:
            raise self._outages[0]

    async def _enqueue_roots(self, client: httpx.AsyncClient) -> None:
        url = normalise(self._url)
        self._sites.add(_site(url))
        urls = [url]
        if _is_root(url):
            self._robots[_origin(url)] = rules = await fetch_robots(client, _origin(url))
            # They may be on other hosts: the site's own robots.txt names them.
            urls = [
                sitemap_url
                for raw_url in rules.sitemaps
                if (sitemap_url := self._normalise_url(raw_url)) is not None
            ]
            if not urls:
                urls = [f"{_origin(url)}/sitemap.xml"]
                self._guess = urls[0]
        self._queue += [(address, 1) for address in dict.fromkeys(urls) if self._is_new(address)]

    async def _list_pages(self, client: httpx.AsyncClient) -> AsyncGenerator[list[SitemapEntry]]:
        read_count, root_count, failed_roots = 0, len(self._queue), 0
        while self._queue:
            url, depth = self._queue.popleft()
            if self._page_count >= self._rules.limit or read_count >= self._rules.max_sitemaps:
                self.left_out["unread_sitemap"] += 1 + len(self._queue)
                return
            read_count += 1
            try:
                async with aclosing(self._list_file(client, url, depth)) as pages:
                    async for entries in pages:
                        yield entries
            except Transient as error:
                self._outages.append(error)
                if root_count == 1 == depth or len(self._outages) == MAX_OUTAGES:
                    return
            except Permanent as error:
                # Many sites respond with a page, or forbid access, where they have no sitemap.
                is_gone = isinstance(error, SourceGone) or url == self._guess
                self.left_out["gone_sitemap" if is_gone else "unreadable_sitemap"] += 1
                failed_roots += depth == 1
                if failed_roots == root_count:  # then no root sitemap can be read
                    raise self._translate_error(error) from error

    @property
    def is_complete(self) -> bool:
        """Whether no sitemap is missing that may list pages."""
        return not self.left_out["unreadable_sitemap"]

    def _translate_error(self, error: Permanent) -> Permanent:
        if isinstance(error, SourceGone) and _is_root(normalise(self._url)):
            return SourceGone(
                f"{fetch.display_url(self._url)} has no sitemap, and its robots.txt names none.",
                code="no_sitemap",
            )
        return error

    async def _list_file(
        self, client: httpx.AsyncClient, url: str, depth: int
    ) -> AsyncGenerator[list[SitemapEntry]]:
        """The pages of one file; the sitemaps that an index lists are added to the queue."""
        file = SitemapFile(fetch.display_url(url))
        with tempfile.SpooledTemporaryFile[bytes](max_size=_MAX_IN_MEMORY) as spool:
            await self._download(client, url, depth, spool)
            while True:
                chunk = await threads.run_blocking(partial(spool.read, _CHUNK))
                entries = await threads.run_blocking(partial(file.feed, chunk) if chunk else file.end)
                if file.is_index:
                    self._enqueue(entries, depth + 1)
                elif pages := await self._filter_allowed_pages(client, entries):
                    yield pages
                if not chunk:
                    break
        self.left_out["over_file_limit"] += file.over_limit

    async def _download(self, client: httpx.AsyncClient, url: str, depth: int, spool: IO[bytes]) -> None:
        async with fetch.open_response(client, "GET", url, timeout=self._rules.timeout) as response:
            fetch.expect_success(response)
            async for piece in fetch.read_body(response, MAX_FILE_BYTES):
                await threads.run_blocking(partial(spool.write, piece))
            if depth == 1:  # a redirect of the root address leads to its site too
                self._sites.add(_site(str(response.url)))
        spool.seek(0)

    def _enqueue(self, entries: Sequence[SitemapEntry], depth: int) -> None:
        for entry in entries:
            if (url := self._new_url(entry.url)) is None:
                continue
            if depth > MAX_DEPTH:
                self.left_out["too_deep"] += 1
            else:
                self._queue.append((url, depth))

    async def _filter_allowed_pages(
        self, client: httpx.AsyncClient, entries: Sequence[SitemapEntry]
    ) -> list[SitemapEntry]:
        """The entries that may be taken, with normalised addresses."""
        pages = await threads.run_blocking(partial(self._new_entries, entries))
        if self._rules.respect_robots:
            for origin in {_origin(page.url) for page in pages} - self._robots.keys():
                await self._fetch_robots(client, origin)
            pages = await threads.run_blocking(partial(self._is_allowed_by_robots, pages))
        room = self._rules.limit - self._page_count
        self.left_out["over_limit"] += len(pages[room:])
        self._page_count += len(pages[:room])
        return pages[:room]

    def _new_entries(self, entries: Sequence[SitemapEntry]) -> list[SitemapEntry]:
        addresses = ((self._new_url(entry.url), entry.lastmod) for entry in entries)
        return [SitemapEntry(url, lastmod) for url, lastmod in addresses if url is not None]

    def _new_url(self, raw_url: str) -> str | None:
        """The normalised address; None for one on another site or seen before."""
        url = self._normalise_url(raw_url)
        if url is None:
            return None
        if self._rules.same_site and _site(url) not in self._sites:
            self.left_out["other_site"] += 1
            return None
        if not self._is_new(url):
            self.left_out["duplicate"] += 1
            return None
        return url

    def _normalise_url(self, raw_url: str) -> str | None:
        try:
            return normalise(raw_url)
        except Permanent:
            scheme = raw_url.partition(":")[0].lower()
            foreign = scheme.isalnum() and scheme not in ("http", "https") and ":" in raw_url
            self.left_out["not_http" if foreign else "bad_url"] += 1
            return None

    def _is_new(self, url: str) -> bool:
        # Sixteen bytes for an address, however long a hostile sitemap makes it.
        digest = blake2b(url.encode(), digest_size=16).digest()
        is_known = digest in self._seen
        self._seen.add(digest)
        return not is_known

    async def _fetch_robots(self, client: httpx.AsyncClient, origin: str) -> None:
        """Fetch the rules of `origin`; None for another site whose rules can't be fetched."""
        if _site(origin) in self._sites:
            self._robots[origin] = await fetch_robots(client, origin)
        elif len(self._robots) >= _MAX_ORIGINS:
            self._robots[origin] = None
        else:
            try:
                self._robots[origin] = await fetch_robots(client, origin)
            except WorkError:
                self._robots[origin] = None

    def _is_allowed_by_robots(self, pages: Sequence[SitemapEntry]) -> list[SitemapEntry]:
        allowed: list[SitemapEntry] = []
        for page in pages:
            rules = self._robots[_origin(page.url)]
            if rules is None:
                self.left_out["robots_unknown"] += 1
            elif not rules.allows(page.url):
                self.left_out["disallowed"] += 1
            else:
                allowed.append(page)
        return allowed


def list_sitemap(url: str, rules: SitemapRules) -> SitemapListing:
    """List the pages of the sitemap at `url`, or of the site if `url` is its root."""
    return SitemapListing(url, rules)


def _is_root(url: str) -> bool:
    parts = urlsplit(url)
    return parts.path == "/" and not parts.query


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _site(url: str) -> str:
    """The host without `www.`, and the port if it is not the default."""
    return urlsplit(url).netloc.lower().removeprefix("www.")
