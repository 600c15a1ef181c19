"""Office documents, books and rich text by kreuzberg: docx, xlsx, doc, xls, ppt, rtf, epub.

Archives are looked over before (`package.py`), compound files too; what is embedded is handed on after the text. Where
the library tells pages or sheets, each part knows its own.
"""

import re
import zipfile
from itertools import pairwise
from typing import Any

from gristmill.ingest.readers.formats import legacy, package, richtext
from gristmill.ingest.readers.sink import Refused, Sink
from gristmill.ingest.readers.untyped import kreuzberg

_TYPES = {
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xlsb": "application/vnd.ms-excel.sheet.binary.macroEnabled.12",
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    "ppt": "application/vnd.ms-powerpoint",
    "rtf": "application/rtf",
    "epub": "application/epub+zip",
    "html": "text/html",
    "7z": "application/x-7z-compressed",
}
_PACKAGES = frozenset(("docx", "xlsx", "xlsb", "epub"))
_COMPOUND = frozenset(("doc", "xls", "ppt"))
# Instructions of fields, which old documents keep beside what they show.
_FIELD = re.compile(
    r'\b(?:HYPERLINK\s+(?:\\+l\s+)?"[^"\n]*"|EMBED\s+[\w.]+|(?:\\+\*|\\+\\+\\+\*)\s*MERGEFORMAT|'
    r"SEQ\s+\w+\s*(?:\\+\*+\s*ARABIC)?|PAGEREF\s+\w+(?:\s*\\+h)?)\s?"
)
_LEFT_BY_FIELD = re.compile(r"EMBED\s*(?:\\+\*\s*MERGEFORMAT)?|\\+\*\s*MERGEFORMAT")
_PROTECTED = {
    "docx": ("word/settings.xml", re.compile(rb'documentProtection [^>]*enforcement="(?:1|true|on)"')),
    "xlsx": ("xl/workbook.xml", re.compile(rb"workbookProtection [^>]*(?:Password|HashValue)=")),
}
_TOLD = ("title", "subject", "authors", "created_at", "modified_at", "keywords", "created_by")


def read(sink: Sink) -> None:
    """Read a document that kreuzberg knows."""
    kind = sink.told.kind
    if kind in _PACKAGES:
        package.check(sink)
    if kind == "xlsx":
        package.check_shared_strings(sink)
    if kind in _COMPOUND:
        legacy.check(sink)
    result = extract(sink, kind)
    content = _tidy(str(result.content), kind)
    describe(sink, result)
    start = sink.characters
    emit(sink, content, _places(result, content, kind))
    if kind in _PACKAGES:
        _protection(sink, kind)
        package.inner(sink, content, start)
    elif kind in _COMPOUND:
        legacy.inner(sink)
    elif kind == "rtf":
        richtext.inner(sink)
    if not sink.letters and not sink.images and not sink.children:
        if "damaged" in sink.told.warnings:
            raise Refused("It is damaged, and nothing of it can be read.", code="corrupt")
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
            return kreuzberg.extract_bytes_sync(data, _TYPES[kind], config=config)
        return kreuzberg.extract_file_sync(str(sink.task.path), _TYPES[kind], config=config)
    except MemoryError:
        raise
    except Exception as error:
        said = str(error)
        if re.search(r"password|encrypt", said, re.I):
            raise Refused("It needs a password to be opened.", code="encrypted") from None
        raise Refused(f"It can't be read: {said}"[:300], code="corrupt") from None


def describe(sink: Sink, result: Any) -> None:
    """What the document says of itself."""
    metadata: dict[str, Any] = dict(result.metadata or {})
    for name in _TOLD:
        value = metadata.get(name)
        if isinstance(value, list):
            value = ", ".join(str(one) for one in value[:20] if one)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if value:
            sink.told.metadata[name] = str(value)[:1000]
    title = str(metadata.get("title") or "").strip()
    sink.told.title = sink.told.title or title[:500] or None


def emit(sink: Sink, content: str, places: list[tuple[int, int]]) -> None:
    """The content in parts, each with the page that begins where `places` says."""
    if content.strip():
        content = content.rstrip() + "\n\n"
        starts = [*places, (len(content), 0)]
        if not places or places[0][0] > 0:
            sink.part(content[: starts[0][0]], 1 if places else None)
        for (start, page), (end, _) in pairwise(starts):
            sink.part(content[start:end], page)
    if places:
        sink.told.total = sink.told.read = max(page for _, page in places)


def _places(result: Any, content: str, kind: str) -> list[tuple[int, int]]:
    """Where in the content each page or sheet begins."""
    found: list[tuple[int, int]] = []
    position = 0
    if kind == "docx":
        for page in result.pages or ():
            first = str(page["content"]).strip()[:120].split("\n\n")[0]
            place = content.find(first, position) if first else -1
            if place >= 0:
                found.append((place if found else 0, int(page["page_number"])))
                position = place + len(first)
    elif kind in ("xlsx", "xls", "xlsb"):
        told: Any = result.metadata or {}
        for number, name in enumerate(told.get("sheet_names") or (), 1):
            place = content.find(f"## {name}\n", position)
            if place >= 0 and (place == 0 or content[place - 1] == "\n"):
                found.append((place, number))
                position = place + 1
    return found


def _tidy(content: str, kind: str) -> str:
    content = content.replace("&#9;", "\t").replace("&#10;", "\n")
    if kind == "doc":
        content = _LEFT_BY_FIELD.sub("", _FIELD.sub("", content))
    return content


def _protection(sink: Sink, kind: str) -> None:
    """Tell when the document may not be changed without a password, which reading doesn't need."""
    name, mark = _PROTECTED.get(kind, ("", re.compile(b"(?!)")))
    with zipfile.ZipFile(sink.task.path) as archive:
        if name and mark.search(package.read_member(sink, archive, name)):
            sink.warn("encrypted")
