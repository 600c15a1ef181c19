"""What files contain, by another way than the readers take: the truth of `bench.recall`.

Every XML part of Office and OpenDocument files, PDFium's characters, `striprtf`, `xlrd`, the parts of a mail, the elements of HTML.
"""

import email
import email.policy
import importlib
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gristmill.readers.libraries import etree, pdfium

_PARTS = {
    ".docx": re.compile(
        r"word/(document\d*|header\d*|footer\d*|footnotes|endnotes|comments|charts/chart\d+|diagrams/data\d+)\.xml"
    ),
    ".pptx": re.compile(
        r"ppt/(slides/slide\d+|notesSlides/notesSlide\d+|comments/\w+|charts/chart\d+|diagrams/data\d+)\.xml"
    ),
    ".xlsx": re.compile(
        r"xl/(sharedStrings|comments\d*|threadedComments/\w+|drawings/drawing\d+|charts/chart\d+|diagrams/data\d+)\.xml"
    ),
}
# What has paragraphs of its own, and fields that change from page to page.
_NO_TEXT = frozenset(
    [
        "p",
        "h",
        "annotation",
        "note",
        "frame",
        "page-number",
        "page-count",
        "sheet-name",
        "date",
        "time",
        "file-name",
        "title",
    ]
)
_OPENDOCUMENT = (".odt", ".ods", ".odp")


def true_text(path: Path) -> str | None:
    """The text of a file without our readers, or None where there is no other way to it."""
    suffix = path.suffix.lower()
    if suffix in _PARTS:
        return _office_text(path, _PARTS[suffix])
    if suffix in _OPENDOCUMENT:
        return _opendocument_text(path)
    ways: dict[str, Callable[[Path], str]] = {
        ".pdf": _pdf_text,
        ".rtf": _rtf_text,
        ".xls": _xls_text,
        ".eml": _mail_text,
        ".html": lambda path: _html_text(path.read_bytes()),
        ".epub": _book_text,
    }
    if suffix in ways:
        return ways[suffix](path)
    return path.read_text("utf-8") if suffix in (".md", ".rst") else None


def _office_text(path: Path, parts: re.Pattern[str]) -> str:
    texts: list[str] = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if not parts.fullmatch(name):
                continue
            root = etree.fromstring(archive.read(name))
            if name.endswith("sharedStrings.xml"):
                texts += _shared_strings(archive, root)
                continue
            is_chart, is_slide = "/charts/" in name, "/slides/" in name or "/notesSlides/" in name
            for block in root.iter():
                if not isinstance(block.tag, str) or etree.QName(block).localname not in (
                    "p", "si", "v", "text", "is",
                ):  # fmt: skip
                    continue
                is_field = is_slide and any(etree.QName(up).localname == "fld" for up in block.iter())
                if etree.QName(block).localname == "v" and (
                    not is_chart or not re.search("[^\\W\\d_]", block.text or "")
                ):
                    continue  # numbers are shown as their format says
                if not is_field and not _is_fallback(block):
                    texts.append("".join(_own_texts(block)))
    return "\n".join(texts)


def _shared_strings(archive: zipfile.ZipFile, root: Any) -> Iterator[str]:
    """The strings of a workbook, as often as cells show them."""
    strings = ["".join(_own_texts(item)) for item in root.iter("{*}si")]
    for name in archive.namelist():
        if re.fullmatch(r"xl/worksheets/\w+\.xml", name):
            for cell in etree.fromstring(archive.read(name)).iter("{*}c"):
                value = cell.find("{*}v")
                if cell.get("t") == "s" and value is not None and int(value.text or "0") < len(strings):
                    yield strings[int(value.text or "0")]


def _own_texts(block: Any) -> Iterator[str]:
    """The texts of a paragraph, without those of paragraphs inside it."""
    if etree.QName(block).localname in ("v", "text") and not len(block):
        yield block.text or ""
        return
    for child in block:
        if not isinstance(child.tag, str):
            continue
        name = etree.QName(child).localname
        if name in ("t", "text"):
            yield child.text or ""
        elif name in ("tab", "br", "cr"):
            yield " "
        elif name not in ("p", "rPh"):
            yield from _own_texts(child)


def _is_fallback(node: Any) -> bool:
    return any(etree.QName(above).localname == "Fallback" for above in node.iterancestors())


def _opendocument_text(path: Path) -> str:
    texts: list[str] = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"(Object \d+/)?(content|styles)\.xml", name):
                root = etree.fromstring(archive.read(name))
                if name.startswith("Object") and root.find(".//{*}chart") is None:
                    continue  # a document of its own
                for block in root.iter("{*}p", "{*}h"):
                    above = {etree.QName(node).localname for node in block.iterancestors()}
                    if above & {"tracked-changes", "notes-master", "index-title"}:
                        continue
                    is_side = len(_paragraph_text(block)) > len("Page  ") and bool(
                        above & {"header", "footer", "header-left", "footer-left"}
                    )
                    if name.endswith("content.xml") or is_side:
                        texts.append(_paragraph_text(block))
    return "\n".join(texts)


def _paragraph_text(node: Any) -> str:
    """The text of an OpenDocument paragraph, without that of paragraphs inside it."""
    parts = [node.text or ""]
    for child in node:
        name = etree.QName(child).localname if isinstance(child.tag, str) else ""
        if name in ("s", "tab", "line-break"):
            parts.append(" ")
        elif name and name not in _NO_TEXT:
            parts.append(_paragraph_text(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _pdf_text(path: Path) -> str:
    document: Any = pdfium.PdfDocument(str(path))
    lines: Counter[str] = Counter()
    texts: list[str] = []
    for page in document:
        text = page.get_textpage().get_text_range()
        text = re.sub(r"[\x02\ufffe\u00ad-]\r?\n?", "", text)
        edges = text.split("\r\n")
        for line in edges[:2] + edges[-2:]:
            lines[re.sub(r"\d+", "#", line)] += 1
        texts.append(text)
    running = {line for line, count in lines.items() if count >= 3 and len(document) > 3}
    return "\n".join(
        line for text in texts for line in text.split("\r\n") if re.sub(r"\d+", "#", line) not in running
    )


def _rtf_text(path: Path) -> str:
    striprtf: Any = importlib.import_module("striprtf.striprtf")
    return str(striprtf.rtf_to_text(path.read_text("latin-1"), errors="replace"))


def _xls_text(path: Path) -> str:
    xlrd: Any = importlib.import_module("xlrd")
    with Path(os.devnull).open("w") as log:
        book: Any = xlrd.open_workbook(str(path), logfile=log)
    cells = (cell for sheet in book.sheets() for row in sheet.get_rows() for cell in row)
    return "\n".join(str(cell.value) for cell in cells if cell.ctype == xlrd.XL_CELL_TEXT)


def _mail_text(path: Path) -> str:
    message: Any = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    body = message.get_body(("plain", "html"))
    texts = [str(message["subject"] or "")]
    if body is not None:
        content = body.get_content()
        is_html = body.get_content_subtype() == "html"
        texts.append(_html_text(content.encode(), "utf-8") if is_html else content)
    return "\n".join(texts)


def _html_text(data: bytes, encoding: str | None = None) -> str:
    root = etree.HTML(data, etree.HTMLParser(encoding=encoding, remove_comments=True, remove_pis=True))
    if root is None:
        return ""
    etree.strip_elements(root, "script", "style", "noscript", "template", "head", with_tail=False)
    return " ".join(str(text) for text in root.itertext())


def _book_text(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith((".xhtml", ".html", ".htm"))]
        return "\n".join(_html_text(archive.read(name), "utf-8") for name in names if "nav" not in name)
