"""wiki: Jira's wiki markup as markdown. What Server and Data Center keep descriptions and comments in.

    h1. …    bq. …    * # - lists    ||head||  |cell|    ----      blocks of one line
    {quote} {panel:title=…}                                        begin and end a quote
    {code:lang|title=…} {noformat}                                 code as it stands; without an end, ordinary text
    any other line                                                 part of a paragraph, its line kept

Marks within a line are wiki_inline's. Never raises.
"""

import re
from collections.abc import Iterator, Mapping

from gristmill.connectors.markup.tree import Child, Node, labelled
from gristmill.connectors.markup.wiki_inline import read_line
from gristmill.connectors.markup.writer import write

_VERBATIM = re.compile(r"(?<!\\)\{(code|noformat)(?::([^{}\n]*))?\}", re.I)
_AROUND = re.compile(r"(?<!\\)\{(quote|panel)(?::([^{}\n]*))?\}", re.I)
_HEADING = re.compile(r"\s*h([1-6])\.(?:\s+|$)")
_QUOTE = re.compile(r"\s*bq\.\s+")
_ITEM = re.compile(r"\s*([*#]{1,20}|-)\s+(?=\S)")
_RULE = re.compile(r"\s*-{4,}\s*$")
# What a bar inside of does not end a cell, and the bars that do.
_CELL = re.compile(r"\[[^\[\]\n]*\]|![^!\n|]{1,300}\|[^!\n]{0,300}!|\{[^{}\n]*\}|\\.|(?P<bar>\|\|?)")
_MOST_NESTED = 6


def to_markdown(text: str, people: Mapping[str, str] | None = None) -> str:
    """The text's markdown; `people` maps user names and account ids to names."""
    reader = _Reader(people or {})
    for code, part in _parts(text.replace("\r\n", "\n").replace("\r", "\n")):
        if code is None:
            reader.lines(part)
        else:
            reader.code(code, part)
    return write(reader.done())


def _parts(text: str) -> Iterator[tuple[re.Match[str] | None, str]]:
    """Code with the macro that holds it, and the text between."""
    position = 0
    opened: re.Match[str] | None = None
    for token in _VERBATIM.finditer(text):
        if opened is None:
            yield None, text[position : token.start()]
            opened, position = token, token.end()
        elif opened.group(1).lower() == token.group(1).lower():
            yield opened, text[position : token.start()]
            opened, position = None, token.end()
    yield None, text[position:]


class _Reader:
    def __init__(self, people: Mapping[str, str]) -> None:
        self._people = people
        self._root = Node("document")
        self._around: list[tuple[str, Node]] = [("", self._root)]
        self._paragraph: Node | None = None
        self._lists: list[Node] = []
        self._table: Node | None = None
        self._row_lines: list[str] = []

    def done(self) -> list[Child]:
        """All that was read."""
        self._end_line()
        return self._root.children

    def code(self, token: re.Match[str], text: str) -> None:
        """A block of code."""
        self._end_line()
        facts = [fact.strip() for fact in (token.group(2) or "").split("|")]
        title = next((fact.partition("=")[2] for fact in facts if fact.startswith("title=")), "")
        language = next((fact for fact in facts if fact and "=" not in fact), "")
        if title:
            self._add(Node("paragraph", [Node("strong", [title])]))
        self._add(Node("code", [text], {"language": language}))

    def lines(self, text: str) -> None:
        """Ordinary text, line by line."""
        for line in text.split("\n"):
            position = 0
            for token in _AROUND.finditer(line):
                if before := line[position : token.start()].strip():
                    self._line(before)
                self._turn(token)
                position = token.end()
            rest = line[position:]
            if position == 0 or rest.strip():
                self._line(rest)

    def _turn(self, token: re.Match[str]) -> None:
        """A macro that begins or ends what is around the lines that follow."""
        self._end_line()
        name = token.group(1).lower()
        if self._around[-1][0] == name:
            self._around.pop()
            return
        if len(self._around) > _MOST_NESTED:
            return
        facts = (token.group(2) or "").split("|")
        title = next((fact.partition("=")[2] for fact in facts if fact.strip().startswith("title=")), "")
        node = labelled(title, [])
        self._add(node)
        self._around.append((name, node))

    def _line(self, line: str) -> None:
        if not line.strip():
            self._end_line()
        elif heading := _HEADING.match(line):
            self._end_line()
            self._add(Node("heading", self._read(line[heading.end() :]), {"level": heading.group(1)}))
        elif quote := _QUOTE.match(line):
            self._end_line()
            self._add(Node("quote", self._read(line[quote.end() :])))
        elif _RULE.match(line):
            self._end_line()
            self._add(Node("rule"))
        elif line.lstrip().startswith("|"):
            self._row(line.strip())
        elif self._row_goes_on():
            self._row_lines.append(line)
        elif item := _ITEM.match(line):
            self._item(item.group(1), line[item.end() :])
        else:
            self._words(line)

    def _words(self, line: str) -> None:
        self._end_row()
        self._table = None
        if self._paragraph is None and self._lists:
            self._paragraph = self._last_item()
        elif self._paragraph is None:
            self._paragraph = Node("paragraph")
            self._add(self._paragraph)
        if self._paragraph.children:
            self._paragraph.children.append(Node("break"))
        self._paragraph.children.extend(self._read(line))

    def _item(self, marks: str, text: str) -> None:
        self._end_row()
        self._paragraph = self._table = None
        depth = min(len(marks), _MOST_NESTED)
        facts = {"ordered": "yes"} if marks[-1] == "#" else {}
        del self._lists[depth:]
        if len(self._lists) == depth and self._lists[-1].facts != facts:
            self._lists.pop()
        while len(self._lists) < depth:
            new = Node("list", [], facts)
            if self._lists:
                self._last_item().children.append(new)
            else:
                self._add(new)
            self._lists.append(new)
        self._lists[-1].children.append(Node("item", self._read(text)))

    def _last_item(self) -> Node:
        inner = self._lists[-1]
        if not inner.children:
            inner.children.append(Node("item"))
        last = inner.children[-1]
        return last if isinstance(last, Node) else inner

    def _row(self, line: str) -> None:
        if self._table is None:
            self._end_line()
            self._table = Node("table")
            self._add(self._table)
        self._end_row()
        self._row_lines = [line]

    def _end_row(self) -> None:
        """Part the row into its cells, once all of its lines are there."""
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
                row.children.append(Node("cell", self._cell(line[position : token.start()])))
            position = token.end()
        if rest := line[position:].strip():
            row.children.append(Node("cell", self._cell(rest)))
        self._table.children.append(row)

    def _cell(self, text: str) -> list[Child]:
        children: list[Child] = []
        for line in text.strip().split("\n"):
            children += [Node("break"), *self._read(line)]
        return children[1:]

    def _row_goes_on(self) -> bool:
        """A row of more than one line goes on until a bar ends it."""
        return bool(self._row_lines) and not self._row_lines[-1].rstrip().endswith("|")

    def _read(self, text: str) -> list[Child]:
        return read_line(text, self._people)

    def _add(self, node: Node) -> None:
        self._around[-1][1].children.append(node)

    def _end_line(self) -> None:
        self._end_row()
        self._paragraph = self._table = None
        self._lists = []
