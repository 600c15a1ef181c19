"""sitemap: the pages of a site, as its sitemaps list them, streamed in batches.

    a sitemap                  its pages
    an index of sitemaps       the pages of each, to a depth of three
    the root of a site         the sitemaps that robots.txt names, else /sitemap.xml

    what is left out is counted in `left_out`, by reason:
    not_http, bad_url          an address that can't be fetched at all
    other_site                 of neither the sitemap's host nor its `www.` twin
    duplicate                  listed already, by `normalise`
    disallowed                 robots.txt asks to leave it alone
    robots_unknown             of another site whose robots.txt can't be had
    over_file_limit            past the 50,000th of its file
    over_limit                 past the rules' limit
    unreadable_sitemap         a sitemap of an index that is gone or malformed: the others go on
    too_deep, unread_sitemap   a sitemap past the depth, or past the limits, that was not read

What is asked for itself raises: Gone or Unreadable when it is no sitemap, Transient when it, one of its sitemaps or
the site's robots.txt can't be had now; a retry starts over. Each file is on this machine before its entries are
given out: whoever takes long over a batch keeps no server waiting.
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
from gristmill.errors import Gone, Permanent, WorkError
from gristmill.sources import fetch, thread
from gristmill.sources.robots import Robots, robots
from gristmill.sources.sitemap_file import LONGEST_FILE, SitemapEntry, SitemapFile
from gristmill.sources.url import normalise

BATCH = 500
DEEPEST = 3

_CHUNK = 64 * 1024
_IN_MEMORY = 1024 * 1024
# Of sites that a sitemap of another one may lead to; each costs a request.
_MOST_ORIGINS = 100


@dataclass(frozen=True)
class SitemapRules:
    """What is taken of a sitemap; `private` allows private networks, `patience` is for one file."""

    limit: int = 50_000
    most_sitemaps: int = 1_000
    same_site: bool = True
    respect_robots: bool = True
    private: bool = False
    patience: timedelta = timedelta(minutes=2)


class SitemapListing:
    """The pages of one sitemap: iterate once for the batches, then look at `left_out`."""

    def __init__(self, url: str, rules: SitemapRules) -> None:
        self.left_out: Counter[str] = Counter()
        self._url = url
        self._rules = rules
        self._given = 0
        self._seen: set[bytes] = set()
        self._sites: set[str] = set()
        self._robots: dict[str, Robots | None] = {}
        self._waiting: deque[tuple[str, int]] = deque()

    async def __aiter__(self) -> AsyncIterator[list[SitemapEntry]]:
        batch: list[SitemapEntry] = []
        async with net.client(private=self._rules.private) as client:
            await self._begin(client)
            async with aclosing(self._pages(client)) as pages:
                async for found in pages:
                    batch += found
                    while len(batch) >= BATCH:
                        yield batch[:BATCH]
                        del batch[:BATCH]
        if batch:
            yield batch

    async def _begin(self, client: httpx.AsyncClient) -> None:
        url = normalise(self._url)
        self._sites.add(_site(url))
        named = [url]
        if _is_root(url):
            self._robots[_origin(url)] = found = await robots(client, _origin(url))
            # Also of other hosts: the site's own robots.txt vouches for them.
            named = [address for given in found.sitemaps if (address := self._address(given)) is not None]
            named = named or [f"{_origin(url)}/sitemap.xml"]
        self._waiting += [(address, 1) for address in dict.fromkeys(named) if self._is_new(address)]

    async def _pages(self, client: httpx.AsyncClient) -> AsyncGenerator[list[SitemapEntry]]:
        read, asked, failed = 0, len(self._waiting), 0
        while self._waiting:
            url, depth = self._waiting.popleft()
            if self._given >= self._rules.limit or read >= self._rules.most_sitemaps:
                self.left_out["unread_sitemap"] += 1 + len(self._waiting)
                return
            read += 1
            try:
                async with aclosing(self._file(client, url, depth)) as pages:
                    async for found in pages:
                        yield found
            except Permanent as error:
                failed += depth == 1
                if failed == asked:  # then nothing of what was asked for can be read
                    raise self._told(error) from error
                self.left_out["unreadable_sitemap"] += 1

    def _told(self, error: Permanent) -> Permanent:
        if isinstance(error, Gone) and _is_root(normalise(self._url)):
            return Gone(f"{fetch.shown(self._url)} names no sitemap and has none.", code="no_sitemap")
        return error

    async def _file(
        self, client: httpx.AsyncClient, url: str, depth: int
    ) -> AsyncGenerator[list[SitemapEntry]]:
        """The pages of one file; the sitemaps that an index lists are put in the queue."""
        file = SitemapFile(fetch.shown(url))
        with tempfile.SpooledTemporaryFile[bytes](max_size=_IN_MEMORY) as spool:
            await self._download(client, url, depth, spool)
            while True:
                chunk = await thread.run(partial(spool.read, _CHUNK))
                found = await thread.run(partial(file.feed, chunk) if chunk else file.end)
                if file.is_index:
                    self._enqueue(found, depth + 1)
                elif pages := await self._sifted(client, found):
                    yield pages
                if not chunk:
                    break
        self.left_out["over_file_limit"] += file.over_limit

    async def _download(self, client: httpx.AsyncClient, url: str, depth: int, spool: IO[bytes]) -> None:
        async with fetch.answer(client, "GET", url, within=self._rules.patience) as response:
            fetch.expect_success(response)
            async for piece in fetch.body(response, LONGEST_FILE):
                await thread.run(partial(spool.write, piece))
            if depth == 1:  # where the address that was asked for leads is its site too
                self._sites.add(_site(str(response.url)))
        spool.seek(0)

    def _enqueue(self, found: Sequence[SitemapEntry], depth: int) -> None:
        for entry in found:
            if (url := self._candidate(entry.url)) is None:
                continue
            if depth > DEEPEST:
                self.left_out["too_deep"] += 1
            else:
                self._waiting.append((url, depth))

    async def _sifted(self, client: httpx.AsyncClient, found: Sequence[SitemapEntry]) -> list[SitemapEntry]:
        """What of `found` may be taken, in its normal form."""
        pages = await thread.run(partial(self._candidates, found))
        if self._rules.respect_robots:
            for origin in {_origin(page.url) for page in pages} - self._robots.keys():
                await self._learn(client, origin)
            pages = await thread.run(partial(self._allowed, pages))
        room = self._rules.limit - self._given
        self.left_out["over_limit"] += len(pages[room:])
        self._given += len(pages[:room])
        return pages[:room]

    def _candidates(self, found: Sequence[SitemapEntry]) -> list[SitemapEntry]:
        addresses = ((self._candidate(entry.url), entry.lastmod) for entry in found)
        return [SitemapEntry(url, lastmod) for url, lastmod in addresses if url is not None]

    def _candidate(self, given: str) -> str | None:
        """The address in its normal form, unless it is left out for what it is."""
        url = self._address(given)
        if url is None:
            return None
        if self._rules.same_site and _site(url) not in self._sites:
            self.left_out["other_site"] += 1
            return None
        if not self._is_new(url):
            self.left_out["duplicate"] += 1
            return None
        return url

    def _address(self, given: str) -> str | None:
        try:
            return normalise(given)
        except Permanent:
            scheme = given.partition(":")[0].lower()
            foreign = scheme.isalnum() and scheme not in ("http", "https") and ":" in given
            self.left_out["not_http" if foreign else "bad_url"] += 1
            return None

    def _is_new(self, url: str) -> bool:
        # Sixteen bytes an address, however long a hostile sitemap makes them.
        mark = blake2b(url.encode(), digest_size=16).digest()
        known = mark in self._seen
        self._seen.add(mark)
        return not known

    async def _learn(self, client: httpx.AsyncClient, origin: str) -> None:
        """Fetch the rules of `origin`; None stands for those of another site that can't be had."""
        if _site(origin) in self._sites:
            self._robots[origin] = await robots(client, origin)
        elif len(self._robots) >= _MOST_ORIGINS:
            self._robots[origin] = None
        else:
            try:
                self._robots[origin] = await robots(client, origin)
            except WorkError:
                self._robots[origin] = None

    def _allowed(self, pages: Sequence[SitemapEntry]) -> list[SitemapEntry]:
        allowed: list[SitemapEntry] = []
        for page in pages:
            rules = self._robots[_origin(page.url)]
            if rules is None:
                self.left_out["robots_unknown"] += 1
            elif not rules.allow(page.url):
                self.left_out["disallowed"] += 1
            else:
                allowed.append(page)
        return allowed


def list_sitemap(url: str, rules: SitemapRules) -> SitemapListing:
    """The pages that the sitemap at `url` lists, or the site whose root it is."""
    return SitemapListing(url, rules)


def _is_root(url: str) -> bool:
    parts = urlsplit(url)
    return parts.path == "/" and not parts.query


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _site(url: str) -> str:
    """The host without its `www.`, and the port if it is not the usual one."""
    return urlsplit(url).netloc.lower().removeprefix("www.")
