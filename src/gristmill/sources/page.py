"""page: from HTML to a title and markdown. Pure and blocking: the caller runs it in a thread or a process.

    a page of an article, a manual, a forum    its main content by trafilatura, with headings, links, tables
    nothing found in it                        the text of the whole body
    more than 50,000 elements                  the text of the whole body, in time linear in its length
    no body, or not HTML                       the title and text may be empty; the caller says what that means

Hostile pages: libxml2 stops at 256 levels of nesting and what is deeper is lost, so that no tree is deep enough
to exhaust a stack. trafilatura takes about 0.12 s for 1,000 elements whatever they are, and 160 MB for 1 MB of
them: unlimited, 10 MB of links take more than 100 s. Hence the limit on elements.
"""

import re
from dataclasses import dataclass
from typing import Any, cast

import trafilatura
from lxml import etree, html

MOST_ELEMENTS = 50_000

_LONGEST_TITLE = 500
_SILENT = frozenset(("script", "style", "noscript", "template", "svg", "head", "iframe", "object"))
_INLINE = frozenset(
    "a abbr b bdi bdo cite code data dfn em i kbd label mark q rp rt ruby s samp small span strong sub sup time u "
    "var wbr font tt big".split()
)
_BLANK = re.compile(r"[ \t\r\f\v\u00a0]+")
_TITLES = (
    "//meta[@property='og:title']/@content",
    "//head/title//text()",
    "//title//text()",
    "//h1[1]//text()",
)


@dataclass(frozen=True)
class Page:
    """What a page says."""

    title: str
    text: str


def to_markdown(data: bytes, url: str, charset: str | None) -> Page:
    """The title and the main content of the page at `url`."""
    # One decoding for all: libxml2 would trust the page's own word over the header's, and stops at a NUL.
    text = data.decode(charset or "utf-8", errors="replace").replace("\0", "")
    tree = _parsed(text)
    if tree is None:
        return Page("", "")
    title = _title(tree)
    if _few_elements(tree):
        # trafilatura changes the tree that it is given.
        if main := _main_content(tree, url):
            return Page(title, main)
        tree = _parsed(text)
    return Page(title, _whole_text(tree))


def _parsed(text: str) -> Any:
    parser: Any = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        return html.document_fromstring(text.encode(), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError):  # no element in it
        return None


def _few_elements(tree: Any) -> bool:
    return all(count < MOST_ELEMENTS for count, _ in enumerate(tree.iter()))


def _main_content(tree: Any, url: str) -> str:
    try:
        found = trafilatura.extract(
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
    return (found or "").strip()


def _title(tree: Any) -> str:
    for path in _TITLES:
        found = " ".join("".join(cast(list[str], tree.xpath(path))).split())
        if found:
            return found[:_LONGEST_TITLE]
    return ""


def _whole_text(tree: Any) -> str:
    """The text of the body, one line for each block."""
    parts: list[str] = []
    silent: Any = None
    for event, element in etree.iterwalk(tree, events=("start", "end")):
        tag = element.tag if isinstance(element.tag, str) else ""
        if event == "start":
            if silent is None and tag in _SILENT:
                silent = element
            if silent is None:
                parts += ["" if tag in _INLINE else "\n", element.text or ""]
        else:
            if element is silent:
                silent = None
            if silent is None:
                parts += ["" if tag in _INLINE else "\n", element.tail or ""]
    lines = (_BLANK.sub(" ", line).strip() for line in "".join(parts).split("\n"))
    return "\n".join(line for line in lines if line)
