"""What a web page says to crawlers: its links, its canonical address, and whether it may be indexed and its links followed. Pure
and blocking.

    <a href>, <area href>                     a link, unless it has rel="nofollow"
    <base href>                               what relative links start from
    <link rel="canonical">, Link header       the address under which the page is filed
    <meta http-equiv="refresh">, Refresh      a link; if it leads there at once, also the address under which the page is filed
    <meta name="robots" | "gristmill">,       noindex: it is not filed; nofollow: its links are not followed; none: both
    X-Robots-Tag header

The page is scanned without building a tree, in linear time and to any depth.
"""

import contextlib
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gristmill.sources.page import decode_page
from gristmill.sources.site_rules import crawl_address

etree: Any = importlib.import_module("lxml.etree")  # it has no types

MAX_LINKS = 2_000  # of one page
_CANONICAL_HEADER = re.compile(r"<([^>]{1,8192})>\s*;[^,]*\brel\s*=\s*\"?canonical\b", re.IGNORECASE)
_OWN_NAMES = ("robots", "gristmill")
_REFRESH = re.compile(
    r"\s*([0-9]{1,4})(?:\.[0-9]*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?\s*([^\"']{1,8192})", re.IGNORECASE
)
_AT_ONCE = 1  # seconds: a page that leads elsewhere later is to be read


@dataclass(frozen=True)
class PageDirectives:
    """What a page says to crawlers; addresses are in their normal form."""

    links: tuple[str, ...] = ()
    canonical: str | None = None
    must_not_index: bool = False


def page_directives(data: bytes, charset: str | None, url: str, headers: Mapping[str, str]) -> PageDirectives:
    """The directives of the page at `url`."""
    text = decode_page(data, charset)
    scanner = _LinkScanner()
    parser: Any = etree.HTMLParser(
        target=scanner, encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True
    )
    with contextlib.suppress(etree.XMLSyntaxError):  # it has no element, like an empty page
        etree.fromstring(text.encode(), parser)
    words = scanner.robots | header_directives(headers)
    base = crawl_address(scanner.base, url) if scanner.base else url
    seconds, refresh = _refresh_target(scanner.refresh or headers.get("refresh", ""))
    links = dict.fromkeys(crawl_address(link, base or url) for link in (*scanner.links, refresh) if link)
    canonical = scanner.canonical or _header_canonical(headers) or (refresh if seconds <= _AT_ONCE else "")
    return PageDirectives(
        () if words & {"nofollow", "none"} else tuple(link for link in links if link is not None),
        crawl_address(canonical, base or url) if canonical else None,
        bool(words & {"noindex", "none"}),
    )


def header_directives(headers: Mapping[str, str]) -> set[str]:
    """The words of the X-Robots-Tag header that are for us."""
    words: set[str] = set()
    for part in headers.get("x-robots-tag", "").lower().split(","):
        agent, colon, directive = part.strip().rpartition(":")
        if not colon or agent.strip() in _OWN_NAMES:
            words.add(directive.strip())
    return words


def _header_canonical(headers: Mapping[str, str]) -> str:
    match = _CANONICAL_HEADER.search(headers.get("link", "")[:16_384])
    return match[1] if match else ""


def _refresh_target(refresh: str) -> tuple[int, str]:
    """After how many seconds a page leads elsewhere, and where."""
    match = _REFRESH.match(refresh[:16_384])
    return (int(match[1]), match[2].strip()) if match else (0, "")


class _LinkScanner:
    """The target of the parser, which calls it for every tag in order."""

    def __init__(self) -> None:
        self.links: list[str] = []
        self.canonical = self.base = self.refresh = ""
        self.robots: set[str] = set()

    def start(self, tag: str, attributes: Any) -> None:
        """An element begins."""
        relations = attributes.get("rel", "").lower().split()
        href = attributes.get("href", "")
        if tag in ("a", "area"):
            if href and "nofollow" not in relations and len(self.links) < MAX_LINKS:
                self.links.append(href)
        elif tag == "link" and "canonical" in relations:
            self.canonical = self.canonical or href
        elif tag == "base":
            self.base = self.base or href
        elif tag == "meta" and attributes.get("http-equiv", "").lower() == "refresh":
            self.refresh = self.refresh or attributes.get("content", "")
        elif tag == "meta" and attributes.get("name", "").lower() in _OWN_NAMES:
            self.robots |= {word.strip() for word in attributes.get("content", "").lower().split(",")}

    def end(self, tag: str) -> None:
        """An element ends."""

    def data(self, text: str) -> None:
        """Text."""

    def close(self) -> None:
        """The page ends."""
