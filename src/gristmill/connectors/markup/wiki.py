"""Jira's wiki markup as markdown: descriptions and comments of Server and Data Center.

    h1. …    bq. …    * # - lists    ||head||  |cell|    ----      blocks of one line
    {quote} {panel:title=…}                                        begin and end a quote
    {code:lang|title=…} {noformat}                                 literal code; without an end, ordinary text
    any other line                                                 part of a paragraph, on a line of its own

`wiki_inline.py` reads the marks within a line. Never raises.
"""

import re
from collections.abc import Iterator, Mapping

from gristmill.connectors.markup.tree import Child, Node, quote_with_label
from gristmill.connectors.markup.wiki_inline import read_line
from gristmill.connectors.markup.writer import write_markdown

_VERBATIM = re.compile(r"(?<!\\)\{(code|noformat)(?::([^{}\n]*))?\}", re.I)
_WRAPPER = re.compile(r"(?<!\\)\{(quote|panel)(?::([^{}\n]*))?\}", re.I)
_HEADING = re.compile(r"\s*h([1-6])\.(?:\s+|$)")
_QUOTE = re.compile(r"\s*bq\.\s+")
_ITEM = re.compile(r"\s*([*#]{1,20}|-)\s+(?=\S)")
_RULE = re.compile(r"\s*-{4,}\s*$")
# Constructs in which a bar does not end a cell, and the bars that do.
_CELL = re.compile(r"\[[^\[\]\n]*\]|![^!\n|]{1,300}\|[^!\n]{0,300}!|\{[^{}\n]*\}|\\.|(?P<bar>\|\|?)")
_MAX_NESTING = 6


def to_markdown(text: str, people: Mapping[str, str] | None = None) -> str:
    """The text's markdown; `people` maps user names and account ids to names."""
    reader = _WikiReader(people or {})
    for code, part in _split_code(text.replace("\r\n", "\n").replace("\r", "\n")):
        if code is None:
            reader.add_lines(part)
        else:
            reader.add_code(code, part)
    return write_markdown(reader.finish())


def _split_code(text: str) -> Iterator[tuple[re.Match[str] | None, str]]:
    """Code with its opening macro, and the text in between."""
    position = 0
    opening: re.Match[str] | None = None
    for token in _VERBATIM.finditer(text):
        if opening is None:
            yield None, text[position : token.start()]
            opening, position = token, token.end()
        elif opening.group(1).lower() == token.group(1).lower():
            yield opening, text[position : token.start()]
            opening, position = None, token.end()
    yield None, text[position:]


class _WikiReader:
    def __init__(self, people: Mapping[str, str]) -> None:
        self._people = people
        self._root = Node("document")
        self._wrappers: list[tuple[str, Node]] = [("", self._root)]
        self._paragraph: Node | None = None
        self._lists: list[Node] = []
        self._table: Node | None = None
        self._row_lines: list[str] = []

    def finish(self) -> list[Child]:
        """The nodes of the whole text."""
        self._end_block()
        return self._root.children

    def add_code(self, token: re.Match[str], text: str) -> None:
        """A block of code."""
        self._end_block()
        options = [fact.strip() for fact in (token.group(2) or "").split("|")]
        title = next((fact.partition("=")[2] for fact in options if fact.startswith("title=")), "")
        language = next((fact for fact in options if fact and "=" not in fact), "")
        if title:
            self._append(Node("paragraph", [Node("strong", [title])]))
        self._append(Node("code", [text], {"language": language}))

    def add_lines(self, text: str) -> None:
        """Ordinary text, line by line."""
        for line in text.split("\n"):
            position = 0
            for token in _WRAPPER.finditer(line):
                if before := line[position : token.start()].strip():
                    self._add_line(before)
                self._toggle_wrapper(token)
                position = token.end()
            rest = line[position:]
            if position == 0 or rest.strip():
                self._add_line(rest)

    def _toggle_wrapper(self, token: re.Match[str]) -> None:
        """A macro that opens or closes a block around the following lines."""
        self._end_block()
        name = token.group(1).lower()
        if self._wrappers[-1][0] == name:
            self._wrappers.pop()
            return
        if len(self._wrappers) > _MAX_NESTING:
            return
        options = (token.group(2) or "").split("|")
        title = next((fact.partition("=")[2] for fact in options if fact.strip().startswith("title=")), "")
        node = quote_with_label(title, [])
        self._append(node)
        self._wrappers.append((name, node))

    def _add_line(self, line: str) -> None:
        if not line.strip():
            self._end_block()
        elif heading := _HEADING.match(line):
            self._end_block()
            self._append(Node("heading", self._inline(line[heading.end() :]), {"level": heading.group(1)}))
        elif quote := _QUOTE.match(line):
            self._end_block()
            self._append(Node("quote", self._inline(line[quote.end() :])))
        elif _RULE.match(line):
            self._end_block()
            self._append(Node("rule"))
        elif line.lstrip().startswith("|"):
            self._start_row(line.strip())
        elif self._is_row_open():
            self._row_lines.append(line)
        elif item := _ITEM.match(line):
            self._add_item(item.group(1), line[item.end() :])
        else:
            self._add_text(line)

    def _add_text(self, line: str) -> None:
        self._end_row()
        self._table = None
        if self._paragraph is None and self._lists:
            self._paragraph = self._last_item()
        elif self._paragraph is None:
            self._paragraph = Node("paragraph")
            self._append(self._paragraph)
        if self._paragraph.children:
            self._paragraph.children.append(Node("break"))
        self._paragraph.children.extend(self._inline(line))

    def _add_item(self, bullets: str, text: str) -> None:
        self._end_row()
        self._paragraph = self._table = None
        depth = min(len(bullets), _MAX_NESTING)
        attributes = {"ordered": "yes"} if bullets[-1] == "#" else {}
        del self._lists[depth:]
        if len(self._lists) == depth and self._lists[-1].attributes != attributes:
            self._lists.pop()
        while len(self._lists) < depth:
            new = Node("list", [], attributes)
            if self._lists:
                self._last_item().children.append(new)
            else:
                self._append(new)
            self._lists.append(new)
        self._lists[-1].children.append(Node("item", self._inline(text)))

    def _last_item(self) -> Node:
        inner = self._lists[-1]
        if not inner.children:
            inner.children.append(Node("item"))
        last = inner.children[-1]
        return last if isinstance(last, Node) else inner

    def _start_row(self, line: str) -> None:
        if self._table is None:
            self._end_block()
            self._table = Node("table")
            self._append(self._table)
        self._end_row()
        self._row_lines = [line]

    def _end_row(self) -> None:
        """Split the row into cells, once all its lines are there."""
        line = "\n".join(self._row_lines).strip()
        self._row_lines = []
        if not line or self._table is None:
            return
        row = Node("row")
        position = 0
        for token in _CELL.finditer(line):
            if token.group("bar") is None:
                continue
            if token.start() > 0:
                row.children.append(Node("cell", self._cell_children(line[position : token.start()])))
            position = token.end()
        if rest := line[position:].strip():
            row.children.append(Node("cell", self._cell_children(rest)))
        self._table.children.append(row)

    def _cell_children(self, text: str) -> list[Child]:
        children: list[Child] = []
        for line in text.strip().split("\n"):
            children += [Node("break"), *self._inline(line)]
        return children[1:]

    def _is_row_open(self) -> bool:
        """Whether the current row has no bar at its end yet: then it continues on the next line."""
        return bool(self._row_lines) and not self._row_lines[-1].rstrip().endswith("|")

    def _inline(self, text: str) -> list[Child]:
        return read_line(text, self._people)

    def _append(self, node: Node) -> None:
        self._wrappers[-1][1].children.append(node)

    def _end_block(self) -> None:
        self._end_row()
        self._paragraph = self._table = None
        self._lists = []
