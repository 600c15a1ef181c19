"""page: from HTML to a title and markdown. Pure and blocking: the caller runs it in a thread or a process.

    a page as pages are                 its main content by trafilatura, with headings, links and tables
    trafilatura finds nothing in it     the text of the whole body
    larger or deeper than the limits    the text of the whole body
    no text at all                      the text is empty; the caller says what that means

Every page is walked once without building a tree, in linear time and to any depth (10 MB: about 3 s at the worst),
for its title, its text and its measure. Only a page within the limits is parsed into a tree: libxml2 drops what
lies deeper than 2,048 levels, and trafilatura is slow with many elements (10 MB of links: more than 100 s), with
deep ones, and quadratic in those of one paragraph (49,000 spans: 137 s). Within them, the worst page found took 16 s.
"""

import contextlib
import importlib
from dataclasses import dataclass
from typing import Any

# lxml brings no types, and its core is compiled.
etree: Any = importlib.import_module("lxml.etree")
html: Any = importlib.import_module("lxml.html")

MAX_CHARACTERS = 5_000_000
MAX_ELEMENTS = 50_000
MAX_DEPTH = 128  # real pages have fewer than 60; time grows with the depth of each element

MAX_CHILDREN = 5_000  # of one element; rows and list items, of which there are many, cost no more than others

_LARGE_CONTAINERS = frozenset(("table", "tbody", "ul", "ol", "dl"))
_MAX_TITLE_LENGTH = 500
# What is inside is not for reading.
_SKIPPED_TAGS = frozenset(("script", "style", "noscript", "template", "svg", "title", "iframe", "object"))
_INLINE_TAGS = frozenset(
    (
        *(
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
        ),
        *(
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
        ),
        *("sub", "sup", "time", "tt", "u", "var", "wbr"),
    )
)


@dataclass(frozen=True)
class WebPage:
    """What a page says."""

    title: str
    text: str


def to_markdown(data: bytes, url: str, charset: str | None) -> WebPage:
    """The title and the main content of the page at `url`."""
    # One decoding for all: libxml2 would trust the page's own word over the header's, and stops at a NUL.
    decoded = data.decode(charset or "utf-8", errors="replace").replace("\0", "")
    scanner = _scan(decoded.encode())
    main_content = _main_content(decoded.encode(), url) if _is_within_limits(decoded, scanner) else ""
    return WebPage(scanner.title, main_content or scanner.text)


class _PageScanner:
    """The parser's target: hears of every tag and text in their order, and builds nothing."""

    def __init__(self) -> None:
        self.elements = self.depth = self.max_children = 0
        self._child_counts = [0]  # the children so far of each element that has not ended
        self._parts: list[str] = []
        self._titles: dict[str, list[str]] = {"og": [], "title": [], "h1": []}
        self._skipped: list[str] = []
        self._in_h1 = False
        self._pre_depth = 0

    @property
    def title(self) -> str:
        """What og:title says, else the title, else the first heading."""
        titles = (" ".join("".join(parts).split()) for parts in self._titles.values())
        return next(filter(None, titles), "")[:_MAX_TITLE_LENGTH]

    @property
    def text(self) -> str:
        """The text, one line for each block."""
        lines = (" ".join(line.split()) for line in "".join(self._parts).split("\n"))
        return "\n".join(filter(None, lines))

    def start(self, tag: str, attributes: Any) -> None:
        """An element begins."""
        self.elements += 1
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
        """Text within the element that began last and has not ended."""
        if self._skipped == ["title"]:
            self._titles["title"].append(text)
        if self._skipped:
            return
        # Elsewhere, a line break of the source is a space of the page.
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
    with contextlib.suppress(etree.XMLSyntaxError):  # no element in it, as in an empty page
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
    import trafilatura  # 0.3 s, for which no command that reads no page should wait

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
    except Exception:  # a bug that one page of the world's sets off costs its layout, not its text
        return ""
    return (markdown or "").strip()
