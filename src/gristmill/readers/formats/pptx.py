"""Presentations (pptx): titles, text, tables, charts, SmartArt, equations, notes, comments and pictures; each slide is a page.

Hidden slides are read like others. Headers and footers of slides and notes are text of their placeholders.
"""

import posixpath
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

from gristmill.readers import markdown_tables
from gristmill.readers.formats import ooxml, package
from gristmill.readers.formats.charts import chart_markdown
from gristmill.readers.formats.ooxml import A as _A
from gristmill.readers.formats.ooxml import R as _R
from gristmill.readers.sink import DocumentRefused, Sink

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_TITLE_PLACEHOLDERS = ("title", "ctrTitle")
_SKIPPED_PLACEHOLDERS = ("sldNum",)


def read(sink: Sink) -> None:
    """Read a presentation."""
    package.check(sink)
    page_of: dict[str, int] = {}
    texts: list[str] = []
    start = sink.characters
    with zipfile.ZipFile(sink.task.path) as archive:
        slides = list(_slide_paths(sink, archive))
        sink.report.pages_total, sink.report.pages_read = len(slides), 0
        for number, name in enumerate(slides, 1):
            if number > sink.task.after_page:
                sink.begin_page(number, len(slides))
            relationships = ooxml.relationships(sink, archive, name)
            for target in relationships.values():
                page_of.setdefault(posixpath.basename(target), number)
            if number <= sink.task.after_page:  # another child has read it
                sink.report.pages_read += 1
                continue
            text = _slide_text(sink, archive, name, relationships)
            if text:
                texts.append(text + "\n\n")
                sink.add_text(texts[-1], number)
            sink.report.pages_read += 1
    package.add_contents(sink, "".join(texts), start, page_of)
    if (
        not sink.text_length
        and not sink.image_count
        and not sink.attachment_count
        and not sink.report.warnings
    ):
        sink.warn("empty")


def _slide_paths(sink: Sink, archive: zipfile.ZipFile) -> Iterator[str]:
    relationships = ooxml.relationships(sink, archive, "ppt/presentation.xml")
    tree = ooxml.parse_part(sink, archive, "ppt/presentation.xml")
    if tree is None:
        raise DocumentRefused("Its list of slides is broken.", code="corrupt")
    for slide in tree.iter(f"{_P}sldId"):
        target = relationships.get(slide.get(f"{_R}id", ""))
        if target:
            yield target


def _slide_text(sink: Sink, archive: zipfile.ZipFile, name: str, relationships: dict[str, str]) -> str:
    tree = ooxml.parse_part(sink, archive, name)
    if tree is None:
        return ""

    def part(target: str) -> Any:
        return ooxml.parse_part(sink, archive, target)

    blocks = list(_blocks(tree, relationships, part))
    for target in relationships.values():
        if "/notesSlides/" in target and (notes := part(target)) is not None:
            note_blocks = [block for block in _blocks(notes, {}, part) if not block.isdigit()]
            blocks += [f"> {line}" for block in note_blocks for line in block.splitlines() if line.strip()]
        elif "/comments/" in target and (comments := part(target)) is not None:
            blocks += [f"> {''.join(node.itertext())}" for node in comments.iter(f"{_P}text")]
            blocks += [
                f"> {text}" for node in comments.iter(f"{_A}p") if (text := ooxml.drawing_paragraph(node))
            ]
    return "\n\n".join(block for block in blocks if block.strip())


def _blocks(tree: Any, relationships: dict[str, str], part: Callable[[str], Any]) -> Iterator[str]:
    for shape in tree.iter(f"{_P}sp", f"{_P}graphicFrame", f"{_P}pic", f"{_P}cxnSp"):
        if any(ooxml.local_name(above) == "Fallback" for above in shape.iterancestors()):
            continue
        if shape.tag == f"{_P}pic":
            yield _picture(shape, relationships)
            continue
        placeholder = next(shape.iter(f"{_P}ph"), None)
        kind = placeholder.get("type", "") if placeholder is not None else ""
        if kind in _SKIPPED_PLACEHOLDERS:
            continue
        if shape.tag == f"{_P}graphicFrame":
            yield from _frame(shape, relationships, part)
            continue
        paragraphs = [text for paragraph in shape.iter(f"{_A}p") if (text := _paragraph(paragraph))]
        if kind in _TITLE_PLACEHOLDERS and paragraphs:
            yield "## " + " ".join(paragraphs)
        else:
            yield "\n\n".join(paragraphs)


def _frame(shape: Any, relationships: dict[str, str], part: Callable[[str], Any]) -> Iterator[str]:
    """A table, a chart, a SmartArt or another object."""
    if (table := next(shape.iter(f"{_A}tbl"), None)) is not None:
        yield markdown_tables.markdown_table(_rows(table)).rstrip()
        return
    for node in shape.iter("{*}chart", "{*}relIds"):
        is_chart = ooxml.local_name(node) == "chart"
        target = relationships.get(node.get(f"{_R}{'id' if is_chart else 'dm'}", ""))
        if target and (tree := part(target)) is not None:
            yield chart_markdown(tree) if is_chart else "\n\n".join(ooxml.diagram_texts(tree))


def _picture(shape: Any, relationships: dict[str, str]) -> str:
    image = next(shape.iter(f"{_A}blip"), None)
    target = relationships.get(image.get(f"{_R}embed", ""), "") if image is not None else ""
    caption = ooxml.caption(shape)
    return f"![{caption}]({posixpath.basename(target)})" if target else caption


def _rows(table: Any) -> list[list[str]]:
    """The cells; one that is merged with its neighbour on the left or above has the neighbour's text."""
    rows: list[list[str]] = []
    for row in table.iter(f"{_A}tr"):
        cells: list[str] = []
        for cell in row.iter(f"{_A}tc"):
            text = " ".join(filter(None, map(_paragraph, cell.iter(f"{_A}p"))))
            if not text and cell.get("hMerge") in ("1", "true") and cells:
                text = cells[-1]
            elif not text and cell.get("vMerge") in ("1", "true") and rows and len(cells) < len(rows[-1]):
                text = rows[-1][len(cells)]
            cells.append(text)
        rows.append(cells)
    return rows


def _paragraph(paragraph: Any) -> str:
    text = ooxml.drawing_paragraph(paragraph)
    style = paragraph.find(f"{_A}pPr")
    level = int(style.get("lvl", "0")) if style is not None and style.get("lvl", "0").isdigit() else 0
    return f"{'  ' * (min(level, 8) - 1)}- {text}" if level and text else text
