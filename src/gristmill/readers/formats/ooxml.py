"""The parts of an Office package (docx, xlsx, pptx): their XML, what they refer to, and the texts of drawings.

Strict Office Open XML has the same elements in other namespaces; its parts are read as if they had the usual ones. A part that is
missing or broken is None, and a broken one is a warning `damaged`.
"""

import posixpath
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from gristmill.readers.formats import package
from gristmill.readers.formats.equations import latex
from gristmill.readers.libraries import etree
from gristmill.readers.sink import Sink

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_REL = "{http://schemas.openxmlformats.org/package/2006/relationships}"
_STRICT = re.compile(
    rb"http://purl\.oclc\.org/ooxml/(drawingml|presentationml|spreadsheetml|wordprocessingml)/main"
)
_STRICT_R = b"http://purl.oclc.org/ooxml/officeDocument/relationships"
_STRICT_PARTS = re.compile(rb"http://purl\.oclc\.org/ooxml/(drawingml/\w+|officeDocument/math)")


def parse_part(sink: Sink, archive: zipfile.ZipFile, name: str) -> Any:
    """The root element of a part, or None."""
    data = package.read_member(sink, archive, name)
    if not data:
        return None
    if b"purl.oclc.org" in data[:4096]:
        data = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/main", data)
        data = data.replace(_STRICT_R, b"http://schemas.openxmlformats.org/officeDocument/2006/relationships")
        data = _STRICT_PARTS.sub(rb"http://schemas.openxmlformats.org/\1", data)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, huge_tree=True)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError:
        sink.warn("damaged")
        root = None
    if any(entry.type_name == "ERR_NO_MEMORY" for entry in parser.error_log):
        raise MemoryError
    return root


def relationships(
    sink: Sink, archive: zipfile.ZipFile, name: str, *, external: bool = False
) -> dict[str, str]:
    """What a part refers to, by id: names of other parts, or with `external` the addresses outside of the package."""
    folder, file = posixpath.split(name)
    tree = parse_part(sink, archive, posixpath.join(folder, "_rels", f"{file}.rels"))
    if tree is None:
        return {}
    targets: dict[str, str] = {}
    for relation in tree.iter(f"{_REL}Relationship"):
        target = relation.get("Target", "")
        if (relation.get("TargetMode") == "External") != external:
            continue
        if not external:
            target = (
                target.lstrip("/")
                if target.startswith("/")
                else posixpath.normpath(posixpath.join(folder, target))
            )
        targets[relation.get("Id", "")] = target
    return targets


def local_name(node: Any) -> str:
    """The name of an element without its namespace; empty for comments."""
    return node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""


def drawing_paragraph(paragraph: Any) -> str:
    """The text of a paragraph of a drawing (`a:p`), with its equations."""
    pieces: list[str] = []

    def add(node: Any) -> None:
        for child in node:
            name = local_name(child)
            if name == "t":
                pieces.append(child.text or "")
            elif name == "br":
                pieces.append("\n")
            elif name == "tab":
                pieces.append("\t")
            elif name in ("oMath", "oMathPara"):
                pieces.append(f"${latex(child)}$")
            elif name and name != "Fallback":
                add(child)

    add(paragraph)
    return "".join(pieces).replace("\v", "\n").strip()


def diagram_texts(tree: Any) -> Iterator[str]:
    """The texts of a SmartArt's data, in order."""
    for paragraph in tree.iter(f"{A}p"):
        if text := drawing_paragraph(paragraph):
            yield text


def caption(node: Any) -> str:
    """The description of a picture or shape, fit for a link."""
    for properties in node.iter("{*}cNvPr", "{*}docPr"):
        text = properties.get("descr") or properties.get("title") or ""
        if text:
            return re.sub(r"[\[\]\s]+", " ", text).strip()
    return ""
