"""Which addresses a crawl of a web site fetches, and their normal form. Pure.

    normal form     as `normalise`, without session ids and parameters that only count visits, the others in order

    left out because of
    other_site      another host; `www.` makes no difference, and where the start page redirects to belongs to the site
    excluded        no pattern of `include` matches, or one of `exclude` does; the start page is fetched all the same
    not_a_document  its name ends like an image, a style sheet, an archive …
    trap            too long, or a path that repeats itself: such addresses are made by broken links without end
    too_deep        more links away from the start page than the rules allow

A pattern is compared with path and query: `/docs/*` matches everything below /docs/; `*` is any text, `?` one character.
"""

import fnmatch
import functools
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self
from urllib.parse import urljoin, urlsplit

from gristmill.errors import Permanent
from gristmill.sources.url import normalise

LeftOutReason = Literal["other_site", "excluded", "not_a_document", "trap", "too_deep"]

DEFAULT_DEPTH = 5
DEFAULT_PAGES = 1_000
MAX_VARIANTS = 100  # addresses of one path that differ in their query

_MAX_LENGTH = 1_000
_MAX_SEGMENTS = 30
_MAX_REPETITIONS = 3  # of one part of a path
_TRACKING = re.compile(
    r"(utm_\w*|gclid|gbraid|wbraid|fbclid|msclkid|yclid|dclid|igshid|mc_cid|mc_eid|_ga|_gl|phpsessid|jsessionid|sessionid|sid)"
    r"(=|$)",
    re.IGNORECASE,
)
_SESSION_IN_PATH = re.compile(r";jsessionid=[^/?#]*", re.IGNORECASE)
_NO_DOCUMENT = re.compile(
    r"\.(jpe?g|png|gif|svg|webp|avif|ico|bmp|tiff?|css|m?js|json|xml|rss|atom|map|zip|gz|tgz|bz2|xz|7z|rar|tar|jar|mp[34]|m4[av]|"
    r"ogg|wav|flac|webm|avi|mov|mkv|woff2?|ttf|otf|eot|exe|msi|dmg|pkg|deb|rpm|iso|apk|bin|wasm)$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class SiteRules:
    """The rules of one site, as people set them."""

    start: str
    max_depth: int = DEFAULT_DEPTH
    max_pages: int = DEFAULT_PAGES
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    use_sitemaps: bool = True

    @classmethod
    def of(cls, source: Mapping[str, Any]) -> Self:
        """The rules in the source of an item."""
        return cls(
            source["url"],
            source.get("maxDepth", DEFAULT_DEPTH),
            source.get("maxPages", DEFAULT_PAGES),
            tuple(source.get("include", ())),
            tuple(source.get("exclude", ())),
            source.get("useSitemaps", True),
        )

    @property
    def max_requests(self) -> int:
        """How many requests one crawl may send: pages that are left out cost requests, too."""
        return 3 * self.max_pages + 100

    @property
    def max_addresses(self) -> int:
        """How many addresses one crawl remembers."""
        return 20 * self.max_pages + 1_000

    def is_included(self, url: str) -> bool:
        """Whether the patterns let a page be filed."""
        parts = urlsplit(url)
        name = parts.path + (f"?{parts.query}" if parts.query else "")
        return (not self.include or _matches(self.include, name)) and not _matches(self.exclude, name)

    def reason_to_leave_out(self, url: str, depth: int, sites: Collection[str]) -> LeftOutReason | None:
        """Why an address in its normal form is not fetched; None if it is."""
        if site_of(url) not in sites:
            return "other_site"
        if _is_trap(url):
            return "trap"
        if _NO_DOCUMENT.search(urlsplit(url).path):
            return "not_a_document"
        if not self.is_included(url):
            return "excluded"
        return "too_deep" if depth > self.max_depth else None


def crawl_address(link: str, page_url: str) -> str | None:
    """The normal form of a link on a page; None for what is no web address."""
    try:
        url = normalise(urljoin(page_url, link.strip()))
    except (Permanent, ValueError):
        return None
    parts = urlsplit(url)
    path = _SESSION_IN_PATH.sub("", parts.path)
    query = sorted(value for value in parts.query.split("&") if value and not _TRACKING.match(value))
    return f"{parts.scheme}://{parts.netloc}{path or '/'}" + (f"?{'&'.join(query)}" if query else "")


def site_of(url: str) -> str:
    """The host without `www.`, and the port if it is not the default."""
    return urlsplit(url).netloc.lower().removeprefix("www.")


def origin_of(url: str) -> str:
    """Scheme and host: what a robots.txt is for."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _is_trap(url: str) -> bool:
    segments = [segment for segment in urlsplit(url).path.split("/") if segment]
    repeated = max(Counter(segments).values(), default=0)
    return len(url) > _MAX_LENGTH or len(segments) > _MAX_SEGMENTS or repeated > _MAX_REPETITIONS


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(_pattern_regex(pattern).match(name) is not None for pattern in patterns)


@functools.lru_cache(maxsize=1024)
def _pattern_regex(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
