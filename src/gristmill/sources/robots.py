"""robots: which pages a site asks crawlers to leave alone, and where its sitemaps are (RFC 9309).

2xx                         its rules, from the first 512 KiB
404 and any other 4xx       no rules: everything is allowed
429, 5xx, no response       Transient: what is allowed is unknown, so nothing is fetched yet
"""

from datetime import timedelta

import httpx
from protego import Protego

from gristmill.errors import SourceGone, Unreadable
from gristmill.net import USER_AGENT
from gristmill.sources import fetch

# RFC 9309 asks crawlers to read at least this much.
_MAX_BYTES = 512 * 1024
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
    text = bytearray()
    try:
        async with fetch.open_response(client, "GET", f"{origin}/robots.txt", timeout=_TIMEOUT) as response:
            fetch.expect_success(response)
            async for piece in fetch.read_body(response, limit=2 * _MAX_BYTES):
                text += piece
                if len(text) >= _MAX_BYTES:
                    break
    except (SourceGone, Unreadable):
        return Robots("")
    return Robots(text[:_MAX_BYTES].decode("utf-8-sig", "replace"))
