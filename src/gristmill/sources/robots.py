"""robots: which pages a site asks crawlers to leave alone, and where its sitemaps are (RFC 9309).

2xx                         its rules, from the first 512 KiB
a redirect                  the rules where it leads, to other hosts too; after five, no rules
404 and any other 4xx       no rules: everything is allowed
429, 5xx, no response       Transient: what is allowed is unknown, so nothing is fetched yet

A redirect to a private address leads to no rules either, where those are not allowed.
"""

from datetime import timedelta

import httpx
from protego import Protego

from gristmill.errors import SourceGone, Unreadable
from gristmill.net import USER_AGENT, PrivateAddress
from gristmill.sources import fetch

# RFC 9309 asks crawlers to read at least this much.
_MAX_BYTES = 512 * 1024
# And to follow at least so many redirects.
_MAX_REDIRECTS = 5
_TIMEOUT = timedelta(seconds=30)
_MAX_DELAY = 60.0  # seconds


class Robots:
    """The rules of one origin."""

    def __init__(self, text: str) -> None:
        self._rules = Protego.parse(text)

    def allows(self, url: str) -> bool:
        """Whether `url`, a page of this origin, may be fetched."""
        return self._rules.can_fetch(url, USER_AGENT)

    @property
    def crawl_delay(self) -> timedelta:
        """How long it asks crawlers to wait between two requests."""
        return timedelta(seconds=min(float(self._rules.crawl_delay(USER_AGENT) or 0), _MAX_DELAY))

    @property
    def sitemaps(self) -> list[str]:
        """The addresses in its `Sitemap:` lines, unchanged."""
        return list(self._rules.sitemaps)


async def fetch_robots(client: httpx.AsyncClient, origin: str) -> Robots:
    """Fetch the rules of the site at `origin`, a scheme and a host."""
    first_url = url = f"{origin}/robots.txt"
    try:
        for _ in range(_MAX_REDIRECTS + 1):
            async with fetch.open_response(
                client, "GET", url, timeout=_TIMEOUT, follow_redirects=False
            ) as response:
                if response.next_request is None:
                    return await _read_rules(response)
                url = str(response.next_request.url)
    except (SourceGone, Unreadable):
        pass
    except PrivateAddress:
        if url == first_url:
            raise
    return Robots("")


async def _read_rules(response: httpx.Response) -> Robots:
    fetch.expect_success(response)
    text = bytearray()
    async for piece in fetch.read_body(response, limit=2 * _MAX_BYTES):
        text += piece
        if len(text) >= _MAX_BYTES:
            break
    return Robots(text[:_MAX_BYTES].decode("utf-8-sig", "replace"))
