"""The text of a Word document's parts as markdown: paragraphs, lists, tables, equations, notes, comments, text boxes and charts.

A note follows the paragraph that refers to it, and so do comments, text boxes, charts and SmartArt that are anchored there. What was
deleted with changes tracked is left out. PAGE_BREAK marks where a page begins.
"""

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gristmill.readers.formats.charts import chart_markdown
from gristmill.readers.formats.docx_styles import WordLists, WordStyles, attribute
from gristmill.readers.formats.equations import latex
from gristmill.readers.formats.ooxml import A, R, caption, diagram_texts, drawing_paragraph, local_name
from gristmill.readers.markdown_tables import markdown_table
from gristmill.readers.sink import DocumentRefused

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
PAGE_BREAK = "\f"
_MAX_DEPTH = 100
_MAX_SPAN = 64
_SKIPPED = frozenset(
    ("pPr", "rPr", "sdtPr", "sdtEndPr", "tblPr", "trPr", "tcPr", "del", "moveFrom", "instrText", "delText", "Fallback", "fldData", "ffData", "sectPr")
)  # fmt: skip
_CHARACTERS = {"tab": "\t", "cr": "\n", "noBreakHyphen": "-", "softHyphen": "", "ptab": "\t"}
_PRIVATE_USE = range(0xE000, 0xF900)


@dataclass
class WordContext:
    """What the text of a part refers to."""

    styles: WordStyles
    lists: WordLists
    notes: dict[tuple[str, str], Any]  # by kind (footnote, endnote, comment) and id
    parse: Callable[[str], Any]  # the root of another part, or None
    targets: dict[str, str] = field(default_factory=dict[str, str])  # parts by relationship
    addresses: dict[str, str] = field(default_factory=dict[str, str])
    has_rendered_breaks: bool = False  # whether pages are recorded; else only manual page breaks are known
    note_count: int = 0


class WordText:
    """Renders a part."""

    def __init__(self, context: WordContext) -> None:
        self._context = context
        self._after: list[str] = []  # what follows the paragraph

    def blocks(self, node: Any, depth: int = 0) -> Iterator[str]:
        """The paragraphs and tables inside `node`, as markdown."""
        if depth > _MAX_DEPTH:
            raise DocumentRefused("It is nested too deeply to be a valid document.", code="corrupt")
        for child in node:
            name = local_name(child)
            if name == "p":
                yield from self._paragraph(child, depth)
            elif name == "tbl":
                yield from self._table(child, depth)
            elif name in ("oMathPara", "oMath"):
                yield f"$${latex(child)}$$"
            elif name and name not in _SKIPPED:
                yield from self.blocks(child, depth + 1)

    # ── paragraphs ───────────────────────────────────────────────────────────────────────────────────────

    def _paragraph(self, node: Any, depth: int) -> Iterator[str]:
        outer, self._after = self._after, []
        properties = node.find(f"{W}pPr")
        text = self._inline(node, depth + 1).strip(" \t\n")
        breaks = PAGE_BREAK * (len(text) - len(text.lstrip(PAGE_BREAK)))
        begins_page = properties is not None and properties.find(f"{W}pageBreakBefore") is not None
        if begins_page and not self._context.has_rendered_breaks:
            breaks = PAGE_BREAK
        text = text.lstrip(PAGE_BREAK).strip(" \t\n")
        if text or breaks:
            yield breaks + (self._with_label(text, properties) if text else "")
        following, self._after = self._after, outer
        yield from following

    def _with_label(self, text: str, properties: Any) -> str:
        level = self._context.styles.heading_level(properties)
        place = self._context.styles.list_of(properties)
        label = self._context.lists.next_label(*place) if place else ""
        if level:
            number = label if label != "-" else ""
            return "#" * level + " " + " ".join(f"{number} {text}".split())
        if place and label:
            return f"{'  ' * min(place[1], 8)}{label} {text}"
        return text

    def _inline(self, node: Any, depth: int) -> str:
        if depth > _MAX_DEPTH:
            return ""
        pieces: list[str] = []
        for child in node:
            name = local_name(child)
            if name == "t":
                pieces.append(child.text or "")
            elif not name or name in _SKIPPED:
                continue
            elif name in _CHARACTERS:
                pieces.append(_CHARACTERS[name])
            else:
                pieces.append(self._element(child, name, depth))
        return "".join(pieces)

    def _element(self, node: Any, name: str, depth: int) -> str:
        match name:
            case "br":
                is_page = node.get(f"{W}type") == "page"
                return (PAGE_BREAK if not self._context.has_rendered_breaks else "") if is_page else "\n"
            case "lastRenderedPageBreak":
                return PAGE_BREAK
            case "sym":
                code = (
                    int(node.get(f"{W}char") or "0", 16)
                    if re.fullmatch("[0-9A-Fa-f]+", node.get(f"{W}char") or "")
                    else 0
                )
                return chr(code) if 32 <= code < 0x110000 and code not in _PRIVATE_USE else ""
            case "footnoteReference" | "endnoteReference":
                return self._note(name.removesuffix("Reference"), node.get(f"{W}id") or "", depth)
            case "commentReference":
                self._add_comment(node.get(f"{W}id") or "", depth)
                return ""
            case "hyperlink":
                return self._link(node, depth)
            case "ruby":
                base, reading = (
                    " ".join(self._inline(part, depth + 1) for part in node.iterchildren(f"{W}{part_name}"))
                    for part_name in ("rubyBase", "rt")
                )
                return f"{base} ({reading})" if reading.strip() else base
            case "oMath":
                return f"${latex(node)}$"
            case "oMathPara":
                return f"$${latex(node)}$$"
            case "drawing" | "pict" | "object":
                return self._drawing(node, depth)
            case "AlternateContent":
                choice = node.find("{*}Choice")
                return self._inline(choice if choice is not None else node, depth + 1)
            case _:
                return self._inline(node, depth + 1)

    def _link(self, node: Any, depth: int) -> str:
        text = self._inline(node, depth + 1)
        address = self._context.addresses.get(node.get(f"{R}id") or "", "")
        label = text.strip()
        if not address or not label or label == address or re.search(r"[\s()]", address) or "\n" in label:
            return text
        return text.replace(label, f"[{label}]({address})")

    def _note(self, kind: str, note_id: str, depth: int) -> str:
        """A reference to a note, whose text follows the paragraph; each note once."""
        note = self._context.notes.pop((kind, note_id), None)
        text = (
            " ".join(self.blocks(note, depth + 1)).replace(PAGE_BREAK, "").strip() if note is not None else ""
        )
        if not text:
            return ""
        self._context.note_count += 1
        self._after.append(f"[^{self._context.note_count}]: {text}")
        return f"[^{self._context.note_count}]"

    def _add_comment(self, comment_id: str, depth: int) -> None:
        comment = self._context.notes.pop(("comment", comment_id), None)
        if comment is not None and (text := self.comment_text(comment, depth)):
            self._after.append(text)

    def comment_text(self, comment: Any, depth: int = 0) -> str:
        """A comment with its author."""
        text = " ".join(self.blocks(comment, depth + 1)).replace(PAGE_BREAK, "").strip()
        author = (comment.get(f"{W}author") or "").strip()
        return f"> {f'{author}: ' if author else ''}{text}" if text else ""

    # ── what is anchored in a paragraph ──────────────────────────────────────────────────────────────────

    def _drawing(self, node: Any, depth: int) -> str:
        """The link of a picture; text boxes, charts and SmartArt are put after the paragraph."""
        links: list[str] = []
        self._walk_drawing(node, links, depth)
        return " ".join(links)

    def _walk_drawing(self, node: Any, links: list[str], depth: int) -> None:
        if depth > _MAX_DEPTH:
            return
        for child in node:
            name = local_name(child)
            if name == "txbxContent":
                self._after += list(self.blocks(child, depth + 1))
            elif name in ("blip", "imagedata"):
                target = self._context.targets.get(child.get(f"{R}embed") or child.get(f"{R}id") or "", "")
                if target:
                    links.append(f"![{caption(_anchor(child))}]({posixpath.basename(target)})")
            elif name == "chart" and child.get(f"{R}id"):
                self._add_part(child.get(f"{R}id"), chart_markdown)
            elif name == "relIds":
                self._add_part(child.get(f"{R}dm"), lambda tree: "\n\n".join(diagram_texts(tree)))
            elif child.tag == f"{A}p":
                self._after += [text] if (text := drawing_paragraph(child)) else []
            elif name == "textpath" and child.get("string"):
                self._after.append(child.get("string"))
            elif name and name != "Fallback":
                self._walk_drawing(child, links, depth + 1)

    def _add_part(self, relationship: str | None, render: Callable[[Any], str]) -> None:
        target = self._context.targets.get(relationship or "")
        tree = self._context.parse(target) if target else None
        if tree is not None and (text := render(tree)):
            self._after.append(text)

    # ── tables ───────────────────────────────────────────────────────────────────────────────────────────

    def _table(self, node: Any, depth: int) -> Iterator[str]:
        outer, self._after = self._after, []
        rows: list[list[str]] = []
        breaks = 0
        for row in _descend(node, "tr"):
            if row.find(f"{W}trPr/{W}del") is not None:
                continue
            cells: list[str] = []
            for cell in _descend(row, "tc"):
                texts = list(self.blocks(cell, depth + 1))
                breaks = max(breaks, sum(text.count(PAGE_BREAK) for text in texts))
                text = _cell_text(texts)
                span = attribute(cell, "tcPr/gridSpan") or "1"
                merge = cell.find(f"{W}tcPr/{W}vMerge")
                if merge is not None and merge.get(f"{W}val") != "restart" and not text and rows:
                    text = rows[-1][len(cells)] if len(cells) < len(rows[-1]) else ""
                cells += [text] * (min(int(span), _MAX_SPAN) if span.isdigit() else 1)
            rows.append(cells)
        rows = [row for row in rows if any(row)]
        following, self._after = self._after, outer
        if len(rows) == 1 and len(set(rows[0])) == 1:  # a box around text
            yield rows[0][0]
        elif rows:
            width = max(map(len, rows))
            yield (
                PAGE_BREAK * breaks
                + markdown_table([row + [""] * (width - len(row)) for row in rows]).rstrip()
            )
        yield from following


def _cell_text(texts: list[str]) -> str:
    """The blocks of a cell on one line; rows of a table inside it follow each other."""
    joined = " ".join(re.sub(r"(?m)^\|[ |:-]*---[ |:-]*$\n?", "", text) for text in texts).replace(
        PAGE_BREAK, ""
    )
    return " ".join(re.sub(r"\s*(?<!\\)\|\s*", " ", joined).split())


def _descend(node: Any, name: str) -> Iterator[Any]:
    """The rows or cells, also those in content controls and tracked changes."""
    for child in node:
        child_name = local_name(child)
        if child_name == name:
            yield child
        elif child_name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"):
            yield from _descend(child, name)


def _anchor(node: Any) -> Any:
    """The drawing that a picture is part of, which has its description."""
    for above in node.iterancestors("{*}inline", "{*}anchor", "{*}pic", "{*}shape"):
        return above
    return node
