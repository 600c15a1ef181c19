"""Presentations (pptx): titles, text, tables, notes and pictures; each slide is a page."""

import posixpath
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from gristmill.readers import markdown_tables
from gristmill.readers.formats import package
from gristmill.readers.libraries import etree
from gristmill.readers.sink import DocumentRefused, Sink

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_REL = "{http://schemas.openxmlformats.org/package/2006/relationships}"
_TITLE_PLACEHOLDERS = ("title", "ctrTitle")
_SKIPPED_PLACEHOLDERS = ("sldNum",)
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(drawingml|presentationml)/main")
_STRICT_R = b"http://purl.oclc.org/ooxml/officeDocument/relationships"


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
            relationships = _relationships(sink, archive, name)
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
    relationships = _relationships(sink, archive, "ppt/presentation.xml")
    tree = _parse(sink, archive, "ppt/presentation.xml")
    if tree is None:
        raise DocumentRefused("Its list of slides is broken.", code="corrupt")
    for slide in tree.iter(f"{_P}sldId"):
        target = relationships.get(slide.get(f"{_R}id", ""))
        if target:
            yield target


def _slide_text(sink: Sink, archive: zipfile.ZipFile, name: str, relationships: dict[str, str]) -> str:
    tree = _parse(sink, archive, name)
    if tree is None:
        return ""
    blocks = list(_blocks(tree, relationships))
    for target in relationships.values():
        if "/notesSlides/" in target and (notes := _parse(sink, archive, target)) is not None:
            note_blocks = [block for block in _blocks(notes, {}) if not block.isdigit()]
            blocks += [f"> {line}" for block in note_blocks for line in block.splitlines() if line.strip()]
        elif "/diagrams/data" in target and (diagram := _parse(sink, archive, target)) is not None:
            blocks += [text for paragraph in diagram.iter(f"{_A}p") if (text := _paragraph(paragraph))]
        elif "/comments/" in target and (comments := _parse(sink, archive, target)) is not None:
            blocks += [f"> {''.join(node.itertext())}" for node in comments.iter(f"{_P}text")]
    return "\n\n".join(block for block in blocks if block.strip())


def _blocks(tree: Any, relationships: dict[str, str]) -> Iterator[str]:
    for shape in tree.iter(f"{_P}sp", f"{_P}graphicFrame", f"{_P}pic"):
        if shape.tag == f"{_P}pic":
            yield _picture(shape, relationships)
            continue
        placeholder = next(shape.iter(f"{_P}ph"), None)
        kind = placeholder.get("type", "") if placeholder is not None else ""
        if kind in _SKIPPED_PLACEHOLDERS:
            continue
        table = next(shape.iter(f"{_A}tbl"), None)
        if table is not None:
            yield markdown_tables.markdown_table([_cells(row) for row in table.iter(f"{_A}tr")]).rstrip()
            continue
        paragraphs = [text for paragraph in shape.iter(f"{_A}p") if (text := _paragraph(paragraph))]
        if kind in _TITLE_PLACEHOLDERS and paragraphs:
            yield "## " + " ".join(paragraphs)
        else:
            yield "\n\n".join(paragraphs)


def _picture(shape: Any, relationships: dict[str, str]) -> str:
    properties = next(shape.iter(f"{_P}cNvPr"), None)
    image = next(shape.iter(f"{_A}blip"), None)
    target = relationships.get(image.get(f"{_R}embed", ""), "") if image is not None else ""
    caption = (properties.get("descr") or properties.get("title") or "") if properties is not None else ""
    caption = re.sub(r"[\[\]\n]+", " ", caption).strip()
    return f"![{caption}]({posixpath.basename(target)})" if target else caption


def _cells(row: Any) -> list[str]:
    return [" ".join(filter(None, map(_paragraph, cell.iter(f"{_A}p")))) for cell in row.iter(f"{_A}tc")]


def _paragraph(paragraph: Any) -> str:
    text = "".join(
        "\n" if node.tag == f"{_A}br" else (node.text or "") for node in paragraph.iter(f"{_A}t", f"{_A}br")
    )
    text = text.replace("\v", "\n").strip()
    style = paragraph.find(f"{_A}pPr")
    level = int(style.get("lvl", "0")) if style is not None and style.get("lvl", "0").isdigit() else 0
    return f"{'  ' * (min(level, 8) - 1)}- {text}" if level and text else text


def _relationships(sink: Sink, archive: zipfile.ZipFile, name: str) -> dict[str, str]:
    folder, file = posixpath.split(name)
    tree = _parse(sink, archive, f"{folder}/_rels/{file}.rels")
    if tree is None:
        return {}
    return {
        relation.get("Id", ""): posixpath.normpath(posixpath.join(folder, relation.get("Target", ""))).lstrip(
            "/"
        )
        if not relation.get("Target", "").startswith("/")
        else relation.get("Target", "").lstrip("/")
        for relation in tree.iter(f"{_REL}Relationship")
        if relation.get("TargetMode") != "External"
    }


def _parse(sink: Sink, archive: zipfile.ZipFile, name: str) -> Any:
    data = package.read_member(sink, archive, name)
    if not data:
        return None
    # Strict OOXML has the same elements in other namespaces.
    data = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/main", data).replace(
        _STRICT_R, b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    )
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, huge_tree=True)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError:
        sink.warn("damaged")
        return None
