"""The text of OpenDocument XML as markdown: headings, paragraphs, lists, tables, notes, comments, text boxes, charts and formulas.

Repeated rows and cells, of which a table may claim millions, count as one unless they contain text. Cells that are merged all have
the text of the first. Comments and what is anchored in a paragraph follow it.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gristmill.readers import markdown_tables
from gristmill.readers.formats.mathml import mathml_latex
from gristmill.readers.sink import DocumentRefused

_NS = "urn:oasis:names:tc:opendocument:xmlns:"
TEXT, TABLE, DRAW = (f"{{{_NS}{name}:1.0}}" for name in ("text", "table", "drawing"))
OFFICE, PRESENTATION, SVG, CHART = (
    f"{{{_NS}{name}:1.0}}" for name in ("office", "presentation", "svg-compatible", "chart")
)
LINK = "{http://www.w3.org/1999/xlink}href"
_CREATOR = "{http://purl.org/dc/elements/1.1/}creator"
_MAX_REPEATED = 100
_MAX_SPAN = 64
_MAX_DEPTH = 200
_SKIPPED = (f"{TEXT}tracked-changes", f"{OFFICE}forms", f"{TABLE}tracked-changes")
# Fields of headers, which change from page to page.
_CHANGING = tuple(
    f"{TEXT}{name}"
    for name in ("page-number", "page-count", "sheet-name", "date", "time", "file-name", "page-continuation")
)
_BLOCK_TAGS = (f"{TEXT}p", f"{TEXT}h")


class OpenDocumentText:
    """Renders elements; `objects` are the texts of charts and formulas by the names of their folders."""

    def __init__(self, objects: Mapping[str, str] | None = None, *, without_fields: bool = False) -> None:
        self._objects = objects or {}
        self._without_fields = without_fields
        self._comments: list[str] = []

    def blocks(self, node: Any, depth: int = 0) -> Iterator[str]:
        """The blocks inside `node`."""
        if depth > _MAX_DEPTH:
            raise DocumentRefused("It is nested too deeply to be a valid document.", code="corrupt")
        for child in node:
            if not isinstance(child.tag, str) or child.tag in _SKIPPED:
                continue
            if child.tag in _BLOCK_TAGS:
                yield from self._paragraph(child, depth)
            elif child.tag == f"{TEXT}list":
                yield "\n".join(self._list(child, 0))
                yield from self._take_comments()
            elif child.tag == f"{TABLE}table":
                yield self.table(child)
                yield from self._take_comments()
            elif child.tag == f"{OFFICE}annotation":
                self._add_comment(child)
                yield from self._take_comments()
            elif child.tag.startswith((PRESENTATION, DRAW)):
                yield from self._drawing(child, node, depth)
            else:
                yield from self.blocks(child, depth + 1)

    def _paragraph(self, node: Any, depth: int) -> Iterator[str]:
        text = self.inline(node)
        if text and node.tag == f"{TEXT}h":
            level = node.get(f"{TEXT}outline-level", "1")
            text = "#" * min(int(level) if level.isdigit() else 1, 6) + " " + " ".join(text.split())
        if text:
            yield text
        yield from self._take_comments()
        for anchored in _drawings(node):
            yield from self._drawing(anchored, node, max(depth, 50) + 1)

    def _take_comments(self) -> list[str]:
        comments, self._comments = self._comments, []
        return comments

    def _add_comment(self, node: Any) -> None:
        text = " ".join(filter(None, (self.inline(part) for part in node.iter(f"{TEXT}p"))))
        author = "".join(node.findtext(_CREATOR) or "").strip()
        if text:
            self._comments.append(f"> {f'{author}: ' if author else ''}{text}")

    # ── drawings ─────────────────────────────────────────────────────────────────────────────────────────

    def _drawing(self, node: Any, parent: Any, depth: int) -> Iterator[str]:
        if depth > _MAX_DEPTH:
            raise DocumentRefused("It is nested too deeply to be a valid document.", code="corrupt")
        if node.tag == f"{PRESENTATION}notes":
            yield from (f"> {text}" for text in self.blocks(node, depth + 1) if not text.isdigit())
        elif node.tag == f"{DRAW}frame" and node.get(f"{PRESENTATION}class") == "title":
            yield "## " + " ".join(self.blocks(node, depth + 1))
        elif node.tag == f"{DRAW}image":
            name = posixpath.basename(node.get(LINK, ""))
            if not name.startswith(("Object", "Obj1")) and name:
                yield f"![{_caption(parent)}]({name})"
        elif node.tag == f"{DRAW}object":
            yield self._objects.get(node.get(LINK, "").removeprefix("./").strip("/"), "")
        else:
            yield from self.blocks(node, depth + 1)

    # ── lists, lines, tables ─────────────────────────────────────────────────────────────────────────────

    def _list(self, node: Any, level: int) -> Iterator[str]:
        for item in node.iter(f"{TEXT}list-item", f"{TEXT}list-header"):
            if item.getparent() is not node:
                continue
            for child in item:
                if child.tag == f"{TEXT}list":
                    yield from self._list(child, level + 1)
                elif child.tag in _BLOCK_TAGS:
                    if text := self.inline(child):
                        yield f"{'  ' * level}- {text}"
                    for anchored in _drawings(child):
                        yield from filter(None, self._drawing(anchored, child, 100))

    def inline(self, node: Any) -> str:
        """The text of a paragraph or a part of it."""
        parts: list[str] = [node.text or ""]
        for child in node:
            if child.tag in (f"{TEXT}s", f"{TEXT}tab", f"{TEXT}line-break"):
                parts.append({"s": " ", "tab": "\t"}.get(child.tag[len(TEXT) :], "\n"))
            elif child.tag == f"{TEXT}a" and child.get(LINK):
                parts.append(f"[{self.inline(child)}]({child.get(LINK)})")
            elif child.tag == f"{TEXT}note":
                parts.append(f" ({' '.join(self.inline(part) for part in child.iter(f'{TEXT}p'))})")
            elif child.tag == f"{TEXT}ruby":
                base, reading = child.find(f"{TEXT}ruby-base"), child.find(f"{TEXT}ruby-text")
                parts.append(self.inline(base) if base is not None else "")
                parts.append(f" ({self.inline(reading)})" if reading is not None else "")
            elif child.tag == f"{OFFICE}annotation":
                self._add_comment(child)
            elif isinstance(child.tag, str) and not child.tag.startswith(DRAW):
                parts.append("" if self._without_fields and child.tag in _CHANGING else self.inline(child))
            parts.append(child.tail or "")
        return "".join(parts).strip() if node.tag in _BLOCK_TAGS else "".join(parts)

    def table(self, node: Any) -> str:
        """A table."""
        rows: list[list[str]] = []
        spans: dict[int, tuple[int, str]] = {}  # by column: how many more rows a cell covers, and its text
        for row in node.iter(f"{TABLE}table-row"):
            if next(row.iterancestors(f"{TABLE}table"), None) is not node:
                continue  # of a table in a cell
            cells = self._cells(row, spans)
            while cells and not cells[-1]:
                cells.pop()
            if cells:
                rows += [cells] * _number(row, "number-rows-repeated", _MAX_REPEATED)
        width = max(map(len, rows), default=0)
        return markdown_tables.markdown_table([row + [""] * (width - len(row)) for row in rows]).rstrip()

    def _cells(self, row: Any, spans: dict[int, tuple[int, str]]) -> list[str]:
        cells: list[str] = []
        for cell in row:
            if cell.tag not in (f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
                continue
            text = " ".join(filter(None, (_one_line(part) for part in self.blocks(cell, 20))))
            times = _number(cell, "number-columns-repeated", _MAX_REPEATED)
            times = times if text else min(times, 20)
            if cell.tag == f"{TABLE}covered-table-cell" and not text:
                cells += [_take_span(spans, len(cells) + place) for place in range(times)]
                continue
            width, height = (
                _number(cell, "number-columns-spanned", _MAX_SPAN),
                _number(cell, "number-rows-spanned", _MAX_REPEATED),
            )
            if text and (width > 1 or height > 1):
                for place in range(width):
                    spans[len(cells) + place] = (height if place else height - 1, text)
            cells += [text] * times
        return cells


def chart_text(tree: Any) -> str:
    """A chart: its titles and the values as a table."""
    writer = OpenDocumentText()
    titles = [" ".join(writer.blocks(node)) for node in tree.iter(f"{CHART}title", f"{CHART}subtitle")]
    tables = [writer.table(node) for node in tree.iter(f"{TABLE}table")]
    return "\n\n".join(filter(None, [" · ".join(filter(None, titles)), *tables]))


def formula_text(tree: Any) -> str:
    """A formula as LaTeX."""
    text = mathml_latex(tree)
    return f"$${text}$$" if text else ""


def _drawings(paragraph: Any) -> Iterator[Any]:
    """The outermost drawings that are anchored in a paragraph."""
    for child in paragraph:
        if not isinstance(child.tag, str) or child.tag in (f"{TEXT}note", f"{OFFICE}annotation"):
            continue
        if child.tag.startswith(DRAW):
            yield child
        else:
            yield from _drawings(child)


def _take_span(spans: dict[int, tuple[int, str]], column: int) -> str:
    """The text of the cell that covers this place."""
    rows, text = spans.get(column, (0, ""))
    if rows <= 0:
        return ""
    spans[column] = (rows - 1, text)
    return text


def _one_line(block: str) -> str:
    """A block as part of a cell; a table inside it loses its lines."""
    if block.startswith("|"):
        block = re.sub(r"(?m)^\|(?: --- \|)+$\n?", "", block)
        return " ".join(re.sub(r"(?<!\\)\|", " ", block).split())
    return block.strip()


def _caption(frame: Any) -> str:
    description = next(frame.iter(f"{SVG}title", f"{SVG}desc"), None)
    return re.sub(r"[\[\]\n]+", " ", "".join(description.itertext())) if description is not None else ""


def _number(node: Any, name: str, limit: int) -> int:
    count = node.get(f"{TABLE}{name}", "1")
    return max(1, min(int(count), limit)) if count.isdigit() else 1
