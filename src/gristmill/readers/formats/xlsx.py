"""Workbooks (xlsx): the cells of each sheet by kreuzberg, and what is around them: hidden sheets are marked, merged cells are filled, and
comments, text boxes, charts, SmartArt, headers and footers follow their sheet. Each sheet is a page.
"""

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gristmill.readers.formats import office, ooxml, package
from gristmill.readers.formats.charts import chart_markdown
from gristmill.readers.sink import Sink

_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_MAX_MERGED_SHEET = 16 * 1024 * 1024  # bytes of XML of a sheet whose merged cells are filled
_MAX_FILLED = 10_000  # cells
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell ref="([A-Z]{1,3})(\d+):([A-Z]{1,3})(\d+)"')
_CELL = re.compile(rb'<(?:\w+:)?c [^>]*?r="([A-Z]{1,3})(\d+)"[^>/]*>')
_HEADER = re.compile(rb"<(?:\w+:)?headerFooter.*?</(?:\w+:)?headerFooter>", re.DOTALL)
_HEADER_CODE = re.compile(r'&(?:"[^"]*"|K[0-9A-Fa-f]{6}|\d+|[A-Z])')
_SEPARATOR_ROW = re.compile(r"\|(?: --- \|)+")
_THREADED_NOTICE = "[Threaded comment]"


@dataclass
class _Sheet:
    name: str
    part: str
    is_hidden: bool
    text: str = ""  # the table
    notes: list[str] = field(default_factory=list[str])

    def markdown(self) -> str:
        """The sheet with what belongs to it."""
        if not self.text and not self.notes:
            return ""
        mark = " (hidden sheet)" if self.is_hidden else ""
        return "\n\n".join(filter(None, [f"## {self.name}{mark}", self.text, *self.notes])) + "\n\n"


def read(sink: Sink) -> None:
    """Read a workbook."""
    package.check(sink)
    package.check_shared_strings(sink)
    result = office.extract(sink, "xlsx")
    content = office.remove_field_codes(str(result.content), "xlsx")
    start = sink.characters
    with zipfile.ZipFile(sink.task.path) as archive:
        sheets = list(_sheets(sink, archive))
        rest = _split_content(content, sheets)
        for sheet in sheets:
            _complete_sheet(sink, archive, sheet)
        sink.report.pages_total = sink.report.pages_read = len(sheets) or None
        texts = [(rest, None), *((sheet.markdown(), number) for number, sheet in enumerate(sheets, 1))]
        for text, page in texts:
            if text.strip():
                sink.add_text(text, page)
    office.warn_if_protected(sink, "xlsx")
    package.add_contents(sink, "".join(text for text, _ in texts), start)
    office.check_content(sink)


def _sheets(sink: Sink, archive: zipfile.ZipFile) -> Iterator[_Sheet]:
    """The sheets in order; those whose part is missing too, because kreuzberg may know better."""
    name = next((name for name in archive.namelist() if name.lower() == "xl/workbook.xml"), "xl/workbook.xml")
    tree = ooxml.parse_part(sink, archive, name)
    targets = ooxml.relationships(sink, archive, name)
    for sheet in tree.iter(f"{_S}sheet") if tree is not None else ():
        is_hidden = sheet.get("state") in ("hidden", "veryHidden")
        yield _Sheet(sheet.get("name", ""), targets.get(sheet.get(f"{ooxml.R}id", ""), ""), is_hidden)


def _split_content(content: str, sheets: list[_Sheet]) -> str:
    """Give each sheet its table; returns what precedes them all."""
    starts: list[tuple[int, _Sheet]] = []
    position = 0
    for sheet in sheets:
        heading = f"## {sheet.name}\n"
        offset = content.find(heading, position)
        while offset > 0 and content[offset - 1] != "\n":
            offset = content.find(heading, offset + 1)
        if offset >= 0:
            starts.append((offset, sheet))
            position = offset + len(heading)
    for place, (offset, sheet) in enumerate(starts):
        end = starts[place + 1][0] if place + 1 < len(starts) else len(content)
        sheet.text = content[offset + len(f"## {sheet.name}\n") : end].strip()
    return content[: starts[0][0]] if starts else content


def _complete_sheet(sink: Sink, archive: zipfile.ZipFile, sheet: _Sheet) -> None:
    """Fill the merged cells of a sheet, and add what is around its cells."""
    if not sheet.part or sheet.part not in archive.NameToInfo:
        return
    if archive.NameToInfo[sheet.part].file_size <= _MAX_MERGED_SHEET:
        data = package.read_member(sink, archive, sheet.part)
        sheet.text = fill_merges(sheet.text, data)
        sheet.notes += _headers(data)
    targets = list(ooxml.relationships(sink, archive, sheet.part).values())
    has_threads = any("threadedcomment" in target.lower() for target in targets)
    authors = _authors(sink, archive) if has_threads else {}
    for target in targets:
        lowered = target.lower()
        if "threadedcomment" in lowered:
            sheet.notes += _comment_threads(ooxml.parse_part(sink, archive, target), authors)
        elif "comments" in lowered:
            sheet.notes += _comments(ooxml.parse_part(sink, archive, target), has_threads)
        elif "/drawings/" in lowered and lowered.endswith(".xml"):
            sheet.notes += _drawing(sink, archive, target)


# ── merged cells ─────────────────────────────────────────────────────────────────────────────────────────


def fill_merges(table: str, data: bytes) -> str:
    """The table of a sheet with the text of each merged cell in all of its places; `data` is the XML of the sheet."""
    merged = [_box(match) for match in _MERGED.findall(data)]
    lines = table.split("\n")
    if not merged or len(lines) < 2 or not _SEPARATOR_ROW.fullmatch(lines[1]):
        return table
    places = [(int(row), _column(letters)) for letters, row in _CELL.findall(data)]
    if not places:
        return table
    top, left = min(row for row, _ in places), min(column for _, column in places)
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in (lines[0], *lines[2:]) if line.startswith("|")]
    filled = 0
    for first_row, first_column, last_row, last_column in merged:
        row, column = first_row - top, first_column - left
        if not (0 <= row < len(rows) and 0 <= column < len(rows[row]) and rows[row][column].strip()):
            continue
        for down in range(row, min(last_row - top + 1, len(rows))):
            for across in range(column, min(last_column - left + 1, len(rows[down]))):
                if not rows[down][across].strip() and filled < _MAX_FILLED:
                    rows[down][across] = rows[row][column]
                    filled += 1
    texts = [f"|{'|'.join(row)}|" for row in rows]
    rest = [line for line in lines[2:] if not line.startswith("|")]
    return "\n".join([texts[0], lines[1], *texts[1:], *rest])


def _box(match: tuple[bytes, bytes, bytes, bytes]) -> tuple[int, int, int, int]:
    first_column, first_row, last_column, last_row = match
    return int(first_row), _column(first_column), int(last_row), _column(last_column)


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


# ── around the cells ─────────────────────────────────────────────────────────────────────────────────────


def _headers(data: bytes) -> list[str]:
    """The texts of the printed page's header and footer."""
    match = _HEADER.search(data)
    if not match:
        return []
    texts = re.findall(
        r">([^<]+)</(?:\w+:)?(?:odd|even|first)(?:Header|Footer)>", match[0].decode("utf-8", "replace")
    )
    unescaped = (
        text.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
        for text in texts
    )
    lines = (
        " ".join(_HEADER_CODE.sub(" ", text.replace("&&", "\0")).replace("\0", "&").split())
        for text in unescaped
    )
    return list(
        dict.fromkeys(
            line
            for line in lines
            if any(letter.isalpha() for letter in line) and not re.fullmatch(r"(?i)page( of)?", line)
        )
    )


def _comments(tree: Any, has_threads: bool) -> Iterator[str]:
    if tree is None:
        return
    authors = ["".join(author.itertext()).strip() for author in tree.iter(f"{_S}author")]
    for comment in tree.iter(f"{_S}comment"):
        text = " ".join("".join(node.text or "" for node in comment.iter(f"{_S}t")).split())
        if not text or (has_threads and text.startswith(_THREADED_NOTICE)):
            continue
        number = comment.get("authorId", "")
        author = authors[int(number)] if number.isdigit() and int(number) < len(authors) else ""
        if author and not author.startswith("tc=") and not text.startswith(author):
            text = f"{author}: {text}"
        yield f"> {comment.get('ref', '')}: {text}"


def _authors(sink: Sink, archive: zipfile.ZipFile) -> dict[str, str]:
    names: dict[str, str] = {}
    for name in archive.namelist():
        if (
            name.startswith("xl/persons/")
            and name.endswith(".xml")
            and (tree := ooxml.parse_part(sink, archive, name)) is not None
        ):
            names |= {
                person.get("id", ""): person.get("displayName", "") for person in tree.iter("{*}person")
            }
    return names


def _comment_threads(tree: Any, authors: dict[str, str]) -> Iterator[str]:
    for comment in tree.iter("{*}threadedComment") if tree is not None else ():
        text = " ".join("".join(node.text or "" for node in comment.iter("{*}text")).split())
        if text:
            yield ": ".join(
                filter(None, [f"> {comment.get('ref', '')}", authors.get(comment.get("personId", "")), text])
            )


def _drawing(sink: Sink, archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    """The text boxes, charts and SmartArt of a drawing."""
    tree = ooxml.parse_part(sink, archive, name)
    targets = ooxml.relationships(sink, archive, name)
    for node in tree.iter(f"{ooxml.A}p", "{*}chart", "{*}relIds") if tree is not None else ():
        if any(ooxml.local_name(above) == "Fallback" for above in node.iterancestors()):
            continue
        if node.tag == f"{ooxml.A}p":
            if text := ooxml.drawing_paragraph(node):
                yield text
            continue
        is_chart = ooxml.local_name(node) == "chart"
        target = targets.get(node.get(f"{ooxml.R}{'id' if is_chart else 'dm'}", ""))
        part = ooxml.parse_part(sink, archive, target) if target else None
        if part is not None:
            yield chart_markdown(part) if is_chart else "\n\n".join(ooxml.diagram_texts(part))
