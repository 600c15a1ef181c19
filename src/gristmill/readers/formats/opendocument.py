"""OpenDocument texts, tables and presentations: headings, paragraphs, lists, tables, slides, notes and attachments.

Repeated rows and cells, of which a table may claim millions, count as one unless they contain text.
"""

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from gristmill.readers import markdown_tables
from gristmill.readers.formats import compound, media, package
from gristmill.readers.libraries import etree
from gristmill.readers.sink import DocumentRefused, Sink, refuse_encrypted

_NS = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _DRAW = (f"{{{_NS}{name}:1.0}}" for name in ("text", "table", "drawing"))
_OFFICE, _PRESENTATION, _SVG = (
    f"{{{_NS}{name}:1.0}}" for name in ("office", "presentation", "svg-compatible")
)
_LINK = "{http://www.w3.org/1999/xlink}href"
_MAX_REPEATED = 100
_MAX_DEPTH = 200
_ENCRYPTED = b"encryption-data"
_SUFFIX_BY_TYPE = {
    "text": ".odt",
    "spreadsheet": ".ods",
    "presentation": ".odp",
    "graphics": ".odg",
    "chart": ".odc",
}


def read(sink: Sink) -> None:
    """Read an OpenDocument file."""
    with zipfile.ZipFile(sink.task.path) as archive:
        if _ENCRYPTED in package.read_member(sink, archive, "META-INF/manifest.xml"):
            refuse_encrypted()
    package.check(sink)
    with zipfile.ZipFile(sink.task.path) as archive:
        body = _body(sink, archive)
        start, texts = sink.characters, [""]
        for text, page in _pages(body, sink.report.kind):
            if text.strip():
                texts.append(text.strip() + "\n\n")
                sink.add_text(texts[-1], page)
        _add_contents(sink, archive, "".join(texts), start)
    if (
        not sink.text_length
        and not sink.image_count
        and not sink.attachment_count
        and not sink.report.warnings
    ):
        sink.warn("empty")


def _body(sink: Sink, archive: zipfile.ZipFile) -> Any:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, huge_tree=True)
    try:
        tree = etree.fromstring(package.read_member(sink, archive, "content.xml"), parser)
        body = tree.find(f"{_OFFICE}body") if tree is not None else None
    except etree.XMLSyntaxError:
        body = None
    if body is None:
        raise DocumentRefused("Its content.xml is broken or missing.", code="corrupt")
    return body


def _pages(body: Any, kind: str) -> Iterator[tuple[str, int | None]]:
    """The text: slides and sheets with their numbers, anything else in one piece."""
    if kind == "odt":
        yield "\n\n".join(_blocks(body)), None
        return
    page_tag = f"{_DRAW}page" if kind == "odp" else f"{_TABLE}table"
    for number, node in enumerate(body.iter(page_tag), 1):
        if kind == "odp":
            yield "\n\n".join(_blocks(node)), number
        else:
            name = node.get(f"{_TABLE}name", "")
            rows = _table(node)
            yield (f"## {name}\n\n{rows}" if rows else ""), number


def _blocks(node: Any, depth: int = 0) -> Iterator[str]:
    for child in node:
        if not isinstance(child.tag, str):
            continue
        if child.tag == f"{_TEXT}h":
            level = child.get(f"{_TEXT}outline-level", "1")
            if text := _inline(child):
                yield "#" * min(int(level) if level.isdigit() else 1, 6) + " " + text
        elif child.tag == f"{_TEXT}p":
            if text := _inline(child):
                yield text
            yield from _blocks_in_paragraph(child)
        elif child.tag == f"{_TEXT}list":
            yield "\n".join(_list(child, 0))
        elif child.tag == f"{_TABLE}table":
            yield _table(child)
        elif child.tag == f"{_PRESENTATION}notes":
            yield from (f"> {text}" for text in _blocks(child, depth + 1) if not text.isdigit())
        elif child.tag == f"{_DRAW}frame" and child.get(f"{_PRESENTATION}class") == "title":
            yield "## " + " ".join(_blocks(child, depth + 1))
        elif child.tag == f"{_DRAW}image":
            yield f"![{_caption(node)}]({posixpath.basename(child.get(_LINK, ''))})"
        elif child.tag not in (f"{_TEXT}tracked-changes", f"{_OFFICE}forms"):
            if depth > _MAX_DEPTH:
                raise DocumentRefused("It is nested deeper than any document is.", code="corrupt")
            yield from _blocks(child, depth + 1)


def _blocks_in_paragraph(paragraph: Any) -> Iterator[str]:
    """The text boxes and images that are anchored in a paragraph."""
    for frame in paragraph.iter(f"{_DRAW}frame", f"{_DRAW}custom-shape"):
        yield from _blocks(frame, 50)


def _caption(frame: Any) -> str:
    description = next(frame.iter(f"{_SVG}title", f"{_SVG}desc"), None)
    return re.sub(r"[\[\]\n]+", " ", "".join(description.itertext())) if description is not None else ""


def _list(node: Any, level: int) -> Iterator[str]:
    for item in node.iter(f"{_TEXT}list-item", f"{_TEXT}list-header"):
        if item.getparent() is not node:
            continue
        for child in item:
            if child.tag == f"{_TEXT}list":
                yield from _list(child, level + 1)
            elif child.tag in (f"{_TEXT}p", f"{_TEXT}h") and (text := _inline(child)):
                yield f"{'  ' * level}- {text}"


def _inline(node: Any) -> str:
    parts: list[str] = [node.text or ""]
    for child in node:
        if child.tag == f"{_TEXT}s":
            parts.append(" ")
        elif child.tag == f"{_TEXT}tab":
            parts.append("\t")
        elif child.tag == f"{_TEXT}line-break":
            parts.append("\n")
        elif child.tag == f"{_TEXT}a" and child.get(_LINK):
            parts.append(f"[{_inline(child)}]({child.get(_LINK)})")
        elif child.tag == f"{_TEXT}note":
            note_texts = [_inline(part) for part in child.iter(f"{_TEXT}p")]
            parts.append(f" ({' '.join(note_texts)})")
        elif isinstance(child.tag, str) and not child.tag.startswith(_DRAW):
            parts.append(_inline(child))
        parts.append(child.tail or "")
    return "".join(parts).strip() if node.tag in (f"{_TEXT}p", f"{_TEXT}h") else "".join(parts)


def _table(node: Any) -> str:
    rows: list[list[str]] = []
    for row in node.iter(f"{_TABLE}table-row"):
        cells = list(_cells(row))
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            rows += [cells] * _repeat_count(row, "rows")
    width = max(map(len, rows), default=0)
    return markdown_tables.markdown_table([row + [""] * (width - len(row)) for row in rows]).rstrip()


def _cells(row: Any) -> Iterator[str]:
    for cell in row.iter(f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
        if cell.getparent() is not row:
            continue
        text = " ".join(filter(None, (part.strip() for part in _blocks(cell, 20))))
        times = _repeat_count(cell, "columns")
        yield from [text] * (times if text else min(times, 20))


def _repeat_count(node: Any, axis: str) -> int:
    count = node.get(f"{_TABLE}number-{axis}-repeated", "1")
    return min(int(count), _MAX_REPEATED) if count.isdigit() else 1


def _add_contents(sink: Sink, archive: zipfile.ZipFile, content: str, start: int) -> None:
    names = archive.namelist()
    objects = {name.partition("/")[0] for name in names if re.match(r"Obj(ect|\d)[^/]*/content\.xml$", name)}
    for name in sorted(objects):
        sink.add_attachment(name + _object_suffix(sink, archive, name), _repack_object(sink, archive, name))
    for name in names:
        top = name.partition("/")[0]
        if name.startswith("Pictures/") and not name.endswith("/"):
            offset = content.find(posixpath.basename(name))
            data = package.read_member(sink, archive, name)
            media.add_media(
                sink, posixpath.basename(name), data, start=start + offset if offset >= 0 else start
            )
        elif "/" not in name and re.match(r"Obj(ect|\d)", name):
            compound.add_object(sink, name, package.read_member(sink, archive, name))
        elif top in ("Media", "Video") and not name.endswith("/"):
            media.add_media(sink, posixpath.basename(name), package.read_member(sink, archive, name))


def _object_suffix(sink: Sink, archive: zipfile.ZipFile, name: str) -> str:
    manifest = package.read_member(sink, archive, "META-INF/manifest.xml").decode("utf-8", "replace")
    match = re.search(
        rf'full-path="{re.escape(name)}/"[^>]*opendocument\.(\w+)|opendocument\.(\w+)"[^>]*"{re.escape(name)}/"',
        manifest,
    )
    return _SUFFIX_BY_TYPE.get((match.group(1) or match.group(2)) if match else "text", ".odt")


def _repack_object(sink: Sink, archive: zipfile.ZipFile, folder: str) -> bytes:
    """The folder of an inner document as an archive of its own."""
    kind = {ending: name for name, ending in _SUFFIX_BY_TYPE.items()}[_object_suffix(sink, archive, folder)]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}", zipfile.ZIP_STORED)
        for name in archive.namelist():
            if name.startswith(folder + "/") and not name.endswith("/"):
                packed.writestr(name[len(folder) + 1 :], package.read_member(sink, archive, name))
        packed.writestr("META-INF/manifest.xml", "<manifest/>")
    return file.getvalue()
