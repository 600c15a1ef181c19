"""OpenDocument texts, tables and presentations: their text (`opendocument_text.py`), slides, sheets, headers and footers, attachments.

Headers come first and footers last, each once, without page numbers and dates. Hidden sheets are marked. Charts and formulas are
text where they are; other objects are attachments.
"""

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from gristmill.readers.formats import compound, media, package
from gristmill.readers.formats.opendocument_text import (
    CHART,
    DRAW,
    OFFICE,
    PRESENTATION,
    TABLE,
    OpenDocumentText,
    chart_text,
    formula_text,
)
from gristmill.readers.libraries import etree
from gristmill.readers.sink import DocumentRefused, Sink, refuse_encrypted

_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_OBJECT_CONTENT = re.compile(r"(Obj(?:ect|\d)[^/]*)/content\.xml")
_EDGES = {
    "header": ("header", "header-left", "header-first"),
    "footer": ("footer", "footer-left", "footer-first"),
}
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
        tree = _parse(sink, archive, "content.xml")
        body = tree.find(f"{OFFICE}body") if tree is not None else None
        if body is None:
            raise DocumentRefused("Its content.xml is broken or missing.", code="corrupt")
        objects = _object_texts(sink, archive)
        styles = _parse(sink, archive, "styles.xml")
        start, texts = sink.characters, [""]
        for text, page in (
            (_edge_text(styles, "header"), None),
            *_pages(tree, body, sink.report.kind, OpenDocumentText(objects)),
            (_edge_text(styles, "footer"), None),
        ):
            if text.strip():
                texts.append(text.strip() + "\n\n")
                sink.add_text(texts[-1], page)
        _add_contents(sink, archive, "".join(texts), start, objects)
    if (
        not sink.text_length
        and not sink.image_count
        and not sink.attachment_count
        and not sink.report.warnings
    ):
        sink.warn("empty")


def _parse(sink: Sink, archive: zipfile.ZipFile, name: str) -> Any:
    """The root of a member, or None."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, huge_tree=True)
    try:
        return etree.fromstring(package.read_member(sink, archive, name), parser)
    except etree.XMLSyntaxError:
        return None


def _object_texts(sink: Sink, archive: zipfile.ZipFile) -> dict[str, str]:
    """The charts and formulas as text, by the names of their folders."""
    texts: dict[str, str] = {}
    for name in archive.namelist():
        if match := _OBJECT_CONTENT.fullmatch(name):
            tree = _parse(sink, archive, name)
            if tree is None:
                continue
            if tree.tag.endswith("}math"):
                texts[match[1]] = formula_text(tree)
            elif next(tree.iter(f"{CHART}chart"), None) is not None:
                texts[match[1]] = chart_text(tree)
    return texts


def _edge_text(styles: Any, edge: str) -> str:
    """The headers or footers of all kinds of pages, each once."""
    texts: dict[str, None] = {}
    for page in styles.iter(f"{_STYLE}master-page") if styles is not None else ():
        for node in page.iter(*(f"{_STYLE}{name}" for name in _EDGES[edge])):
            if node.get(f"{_STYLE}display") == "false":
                continue
            for text in OpenDocumentText(without_fields=True).blocks(node):
                if sum(letter.isalpha() for letter in text) > len("page"):
                    texts[text.strip()] = None
    return "\n\n".join(texts)


def _pages(tree: Any, body: Any, kind: str, writer: OpenDocumentText) -> Iterator[tuple[str, int | None]]:
    """The text: slides and sheets with their numbers, anything else in one piece."""
    if kind == "odt":
        yield "\n\n".join(filter(None, writer.blocks(body))), None
        return
    if kind == "odp":
        declared = body.iter(*(f"{PRESENTATION}{name}-decl" for name in ("header", "footer")))
        yield "\n\n".join(dict.fromkeys("".join(node.itertext()).strip() for node in declared)), None
        for number, node in enumerate(body.iter(f"{DRAW}page"), 1):
            yield "\n\n".join(filter(None, writer.blocks(node))), number
        return
    hidden = {
        style.get(f"{_STYLE}name")
        for style in tree.iter(f"{_STYLE}style")
        for properties in style.iter(f"{_STYLE}table-properties")
        if properties.get(f"{TABLE}display") == "false"
    }
    for number, node in enumerate(body.iter(f"{TABLE}table"), 1):
        is_hidden = node.get(f"{TABLE}style-name") in hidden
        shapes = (block for shape in node.iterchildren(f"{TABLE}shapes") for block in writer.blocks(shape))
        blocks = list(filter(None, [writer.table(node), *shapes]))
        name = node.get(f"{TABLE}name", "") + (" (hidden sheet)" if is_hidden else "")
        yield ("\n\n".join([f"## {name}", *blocks]) if blocks else ""), number


def _add_contents(
    sink: Sink, archive: zipfile.ZipFile, content: str, start: int, texts: Mapping[str, str]
) -> None:
    names = archive.namelist()
    folders = {match[1] for match in map(_OBJECT_CONTENT.fullmatch, names) if match}
    for name in sorted(folders - set(texts)):
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
