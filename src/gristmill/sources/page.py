"""page: converts HTML to a title and markdown. Pure and blocking: the caller runs it in a thread or a process.

    an ordinary page                    its main content by trafilatura, with headings, links and tables
    trafilatura finds nothing in it     the text of the whole body
    larger or deeper than the limits    the text of the whole body
    no text at all                      empty text; the caller decides what that means

Every page is scanned once without building a tree, in linear time and to any depth (10 MB: about 3 s at worst), for its
title, its text and its size. Only a page within the limits is parsed into a tree: libxml2 drops what is nested deeper
than 2,048 levels, and trafilatura is slow with many elements (10 MB of links: more than 100 s) and with deep ones, and
quadratic in the elements of one paragraph (49,000 spans: 137 s). Within the limits, the worst page found took 16 s.
"""

import contextlib
import importlib
from dataclasses import dataclass
from typing import Any

from gristmill.readers import text_encoding

# lxml has no types, and its core is compiled.
etree: Any = importlib.import_module("lxml.etree")
html: Any = importlib.import_module("lxml.html")

PAGE_TYPES = frozenset({"text/html", "application/xhtml+xml"})
MAX_CHARACTERS = 5_000_000
MAX_ELEMENTS = 50_000
MAX_DEPTH = 128  # real pages have fewer than 60; the time grows with the depth of each element

MAX_CHILDREN = 5_000  # of one element; rows and list items, of which there are many, cost no more than others

MIN_TEXT = 200  # characters; a page with scripts and less text is most likely made by them
_LARGE_CONTAINERS = frozenset(("table", "tbody", "ul", "ol", "dl"))
_MAX_TITLE_LENGTH = 500
# Their contents are not text of the page.
_SKIPPED_TAGS = frozenset(("script", "style", "noscript", "template", "svg", "title", "iframe", "object"))
_INLINE_TAGS = frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "code",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "ins",
        "kbd",
        "label",
        "mark",
        "q",
        "rp",
        "rt",
        "ruby",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "var",
        "wbr",
    ]
)


@dataclass(frozen=True)
class WebPage:
    """The title and text of a page."""

    title: str
    text: str


def to_markdown(data: bytes, url: str, charset: str | None) -> WebPage:
    """The title and the main content of the page at `url`."""
    decoded = decode_page(data, charset)
    scanner = _scan(decoded.encode())
    main_content = _main_content(decoded.encode(), url) if _is_within_limits(decoded, scanner) else ""
    return WebPage(scanner.title, main_content or scanner.text)


def decode_page(data: bytes, charset: str | None) -> str:
    """The HTML of a page. One that declares no character set and is not UTF-8 is in the one that its letters look like."""
    # Decode only here: libxml2 would prefer the page's declaration to the HTTP header, and stops at a NUL.
    encoding = charset or text_encoding.detect_encoding(data[: text_encoding.SAMPLE])[0]
    return data.decode(encoding, errors="replace").replace("\0", "")


def is_made_by_scripts(data: bytes, charset: str | None) -> bool:
    """Whether a page has scripts, but hardly any text: a browser shows what the scripts put there."""
    scanner = _scan(decode_page(data, charset).encode())
    return scanner.scripts > 0 and len(scanner.text) < MIN_TEXT


class _PageScanner:
    """The target of the parser, which calls it for every tag and text in order; it builds no tree."""

    def __init__(self) -> None:
        self.elements = self.depth = self.max_children = self.scripts = 0
        self._child_counts = [0]  # of each open element, so far
        self._parts: list[str] = []
        self._titles: dict[str, list[str]] = {"og": [], "title": [], "h1": []}
        self._skipped: list[str] = []
        self._in_h1 = False
        self._pre_depth = 0

    @property
    def title(self) -> str:
        """The og:title, else the title, else the first heading."""
        titles = (" ".join("".join(parts).split()) for parts in self._titles.values())
        return next(filter(None, titles), "")[:_MAX_TITLE_LENGTH]

    @property
    def text(self) -> str:
        """The text, with one line for each block."""
        lines = (" ".join(line.split()) for line in "".join(self._parts).split("\n"))
        return "\n".join(filter(None, lines))

    def start(self, tag: str, attributes: Any) -> None:
        """An element begins."""
        self.elements += 1
        self.scripts += tag == "script"
        self._child_counts[-1] += 1
        self._child_counts.append(0)
        self.depth = max(self.depth, len(self._child_counts))
        if tag == "meta" and attributes.get("property") == "og:title" and not self._titles["og"]:
            self._titles["og"].append(attributes.get("content", ""))
        self._pre_depth += tag == "pre"
        if self._skipped or tag in _SKIPPED_TAGS:
            self._skipped.append(tag)
        elif tag not in _INLINE_TAGS:
            self._in_h1 = tag == "h1" and not self._titles["h1"]
            self._parts.append("\n")

    def end(self, tag: str) -> None:
        """An element ends."""
        children = self._child_counts.pop()
        if tag not in _LARGE_CONTAINERS:
            self.max_children = max(self.max_children, children)
        self._pre_depth -= tag == "pre"
        if self._skipped:
            self._skipped.pop()
        elif tag not in _INLINE_TAGS:
            self._in_h1 = False
            self._parts.append("\n")

    def data(self, text: str) -> None:
        """Text inside the innermost open element."""
        if self._skipped == ["title"]:
            self._titles["title"].append(text)
        if self._skipped:
            return
        # Outside <pre>, a line break is a space.
        self._parts.append(text if self._pre_depth else text.replace("\n", " "))
        if self._in_h1:
            self._titles["h1"].append(text)

    def close(self) -> None:
        """The page ends."""


def _scan(data: bytes) -> _PageScanner:
    target = _PageScanner()
    parser: Any = etree.HTMLParser(
        target=target, encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True
    )
    with contextlib.suppress(etree.XMLSyntaxError):  # it has no element, like an empty page
        etree.fromstring(data, parser)
    return target


def _is_within_limits(decoded: str, scanner: _PageScanner) -> bool:
    return (
        len(decoded) <= MAX_CHARACTERS
        and 0 < scanner.elements <= MAX_ELEMENTS
        and scanner.depth <= MAX_DEPTH
        and scanner.max_children <= MAX_CHILDREN
    )


def _main_content(data: bytes, url: str) -> str:
    import trafilatura  # takes 0.3 s, which other commands should not wait for

    parser: Any = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        tree: Any = html.document_fromstring(data, parser=parser)
        markdown = trafilatura.extract(
            tree,
            url=url,
            output_format="markdown",
            include_links=True,
            include_tables=True,
            include_formatting=True,
            include_comments=False,
        )
    except Exception:  # a page that triggers a bug loses its layout, not its text
        return ""
    return (markdown or "").strip()
