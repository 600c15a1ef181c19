"""storage_tree: Confluence's storage format as elements, whatever is left open, broken or nested.

    <![CDATA[ … ]]>                text as it stands; without an end, up to the end of the input
    <!-- … -->, <? … ?>, <! … >    nothing
    < that begins no tag           text
    a tag that never ends          text
    an end tag for nothing open    nothing
    elements left open             end with what they are in, or where their next sibling begins (li, p, td, tr …)
    elements deeper than the limit what they hold goes to the deepest one that is kept

One pass, in linear time: nothing is looked for twice. XML parsers are of no use here: bodies that people's macros and
imports have made are often not well-formed, and HTML parsers take CDATA and self-closing macros for something else.
"""

import html
import re
from dataclasses import dataclass, field

from gristmill.connectors.markup.tree import MOST_LEVELS

_NAME = re.compile(r"</?([A-Za-z][\w:.-]{0,80})(?=[\s/>])")
_ATTRIBUTE = re.compile(
    r"""[\s/]*([^\s=/><"']+)(?:\s*=\s*(?:"([^"<]*)"|'([^'<]*)'|([^\s"'=<>`]+)))?|[\s/]*["'=`]"""
)
_END = re.compile(r"[\s/]*>")
_VOID = frozenset(("br", "hr", "img", "col", "input", "wbr", "link", "meta"))
# What an end tag inside can't close, unless it is named by it.
_WALLS = frozenset(
    ("td", "th", "table", "li", "ac:rich-text-body", "ac:layout-cell", "ac:task-body", "ac:structured-macro")
)
_LEAVES_P = frozenset(
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
_KEEPERS = {
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
        self._open: dict[str, list[int]] = {}  # by name: where on the stack it is open
        self._walls: list[int] = [0]
        self._never: set[str] = set()  # ends that were looked for and are not there

    def parse(self) -> Element:
        position = 0
        while (start := self._text.find("<", position)) >= 0:
            self._say(_unescape(self._text[position:start]))
            position = self._tag(start)
        self._say(_unescape(self._text[position:]))
        return self._root

    def _say(self, text: str) -> None:
        if text:
            self._stack[-1][1].children.append(text)

    def _tag(self, start: int) -> int:
        """Take what begins at `start`, and say where it ends."""
        text = self._text
        if text.startswith("<![CDATA[", start):
            end = self._find("]]>", start + 9)
            self._say(text[start + 9 : len(text) if end < 0 else end])
            return len(text) if end < 0 else end + 3
        for opening, closing in (("<!--", "-->"), ("<?", "?>"), ("<!", ">")):
            if text.startswith(opening, start):
                end = self._find(closing, start + len(opening))
                if end >= 0:
                    return end + len(closing)
                self._say(opening)
                return start + len(opening)
        if not (name := _NAME.match(text, start)):
            self._say("<")
            return start + 1
        position = name.end()
        attributes: dict[str, str] = {}
        while not (end := _END.match(text, position)):
            found = _ATTRIBUTE.match(text, position)
            if not found or found.end() == position:  # another tag begins, or the input ends: this was none
                stop = max(position, start + 1)
                self._say(_unescape(text[start:stop]))
                return stop
            position = found.end()
            if found.group(1) and len(attributes) < 50:
                value = found.group(2) or found.group(3) or found.group(4) or ""
                attributes.setdefault(found.group(1).lower(), _unescape(value))
        self._element(name, attributes, closed=text[position : end.end()].rstrip(">").endswith("/"))
        return end.end()

    def _find(self, what: str, start: int) -> int:
        if what in self._never:
            return -1
        found = self._text.find(what, start)
        if found < 0:
            self._never.add(what)
        return found

    def _element(self, name: re.Match[str], attributes: dict[str, str], *, closed: bool) -> None:
        tag = name.group(1).lower()
        if name.group().startswith("</"):
            self._close(tag)
            return
        if tag in _LEAVES_P and self._place("p") > self._walls[-1]:
            self._pop_to(self._place("p"))
        for other in _ENDED_BY.get(tag, ()):
            place = self._place(other)
            if place >= 0 and all(self._place(keeper) < place for keeper in _KEEPERS[tag]):
                self._pop_to(place)
        element = Element(tag, attributes)
        if len(self._stack) <= MOST_LEVELS:
            self._stack[-1][1].children.append(element)
        elif not (closed or tag in _VOID):
            element = self._stack[-1][1]
            element.children.append(" ")
        if not (closed or tag in _VOID):
            self._open.setdefault(tag, []).append(len(self._stack))
            if tag in _WALLS:
                self._walls.append(len(self._stack))
            self._stack.append((tag, element))

    def _close(self, tag: str) -> None:
        place = self._place(tag)
        if place < 0:
            return
        # A wall ends by its own name, and by what it stands in.
        if place < self._walls[-1] and tag not in _WALLS and not tag.startswith(("ac:", "t", "ul", "ol")):
            return
        self._pop_to(place)

    def _place(self, tag: str) -> int:
        places = self._open.get(tag)
        return places[-1] if places else -1

    def _pop_to(self, place: int) -> None:
        while len(self._stack) > place:
            tag, element = self._stack.pop()
            self._open[tag].pop()
            if self._walls[-1] == len(self._stack) and len(self._walls) > 1:
                self._walls.pop()
            if len(self._stack) > MOST_LEVELS:
                element.children.append(" ")  # words of two lost elements stay apart
