"""Office documents, books and rich text by kreuzberg: xlsb, doc, xls, ppt, epub; docx if it is very large, and the cells of xlsx.

Zip packages (`package.py`) and compound files (`binary_office.py`) are checked first; what they contain is handed over
after the text. Where the library reports pages or sheets, each part has its own.
"""

import re
import zipfile
from itertools import pairwise
from typing import Any

from gristmill.readers.formats import binary_office, package
from gristmill.readers.libraries import kreuzberg
from gristmill.readers.sink import DocumentRefused, Sink, refuse_encrypted

_MEDIA_TYPES = {
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xlsb": "application/vnd.ms-excel.sheet.binary.macroEnabled.12",
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    "ppt": "application/vnd.ms-powerpoint",
    "epub": "application/epub+zip",
    "html": "text/html",
    "7z": "application/x-7z-compressed",
}
_PACKAGES = frozenset(("docx", "xlsx", "xlsb", "epub"))
_COMPOUND = frozenset(("doc", "xls", "ppt"))
# Field codes, which old documents keep next to the text that the fields show.
_FIELD_CODE = re.compile(
    r'\b(?:HYPERLINK\s+(?:\\+l\s+)?"[^"\n]*"|EMBED\s+[\w.]+|(?:\\+\*|\\+\\+\\+\*)\s*MERGEFORMAT|'
    r"SEQ\s+\w+\s*(?:\\+\*+\s*ARABIC)?|PAGEREF\s+\w+(?:\s*\\+h)?)\s?"
)
_FIELD_REMNANT = re.compile(r"EMBED\s*(?:\\+\*\s*MERGEFORMAT)?|\\+\*\s*MERGEFORMAT")
_PROTECTION_MARKERS = {
    "docx": ("word/settings.xml", re.compile(rb'documentProtection [^>]*enforcement="(?:1|true|on)"')),
    "xlsx": ("xl/workbook.xml", re.compile(rb"workbookProtection [^>]*(?:Password|HashValue)=")),
}


def read(sink: Sink) -> None:
    """Read a document by kreuzberg."""
    kind = sink.report.kind
    if kind in _PACKAGES:
        package.check(sink)
    if kind in _COMPOUND:
        binary_office.check(sink)
    data, charts = binary_office.without_charts(sink) if kind == "xls" else (None, [])
    result = extract(sink, kind, data)
    content = remove_field_codes(str(result.content), kind)
    start = sink.characters
    add_pages(sink, content, _page_starts(result, content, kind))
    for sheet, text in charts:
        sink.add_text(text + "\n\n", sheet)
    if kind in _PACKAGES:
        warn_if_protected(sink, kind)
        package.add_contents(sink, content, start)
    elif kind in _COMPOUND:
        binary_office.add_contents(sink)
    check_content(sink)


def check_content(sink: Sink) -> None:
    """Refuse a damaged document of which nothing could be read; warn of an empty one."""
    if not sink.text_length and not sink.image_count and not sink.attachment_count:
        if "damaged" in sink.report.warnings:
            raise DocumentRefused("The file is damaged, and nothing of it can be read.", code="corrupt")
        sink.warn("empty")


def extract(sink: Sink, kind: str, data: bytes | None = None) -> Any:
    """kreuzberg's result for the sink's file, or for `data`."""
    options = {"html_options": {"extract_metadata": False}} if kind == "html" else {}
    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        output_format="markdown",
        disable_ocr=True,
        enable_quality_processing=False,
        pages=kreuzberg.PageConfig(extract_pages=True) if kind == "docx" else None,
        **options,
    )
    try:
        if data is not None:
            return kreuzberg.extract_bytes_sync(data, _MEDIA_TYPES[kind], config=config)
        return kreuzberg.extract_file_sync(str(sink.task.path), _MEDIA_TYPES[kind], config=config)
    except MemoryError:
        raise
    except Exception as error:
        message = str(error)
        if re.search(r"password|encrypt", message, re.I):
            refuse_encrypted()
        raise DocumentRefused(f"It can't be read: {message}"[:300], code="corrupt") from None


def add_pages(sink: Sink, content: str, page_starts: list[tuple[int, int]]) -> None:
    """Add the content in parts, each with its page; `page_starts` has the offset and number of each page."""
    if content.strip():
        content = content.rstrip() + "\n\n"
        starts = [*page_starts, (len(content), 0)]
        if not page_starts or page_starts[0][0] > 0:
            sink.add_text(content[: starts[0][0]], 1 if page_starts else None)
        for (start, page), (end, _) in pairwise(starts):
            sink.add_text(content[start:end], page)
    if page_starts:
        sink.report.pages_total = sink.report.pages_read = max(page for _, page in page_starts)


def _page_starts(result: Any, content: str, kind: str) -> list[tuple[int, int]]:
    """The offset at which each page or sheet begins, and its number."""
    page_starts: list[tuple[int, int]] = []
    position = 0
    if kind == "docx":
        for page in result.pages or ():
            first_words = str(page["content"]).strip()[:120].split("\n\n")[0]
            offset = content.find(first_words, position) if first_words else -1
            if offset >= 0:
                page_starts.append((offset if page_starts else 0, int(page["page_number"])))
                position = offset + len(first_words)
    elif kind in ("xlsx", "xls", "xlsb"):
        metadata: Any = result.metadata or {}
        for number, name in enumerate(metadata.get("sheet_names") or (), 1):
            offset = content.find(f"## {name}\n", position)
            if offset >= 0 and (offset == 0 or content[offset - 1] == "\n"):
                page_starts.append((offset, number))
                position = offset + 1
    return page_starts


def remove_field_codes(content: str, kind: str) -> str:
    """The content without escaped spaces, and without the field codes of old documents."""
    content = content.replace("&#9;", "\t").replace("&#10;", "\n")
    if kind == "doc":
        content = _FIELD_REMNANT.sub("", _FIELD_CODE.sub("", content))
    return content


def warn_if_protected(sink: Sink, kind: str) -> None:
    """Warn when the document may not be changed without a password; reading needs none."""
    name, marker = _PROTECTION_MARKERS.get(kind, ("", re.compile(b"(?!)")))
    with zipfile.ZipFile(sink.task.path) as archive:
        if name and marker.search(package.read_member(sink, archive, name)):
            sink.warn("encrypted")
