"""Writes a tree as markdown.

    nested lists and quotes    indented up to MAX_INDENT levels; deeper ones stay at the last level
    a table                    its first row is the head; cells that span rows are repeated, within `_REPEAT_BUDGET`
    blocks within a cell       on the single line of the cell
    text                       unchanged, except that the start of a line can't begin another block
    a link that runs code      only its text

Indents and repeated cells are bounded, so that a hostile tree can't make the output much longer than the input.
"""

import re
from collections.abc import Iterable
from typing import Any, cast

from gristmill.connectors.markup.tree import BLOCKS, Child, Node

MAX_INDENT = 6
_REPEAT_BUDGET = 20_000  # characters and cells that a text may gain by repeating cells that span
_MAX_REPEATED_TEXT = 80
_MAX_SPAN = 200
_MARKS = {"strong": "**", "em": "*", "strike": "~~"}
_OTHER_BLOCK = re.compile(r"(?m)^(?=#{1,6}(?:\s|$)|```|~~~|>|(?:-{2,}|=+) *$)")
_SAFE_LINK = re.compile(r"(?:https?|mailto|ftp|file|tel|sftp):|[/#?.]|[\w%~-][^:]*$", re.I)
_TICKS = re.compile(r"`+")


def write_markdown(children: Iterable[Child]) -> str:
    """The whole text, stripped."""
    return strip_unstorable(_Writer().blocks(list(children), 0)).strip()


def strip_unstorable(text: str) -> str:
    """`text` without characters that PostgreSQL can't store: NUL and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def storable(values: dict[str, Any]) -> dict[str, Any]:
    """A JSON object without these characters, at any depth."""
    return {strip_unstorable(name): _storable_value(value) for name, value in values.items()}


def _storable_value(value: object) -> Any:
    if isinstance(value, str):
        return strip_unstorable(value)
    if isinstance(value, dict):
        return storable(cast(dict[str, Any], value))
    if isinstance(value, list | tuple):
        return [_storable_value(entry) for entry in cast(list[object], value)]
    return value


class _Writer:
    def __init__(self) -> None:
        self._repeat_budget = _REPEAT_BUDGET

    def blocks(self, children: list[Child], level: int, *, flat: bool = False) -> str:
        """Blocks one below the other; inline content between them is a paragraph."""
        parts: list[tuple[bool, str]] = []  # whether it is a list, and its text
        line: list[Child] = []
        for child in children:
            if isinstance(child, Node) and child.kind in BLOCKS:
                parts.append((False, self._paragraph(line, flat=flat)))
                line = []
                parts.append((child.kind == "list", self._block(child, level, flat=flat)))
            else:
                line.append(child)
        parts.append((False, self._paragraph(line, flat=flat)))
        text: list[str] = []
        for is_list, part in parts:
            if part:
                # Within a list, a nested list follows its item without an empty line.
                text.append("" if not text else "\n" if is_list and level else "\n\n")
                text.append(part)
        return "".join(text)

    def _block(self, node: Node, level: int, *, flat: bool) -> str:
        match node.kind:
            case "heading":
                text = " ".join(self._inline_text(node.children).split())
                mark = "#" * min(max(_number(node, "level", 1), 1), 6)
                return text if flat or not text else f"{mark} {text}"
            case "list":
                return self._list(node, level, flat=flat)
            case "quote":
                text = self.blocks(node.children, level + 1, flat=flat)
                return _with_prefix(text, "" if flat else "> ", level)
            case "code":
                return _mono(_raw(node.children)) if flat else _fence(node)
            case "rule":
                return "" if flat else "---"
            case "table":
                return self._flat_table(node) if flat else self._table(node)
            case "paragraph":
                if not any(isinstance(child, Node) and child.kind in BLOCKS for child in node.children):
                    return self._paragraph(node.children, flat=flat)
                return self.blocks(node.children, level, flat=flat)
            case _:  # an item, row or cell without its parent, or a document within another
                return self.blocks(node.children, level, flat=flat)

    def _paragraph(self, children: list[Child], *, flat: bool) -> str:
        text = self._inline_text(children).strip(" \n")
        return text if flat else _OTHER_BLOCK.sub(r"\\", text)

    def _list(self, node: Node, level: int, *, flat: bool) -> str:
        number = _number(node, "start", 1)
        lines: list[str] = []
        for child in node.children:
            if not isinstance(child, Node):
                plain = child.strip()
                text, marker = plain, "- "
            elif child.kind == "list":  # a list directly in a list, as some editors nest them
                text, marker = self._list(child, level + 1, flat=flat), "  "
            else:
                text = self.blocks([child] if child.kind != "item" else child.children, level + 1, flat=flat)
                marker = f"{number}. " if node.attributes.get("ordered") else "- "
                number += 1
                if done := child.attributes.get("done"):
                    marker += "[x] " if done == "yes" else "[ ] "
            if text:
                lines.append(_with_marker(text, marker, level))
        return "\n".join(lines)

    def _table(self, node: Node) -> str:
        grid = self._grid(node)
        if not grid:
            return ""
        # A row with more cells than the head would lose them; a shorter row is fine.
        grid[0] += [""] * (max(map(len, grid)) - len(grid[0]))
        lines = [f"| {' | '.join(row)} |" for row in grid]
        lines.insert(1, f"|{' --- |' * len(grid[0])}")
        return "\n".join(lines)

    def _flat_table(self, node: Node) -> str:
        return "; ".join(", ".join(filter(None, row)) for row in self._grid(node))

    def _grid(self, node: Node) -> list[list[str]]:
        """The rows of a table, with cells that span rows repeated in each of them."""
        grid: list[list[str]] = []
        spanning: dict[int, tuple[int, str]] = {}  # by column: for how many more rows, and the text
        for row in _rows(node):
            cells: list[str] = []
            for child in row.children:
                if not isinstance(child, Node):
                    if child.strip():
                        cells.append(_cell(child))
                    continue
                self._carry(cells, spanning)
                self._add_cell(cells, spanning, child)
            self._carry(cells, spanning)
            grid.append(cells)
        return [row for row in grid if any(row)]

    def _carry(self, cells: list[str], spanning: dict[int, tuple[int, str]]) -> None:
        while (column := len(cells)) in spanning:
            left, text = spanning.pop(column)
            self._repeat_budget -= len(text) + 1
            if self._repeat_budget < 0:
                return
            cells.append(text)
            if left > 1:
                spanning[column] = (left - 1, text)

    def _add_cell(self, cells: list[str], spanning: dict[int, tuple[int, str]], child: Node) -> None:
        column = len(cells)
        text = _cell(self.blocks(child.children if child.kind == "cell" else [child], 1, flat=True))
        cells.append(text)
        colspan = min(max(_number(child, "columns", 1), 1), _MAX_SPAN)
        for _ in range(colspan - 1):
            self._repeat_budget -= 1
            if self._repeat_budget >= 0:
                cells.append("")
        rowspan = min(max(_number(child, "rows", 1), 1), _MAX_SPAN)
        if rowspan > 1:
            spanning[column] = (rowspan - 1, text if len(text) <= _MAX_REPEATED_TEXT else "")
            for index in range(column + 1, len(cells)):
                spanning[index] = (rowspan - 1, "")

    def _inline_text(self, children: list[Child]) -> str:
        parts: list[str] = []
        for child in _merge_marks(children):
            if isinstance(child, str):
                parts.append(_one_line(child))
            elif child.kind in BLOCKS:
                parts.append(f" {self._block(child, 1, flat=True)} ")
            else:
                parts.append(self._inline_node(child))
        # In this order: a pattern that begins with any number of spaces is slow on many spaces.
        return re.sub(r" ?\n ?", "\n", re.sub(r" {2,}", " ", "".join(parts)))

    def _inline_node(self, node: Node) -> str:
        if node.kind == "break":
            return "\n"
        if node.kind == "mono":
            return _mono(_raw(node.children))
        text = self._inline_text(node.children)
        if node.kind == "link":
            return _link(text, node.attributes.get("href", ""))
        if node.kind == "image":
            return _image(
                node.attributes.get("alt", "").strip() or text.strip(), node.attributes.get("href", "")
            )
        mark = _MARKS.get(node.kind, "")
        inner = text.strip()
        if not mark or not inner or "\n" in inner:
            return text
        start = text[: len(text) - len(text.lstrip())]
        return f"{start}{mark}{inner}{mark}{text[len(text.rstrip()) :]}"


def _rows(table: Node) -> list[Node]:
    rows: list[Node] = []
    for child in table.children:
        if isinstance(child, Node):
            rows.append(child if child.kind == "row" else Node("row", [child]))
        elif child.strip():
            rows.append(Node("row", [Node("cell", [child])]))
    return rows


def _merge_marks(children: list[Child]) -> list[Child]:
    """Adjacent nodes with the same mark as one, so that no mark ends within a word."""
    joined: list[Child] = []
    is_copy = False  # whether the last one is our copy, and may be extended
    for child in children:
        last = joined[-1] if joined else None
        if (
            isinstance(child, Node)
            and isinstance(last, Node)
            and child.kind == last.kind
            and child.attributes == last.attributes
            and child.kind in ("strong", "em", "strike", "link", "mono")
        ):
            if not is_copy:
                joined[-1] = last = Node(child.kind, list(last.children), child.attributes)
                is_copy = True
            last.children.extend(child.children)
        else:
            joined.append(child)
            is_copy = False
    return joined


def _raw(children: list[Child]) -> str:
    """The text of all descendants, with its spaces and line breaks."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, str):
            parts.append(child)
        else:
            parts.append("\n" if child.kind == "break" else _raw(child.children))
    return "".join(parts)


def _one_line(text: str) -> str:
    return re.sub(r"[ \t\r\n\f\v\u00a0\u2028\u2029]+", " ", text)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _mono(text: str) -> str:
    inner = " ".join(text.split())
    if not inner:
        return " " if text else ""
    ticks = "`" * (max((len(run) for run in _TICKS.findall(inner)), default=0) + 1)
    pad = " " if inner.startswith("`") or inner.endswith("`") else ""
    before, after = " " * text[0].isspace(), " " * text[-1].isspace()
    return f"{before}{ticks}{pad}{inner}{pad}{ticks}{after}"


def _fence(node: Node) -> str:
    text = _raw(node.children).replace("\r\n", "\n").strip("\n")
    if not text.strip():
        return ""
    fence = "`" * max(3, max((len(run) for run in _TICKS.findall(text)), default=0) + 1)
    language = re.sub(r"[^\w+#.-]", "", node.attributes.get("language", ""))[:30]
    return f"{fence}{language}\n{text}\n{fence}"


def _link(text: str, href: str) -> str:
    label = " ".join(text.split())
    target = _target(href)
    if not target:
        return text
    if not label or label in (href, target):
        return target
    start = text[: len(text) - len(text.lstrip())]
    return f"{start}[{label}]({target}){text[len(text.rstrip()) :]}"


def _target(href: str) -> str:
    """An address that a markdown link can contain; empty when it is not safe to follow."""
    address = "%20".join(href.split()).replace("(", "%28").replace(")", "%29")
    return address if _SAFE_LINK.match(address) else ""


def _image(alt: str, href: str) -> str:
    target = _target(href)
    label = " ".join(alt.split())
    if not target:
        return label
    return f"![{label or href.strip()}]({target})"


def _with_marker(text: str, marker: str, level: int) -> str:
    """`text` after its marker, with further lines indented to its first letter."""
    if level >= MAX_INDENT:
        return marker.lstrip() + text if marker.strip() else text
    width = " " * min(len(marker), 4)
    return marker + re.sub(r"\n(?=[^\n])", "\n" + width, text)


def _with_prefix(text: str, prefix: str, level: int) -> str:
    if not text or not prefix or level >= MAX_INDENT:
        return text
    return "\n".join(f"{prefix}{line}".rstrip() for line in text.split("\n"))


def _number(node: Node, name: str, default: int) -> int:
    value = node.attributes.get(name, "")
    return int(value) if value.isdecimal() and len(value) < 10 else default
