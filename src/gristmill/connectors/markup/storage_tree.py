"""Parses Confluence's storage format into elements, even if it is broken, unclosed or deeply nested.

    <![CDATA[ … ]]>                literal text; without an end, up to the end of the input
    <!-- … -->, <? … ?>, <! … >    nothing
    < that begins no tag           text
    a tag that never ends          text
    an end tag for nothing open    nothing
    unclosed elements              end with their parent, or where their next sibling begins (li, p, td, tr …)
    elements deeper than the limit their content goes to the deepest element that is kept

One pass, in linear time: nothing is searched for twice. XML parsers don't work here, because bodies from macros and imports
are often not well-formed; HTML parsers misread CDATA and self-closing macros.
"""

import html
import re
from dataclasses import dataclass, field

from gristmill.connectors.markup.tree import MAX_DEPTH

_NAME = re.compile(r"</?([A-Za-z][\w:.-]{0,80})(?=[\s/>])")
_ATTRIBUTE = re.compile(
    r"""[\s/]*([^\s=/><"']+)(?:\s*=\s*(?:"([^"<]*)"|'([^'<]*)'|([^\s"'=<>`]+)))?|[\s/]*["'=`]"""
)
_END = re.compile(r"[\s/]*>")
_VOID = frozenset(("br", "hr", "img", "col", "input", "wbr", "link", "meta"))
# Elements that an end tag inside them can't close, unless it has their name.
_BOUNDARIES = frozenset(
    ("td", "th", "table", "li", "ac:rich-text-body", "ac:layout-cell", "ac:task-body", "ac:structured-macro")
)
_CLOSES_PARAGRAPH = frozenset(
    ("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "table", "blockquote", "pre", "hr", "div")
)
_ENDED_BY = {
    "li": ("li",),
    "td": ("td", "th"),
    "th": ("td", "th"),
    "tr": ("tr",),
    "dt": ("dt", "dd"),
    "dd": ("dt", "dd"),
    "ac:task": ("ac:task",),
}
_CONTAINERS = {
    "li": ("ul", "ol"),
    "td": ("table",),
    "th": ("table",),
    "tr": ("table",),
    "dt": ("dl",),
    "dd": ("dl",),
    "ac:task": ("ac:task-list",),
}


@dataclass(slots=True)
class Element:
    """A tag, its attributes, and the elements and texts in it."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    children: "list[Element | str]" = field(default_factory=list["Element | str"])


def parse(text: str) -> Element:
    """The whole body as one element; never raises."""
    return _Parser(text).parse()


def _unescape(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a number of thousands of digits
        return text


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._root = Element("")
        self._stack: list[tuple[str, Element]] = [("", self._root)]
        self._open: dict[str, list[int]] = {}  # by name: indexes on the stack
        self._boundaries: list[int] = [0]
        self._missing: set[str] = set()  # end markers that the rest of the text does not have

    def parse(self) -> Element:
        position = 0
        while (start := self._text.find("<", position)) >= 0:
            self._append_text(_unescape(self._text[position:start]))
            position = self._parse_tag(start)
        self._append_text(_unescape(self._text[position:]))
        return self._root

    def _append_text(self, text: str) -> None:
        if text:
            self._stack[-1][1].children.append(text)

    def _parse_tag(self, start: int) -> int:
        """Parse what begins at `start`; the index behind it."""
        text = self._text
        if text.startswith("<![CDATA[", start):
            end = self._find("]]>", start + 9)
            self._append_text(text[start + 9 : len(text) if end < 0 else end])
            return len(text) if end < 0 else end + 3
        for opening, closing in (("<!--", "-->"), ("<?", "?>"), ("<!", ">")):
            if text.startswith(opening, start):
                end = self._find(closing, start + len(opening))
                if end >= 0:
                    return end + len(closing)
                self._append_text(opening)
                return start + len(opening)
        if not (name := _NAME.match(text, start)):
            self._append_text("<")
            return start + 1
        position = name.end()
        attributes: dict[str, str] = {}
        while not (end := _END.match(text, position)):
            attribute = _ATTRIBUTE.match(text, position)
            if (
                not attribute or attribute.end() == position
            ):  # another tag begins, or the input ends: not a tag
                stop = max(position, start + 1)
                self._append_text(_unescape(text[start:stop]))
                return stop
            position = attribute.end()
            if attribute.group(1) and len(attributes) < 50:
                value = attribute.group(2) or attribute.group(3) or attribute.group(4) or ""
                attributes.setdefault(attribute.group(1).lower(), _unescape(value))
        self._handle_tag(name, attributes, closed=text[position : end.end()].rstrip(">").endswith("/"))
        return end.end()

    def _find(self, what: str, start: int) -> int:
        if what in self._missing:
            return -1
        index = self._text.find(what, start)
        if index < 0:
            self._missing.add(what)
        return index

    def _handle_tag(self, name: re.Match[str], attributes: dict[str, str], *, closed: bool) -> None:
        tag = name.group(1).lower()
        if name.group().startswith("</"):
            self._close(tag)
            return
        if tag in _CLOSES_PARAGRAPH and self._open_index("p") > self._boundaries[-1]:
            self._pop_to(self._open_index("p"))
        for other in _ENDED_BY.get(tag, ()):
            index = self._open_index(other)
            if index >= 0 and all(self._open_index(container) < index for container in _CONTAINERS[tag]):
                self._pop_to(index)
        element = Element(tag, attributes)
        if len(self._stack) <= MAX_DEPTH:
            self._stack[-1][1].children.append(element)
        elif not (closed or tag in _VOID):
            element = self._stack[-1][1]
            element.children.append(" ")
        if not (closed or tag in _VOID):
            self._open.setdefault(tag, []).append(len(self._stack))
            if tag in _BOUNDARIES:
                self._boundaries.append(len(self._stack))
            self._stack.append((tag, element))

    def _close(self, tag: str) -> None:
        index = self._open_index(tag)
        if index < 0:
            return
        # A boundary is closed by its own end tag, and by those of its ancestors.
        if (
            index < self._boundaries[-1]
            and tag not in _BOUNDARIES
            and not tag.startswith(("ac:", "t", "ul", "ol"))
        ):
            return
        self._pop_to(index)

    def _open_index(self, tag: str) -> int:
        indexes = self._open.get(tag)
        return indexes[-1] if indexes else -1

    def _pop_to(self, index: int) -> None:
        while len(self._stack) > index:
            tag, element = self._stack.pop()
            self._open[tag].pop()
            if self._boundaries[-1] == len(self._stack) and len(self._boundaries) > 1:
                self._boundaries.pop()
            if len(self._stack) > MAX_DEPTH:
                element.children.append(" ")  # keeps words of two dropped elements apart
