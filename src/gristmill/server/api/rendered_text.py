"""Canonical content as HTML that is safe to show: markdown-it parses it, ammonia (nh3) sanitises every block.

Allowed are the elements of text and tables, without ids, classes and styles. Links lead to http, https and mailto addresses only, in
another tab, without a referrer. Images are shown as their description: nothing is loaded from elsewhere.

Content is rendered in windows, whose edges are blank lines, so that a document of any length costs the same. Pure.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_WINDOW = 24_000  # characters
_BEFORE = 6_000  # of a window, before the character that was asked for
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)
_OPENING, _CLOSING = re.compile(r"(?:`{3,}|~{3,})[^\n]*\n"), re.compile(r"(?:^|(?<=\n))(?:`{3,}|~{3,})\n?\Z")
_TAGS = frozenset(
    [
        "a",
        "abbr",
        "b",
        "blockquote",
        "br",
        "caption",
        "code",
        "dd",
        "del",
        "div",
        "dl",
        "dt",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "ins",
        "kbd",
        "li",
        "mark",
        "ol",
        "p",
        "pre",
        "q",
        "s",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "table",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "u",
        "ul",
    ]
)
_ATTRIBUTES = {"a": {"href"}, "ol": {"start"}, "td": {"colspan", "rowspan"}, "th": {"colspan", "rowspan"}}
# Removed with everything inside; of other elements that are not allowed, the text stays.
_REMOVED = frozenset(
    ("script", "style", "iframe", "object", "embed", "svg", "math", "template", "noscript", "title")
)
_SCHEMES = frozenset(("http", "https", "mailto"))
_ABSOLUTE_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


@dataclass(frozen=True)
class TextWindow:
    """A piece of a content: its text, where it begins, and the page it is on. `fence` opens the code that it begins within, and
    `line` is the number of the first line of that code."""

    text: str
    start: int
    page: int | None = None
    fence: str = ""
    line: int = 1


@dataclass(frozen=True)
class RenderedBlock:
    """A block as HTML, and its characters; `line` is the number of its first line if it is code."""

    start: int
    end: int
    page: int | None
    line: int | None
    html: str


@dataclass(frozen=True)
class RenderedHeading:
    """A heading among the blocks."""

    level: int
    title: str
    start: int
    page: int | None


def cut_window(text: str, start: int, at: int, page: int | None) -> TextWindow:
    """The window of a part of the content around the character at `at`; the part begins at `start`."""
    place = max(0, min(at - start, len(text)))
    first = 0
    if place > _BEFORE:
        first = max(text.rfind("\n\n", 0, place - _BEFORE) + 2, place - MAX_WINDOW // 2)
    last = len(text)
    if last - first > MAX_WINDOW:
        blank = text.find("\n\n", first + MAX_WINDOW)
        last = min(blank + 2 if blank >= 0 else last, first + 2 * MAX_WINDOW)
    fence, line = "", 1
    for match in _FENCE.finditer(text, 0, first):
        if not fence:
            fence, line = match[1], 1 + text.count("\n", match.end() + 1, first)
        elif match[1].startswith(fence) and not match[2].strip():
            fence = ""
    return TextWindow(text[first:last], start + first, page, fence, line)


def render(window: TextWindow) -> tuple[list[RenderedBlock], list[RenderedHeading]]:
    """The blocks and headings of a window."""
    prefix = f"{window.fence}\n" if window.fence else ""
    text = prefix + window.text
    parser = _parser()
    environment: dict[str, Any] = {}
    tokens = parser.parse(text, environment)
    starts = _line_starts(text)
    blocks: list[RenderedBlock] = []
    headings: list[RenderedHeading] = []
    for group in _top_level(tokens):
        first, last = group[0].map or [0, 0]
        # Offsets count the characters of the window, without what was put before it.
        begin = max(0, starts[first] - len(prefix)) + window.start
        end = max(0, starts[min(last, len(starts) - 1)] - len(prefix)) + window.start
        line = None
        if group[0].type in ("fence", "code_block"):
            line = window.line if window.fence and begin == window.start else 1
        markup = sanitise(parser.renderer.render(group, parser.options, environment))
        if markup.strip():
            blocks.append(RenderedBlock(begin, end, window.page, line, markup))
        if group[0].type == "heading_open" and len(group) > 1:
            title = _plain(group[1])
            if title:
                headings.append(RenderedHeading(int(group[0].tag[1]), title[:200], begin, window.page))
    return blocks, headings


def render_code(window: TextWindow, content: str) -> list[RenderedBlock]:
    """The window of a file of code, whose content may be fenced. The fence is not shown."""
    text, start = window.text, window.start
    opening = _OPENING.match(content)
    if opening and start < opening.end():
        text, start = text[opening.end() - start :], opening.end()
    if opening:
        text = _CLOSING.sub("", text)
    if not text.strip():
        return []
    line = 1 + content.count("\n", opening.end() if opening else 0, start)
    markup = f"<pre><code>{html.escape(text, quote=False)}</code></pre>"
    return [RenderedBlock(start, start + len(text), window.page, line, sanitise(markup))]


def sanitise(markup: str) -> str:
    """HTML without anything that runs, loads or styles."""
    return nh3.clean(
        markup,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        attribute_filter=_safe_attribute,
        clean_content_tags=set(_REMOVED),
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
        strip_comments=True,
    )


def _safe_attribute(tag: str, name: str, value: str) -> str | None:
    """Links to other places of our own pages would look like a part of them."""
    if tag == "a" and name == "href":
        return value if _ABSOLUTE_LINK.match(value.strip()) else None
    return value


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image_text)
    return parser


def _image_text(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _environment: Any) -> str:
    """The description of an image, in place of the image."""
    text = tokens[index].content.strip()
    return f"<small>[{html.escape(text)}]</small>" if text else ""


def _plain(token: Token) -> str:
    return "".join(
        child.content for child in token.children or () if child.type in ("text", "code_inline")
    ).strip()


def _top_level(tokens: Sequence[Token]) -> list[list[Token]]:
    groups: list[list[Token]] = []
    for token in tokens:
        if token.level == 0 and token.nesting >= 0:
            groups.append([token])
        elif groups:
            groups[-1].append(token)
    return groups


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
