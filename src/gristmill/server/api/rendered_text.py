"""Canonical content as HTML that is safe to show: markdown-it parses it, ammonia (nh3) sanitises every block.

How much of it is markup depends on who wrote it (`TextStyle`): `2*3*4` of a PDF and `List<String>` of a log are words of the document,
and a reader that hides some of their signs changes what it says. Allowed are the elements of text and tables, without ids, classes and styles. Links lead to http, https and mailto addresses only, in
another tab, without a referrer, and from footnotes to their notes and back. Images are shown as their description: nothing is loaded
from elsewhere. Pure.
"""

import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from gristmill.readers.front_matter import front_matter_length
from gristmill.server.api.footnotes import add_footnotes, environment_of, is_footnote_link
from gristmill.server.api.task_lists import add_task_lists
from gristmill.server.api.text_windows import FENCE, TextRun, TextWindow, closes, widen_table_heads

_HEADING = re.compile(r"^#{1,6} .+$", re.MULTILINE)
_HEADING_OR_FENCE = re.compile(rf"{FENCE}|^#{{1,6}} .+$", re.MULTILINE)
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
# What else HTML, SVG and MathML have: its tags are markup that is not shown. Any other `<name>` is text, such as `List<String>`.
_OTHER_ELEMENTS = re.compile(
    r"address|area|article|aside|audio|base|basefont|bdi|bdo|big|body|button|canvas|center|cite|col|colgroup|data|datalist|"
    r"details|dfn|dialog|dir|fieldset|figcaption|figure|font|footer|form|frame|frameset|head|header|hgroup|html|img|input|"
    r"keygen|label|legend|link|main|map|marquee|menu|menuitem|meta|meter|nav|noframes|optgroup|option|output|param|picture|"
    r"portal|progress|rp|rt|ruby|samp|search|section|select|slot|source|strike|summary|textarea|time|track|tt|var|video|wbr|"
    r"xmp|animate|circle|clippath|defs|desc|ellipse|filter|foreignobject|g|image|line|lineargradient|marker|mask|path|"
    r"pattern|polygon|polyline|radialgradient|rect|set|stop|symbol|text|textpath|tspan|use|annotation|annotation-xml|mfrac|"
    r"mglyph|mi|mn|mo|mover|mroot|mrow|ms|mspace|msqrt|mstyle|msub|msubsup|msup|mtable|mtd|mtext|mtr|munder|munderover|"
    r"semantics",
    re.IGNORECASE,
)
_TAG_START = re.compile(r"<(?=/?([A-Za-z][\w:.-]*))")
_SCHEMES = frozenset(("http", "https", "mailto"))
_ABSOLUTE_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


# `authored`: markdown that people write, with HTML. `generated`: made by a reader that keeps emphasis. `literal`: by one that keeps none.
# `lines`: a plain text, whose lines end where they end.
TextStyle = Literal["authored", "generated", "literal", "lines"]


@dataclass(frozen=True)
class RenderedBlock:
    """A block as HTML, and its characters; `line` is the number of its first line if it is code, `rows` are where the rows of a
    table begin."""

    start: int
    end: int
    page: int | None
    line: int | None
    html: str
    rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class RenderedHeading:
    """A heading among the blocks."""

    level: int
    title: str
    start: int
    page: int | None


def render(
    window: TextWindow, footnotes: Collection[str] = (), style: TextStyle = "authored"
) -> tuple[list[RenderedBlock], list[RenderedHeading]]:
    """The blocks and headings of a window; `footnotes` are the labels that have a note in its document."""
    if length := _front_matter_length(window.text, window.start, style):
        markup = f"<pre><code>{html.escape(window.text[:length], quote=False)}</code></pre>"
        rest = replace(window, text=window.text[length:], start=length)
        blocks, headings = render(rest, footnotes, style)
        return [RenderedBlock(0, length, window.page, 1, sanitise(markup)), *blocks], headings
    prefix = f"{window.fence}\n" if window.fence else window.table_head
    text = prefix + window.text
    parser = _parser(style)
    environment = environment_of(footnotes)
    tokens = parser.parse(text if style == "authored" else widen_table_heads(text), environment)
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
        markup = sanitise(parser.renderer.render(group, parser.options, environment), environment)
        rows = tuple(
            max(0, starts[token.map[0]] - len(prefix)) + window.start
            for token in group
            if token.type == "tr_open" and token.map and group[0].type == "table_open"
        )
        if markup.strip():
            blocks.append(RenderedBlock(begin, end, window.page, line, markup, rows))
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


def render_answer(text: str) -> str:
    """The answer of a chat model as HTML. Its HTML is text, and the numbers that cite passages stay as they are."""
    return sanitise(_answer_parser().render(text))


def outline(runs: Iterable[TextRun], *, limit: int, style: TextStyle = "authored") -> list[RenderedHeading]:
    """The headings of a whole text, but for those of code; without rendering it."""
    lines: list[tuple[str, int, int | None]] = []
    fence = ""
    for run in runs:
        first = _front_matter_length(run.text, run.start, style)
        for match in _HEADING_OR_FENCE.finditer(run.text, first):
            if match["fence"] and not fence:
                fence = match["fence"]
            elif match["fence"]:
                fence = "" if closes(match, fence) else fence
            elif not fence and len(lines) < limit:
                lines.append((match[0], run.start + match.start(), run.page))
    tokens = _parser(style).parse("\n\n".join(line for line, _, _ in lines), environment_of(()))
    titles = [_plain(token)[:200] for token in tokens if token.type == "inline"]
    return [
        RenderedHeading(len(line) - len(line.lstrip("#")), title, start, page)
        for (line, start, page), title in zip(lines, titles, strict=False)
        if title
    ]


def _front_matter_length(text: str, start: int, style: TextStyle) -> int:
    """How many characters of a text are its front matter, which would look like a large heading."""
    return front_matter_length(text) if start == 0 and style in ("authored", "lines") else 0


def first_heading(opening: str) -> str:
    """The first heading in the first characters of a slide or sheet; empty if there is none."""
    line = _HEADING.search(opening)
    _, headings = render(TextWindow(line[0], 0), style="literal") if line else ((), [])
    return headings[0].title if headings else ""


def sanitise(markup: str, environment: Mapping[str, Any] | None = None) -> str:
    """HTML without anything that runs, loads or styles. `environment` has the footnotes that links may lead to."""
    return nh3.clean(
        markup,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        attribute_filter=partial(_safe_attribute, environment or {}),
        clean_content_tags=set(_REMOVED),
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
        strip_comments=True,
    )


def _safe_attribute(environment: Mapping[str, Any], tag: str, name: str, value: str) -> str | None:
    """Links to other places of our own pages would look like a part of them."""
    if tag == "a" and name == "href":
        is_safe = _ABSOLUTE_LINK.match(value.strip()) or is_footnote_link(value, environment)
        return value if is_safe else None
    return value


class _DocumentParser(MarkdownIt):
    """A parser that leaves refusing addresses to the sanitiser: where it refuses one itself, it shows the markdown of the link."""

    def validateLink(self, url: str) -> bool:  # noqa: N802
        return True


@cache
def _parser(style: TextStyle) -> MarkdownIt:
    options = {"html": style == "authored", "linkify": False, "breaks": style == "lines"}
    parser = _DocumentParser("commonmark", options).enable(["table", "strikethrough"])
    if style in ("literal", "lines"):
        parser.disable(["emphasis", "strikethrough", "escape", "entity"])
    parser.add_render_rule("image", _image_text)
    parser.add_render_rule("html_inline", _html_text)
    parser.add_render_rule("html_block", _html_text)
    add_task_lists(parser)
    add_footnotes(parser)
    return parser


@cache
def _answer_parser() -> MarkdownIt:
    # A definition of `[1]` in the answer would make a link of the citation.
    options = {"html": False, "linkify": False, "breaks": True}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).disable("reference")
    parser.add_render_rule("image", _image_text)
    add_task_lists(parser)
    return parser


def _html_text(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _environment: Any) -> str:
    """HTML in markdown, with `<` as text where the name of no element follows."""
    return _TAG_START.sub(lambda match: "<" if _is_element(match[1]) else "&lt;", tokens[index].content)


def _is_element(name: str) -> bool:
    return name.lower() in _TAGS | _REMOVED or _OTHER_ELEMENTS.fullmatch(name) is not None


def _image_text(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _environment: Any) -> str:
    """The description of an image, in place of the image."""
    text = tokens[index].content.strip()
    return f"<small>[{html.escape(text)}]</small>" if text else ""


def _is_unknown_tag(token: Token) -> bool:
    match = _TAG_START.match(token.content) if token.type == "html_inline" else None
    return match is not None and not _is_element(match[1])


def _plain(token: Token) -> str:
    return "".join(
        child.content
        for child in token.children or ()
        if child.type in ("text", "code_inline") or _is_unknown_tag(child)
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
