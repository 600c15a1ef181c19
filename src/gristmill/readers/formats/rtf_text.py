"""The text of rich text (RTF) as markdown: paragraphs, headings, tables, notes, comments, text boxes, headers and footers.

Bytes are decoded in the code page of their font (`\\fcharset`), else of the document (`\\ansicpg`); a letter of two bytes may be
half an escape and half plain. Groups that are not text (fonts, colours, pictures, field codes) are skipped, and so are unknown
ones that begin with `\\*`. What does not close ends with the file.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from gristmill.readers.document_metadata import DocumentMetadata, split_keywords, split_names
from gristmill.readers.formats.rtf_words import CODE_PAGES, SIDE, SKIPPED, SPECIAL, TEXT_GROUPS
from gristmill.readers.markdown_tables import markdown_table

_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,40})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|([\r\n\x00]+)|([^\\{}\r\n\x00]+)|(\\)"
)
_MAX_GROUPS = 10_000
_INFO = ("title", "author_field", "subject", "keywords")
_HEADING_STYLE = re.compile(r"heading (\d)", re.I)


@dataclass
class RtfDocument:
    """What a file says."""

    text: str
    metadata: DocumentMetadata


@dataclass
class _Flow:
    """A run of text of one kind: its paragraphs and tables, and the paragraph that has begun."""

    kind: str = "body"
    blocks: list[str] = field(default_factory=list[str])
    pieces: list[str] = field(default_factory=list[str])
    cells: list[str] = field(default_factory=list[str])
    cell_parts: list[str] = field(default_factory=list[str])
    rows: list[list[str]] = field(default_factory=list[list[str]])
    after: list[str] = field(default_factory=list[str])  # notes and boxes that follow the paragraph
    table_notes: list[str] = field(default_factory=list[str])

    def end_paragraph(self, level: int, *, in_table: bool) -> None:
        text = "".join(self.pieces).strip(" \t\n")
        self.pieces.clear()
        if in_table:
            self.cell_parts += [text] if text else []
            return
        self.end_table()
        if text:
            self.blocks.append("#" * min(level, 6) + " " + " ".join(text.split()) if level else text)
        self.blocks += self.after
        self.after = []

    def end_cell(self) -> None:
        self.end_paragraph(0, in_table=True)
        self.cells.append(" ".join(self.cell_parts))
        self.cell_parts.clear()

    def end_row(self) -> None:
        if "".join(self.pieces).strip() or self.cell_parts:
            self.end_cell()
        if any(self.cells):
            self.rows.append(self.cells)
        self.cells = []
        self.table_notes += self.after
        self.after = []

    def end_table(self) -> None:
        if self.cells or self.cell_parts:
            self.end_row()
        if self.rows:
            width = max(map(len, self.rows))
            rows = [row + [""] * (width - len(row)) for row in self.rows]
            self.blocks.append(
                markdown_table(rows).rstrip() if width > 1 else "\n\n".join(row[0] for row in rows)
            )
            self.blocks += self.table_notes
            self.rows, self.table_notes = [], []

    def text(self) -> list[str]:
        """All blocks, with what has begun."""
        self.end_paragraph(0, in_table=bool(self.cells or self.cell_parts))
        self.end_table()
        return self.blocks


@dataclass
class _RtfGroup:
    """What holds until the closing brace."""

    encoding: str
    unicode_skip: int = 1
    is_skipped: bool = False
    level: int = 0
    in_table: bool = False
    is_hidden: bool = False
    flow: _Flow | None = None  # that begins with this group


class _RtfParser:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._default = "cp1252"
        self._fonts: dict[int, str] = {}
        self._default_font = 0
        self._font = 0  # whose entry in the table is being read
        self._style = 0
        self._heading_styles: dict[int, int] = {}
        self._flows = [_Flow()]
        self._groups = [_RtfGroup(self._default)]
        self._bytes = bytearray()
        self._ignored = 0  # characters that stand for a Unicode one in programs that know none
        self._is_ignorable = False
        self._edges: dict[str, dict[str, None]] = {"header": {}, "footer": {}}
        self._info: dict[str, str] = {}
        self._author = ""
        self._notes = 0

    def parse(self) -> RtfDocument:
        position, data = 0, self._data
        while match := _TOKEN.match(data, position):
            position = match.end()
            word, number, hexadecimal, symbol, brace, _, text, _ = match.groups()
            if text is not None:
                self._add_bytes(text)
            elif hexadecimal is not None:
                self._add_bytes(bytes((int(hexadecimal, 16),)))
            elif brace is not None:
                self._flush()
                self._open() if brace == b"{" else self._close()
            elif word is not None:
                name = word.decode("ascii")
                if name == "bin":
                    position += max(0, int(number or 0))
                elif self._ignored and name != "u":
                    self._ignored -= 1
                else:
                    self._flush()
                    self._control(name, int(number) if number is not None else None)
            elif symbol is not None:
                self._symbol(symbol)
        while len(self._groups) > 1:
            self._close()
        return self._document()

    def _document(self) -> RtfDocument:
        self._flush()
        body = self._flows[0].text()
        blocks = [*self._edges["header"], *body, *self._edges["footer"]]
        return RtfDocument(
            "\n\n".join(blocks),
            DocumentMetadata(
                title=self._info.get("title"),
                authors=split_names(self._info.get("author_field")),
                subject=self._info.get("subject"),
                keywords=split_keywords(self._info.get("keywords")),
            ),
        )

    # ── letters ──────────────────────────────────────────────────────────────────────────────────────────

    def _add_bytes(self, data: bytes) -> None:
        self._is_ignorable = False
        if self._groups[-1].is_skipped:
            return
        if self._ignored:
            skipped = min(self._ignored, len(data))
            self._ignored -= skipped
            data = data[skipped:]
        self._bytes += data

    def _flush(self) -> None:
        if self._bytes:
            text = self._bytes.decode(self._groups[-1].encoding, "replace")
            self._bytes.clear()
            self._add_text(text)

    def _add_text(self, text: str) -> None:
        group = self._groups[-1]
        if not group.is_skipped and not group.is_hidden:
            self._flows[-1].pieces.append(text)

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._flush()
            self._is_ignorable = True
        elif symbol in b"\\{}":
            self._add_bytes(symbol)
        else:
            self._flush()
            if symbol in b"\r\n":
                self._control("par", None)
            else:
                self._add_text({b"~": "\xa0", b"_": "-"}.get(symbol, ""))

    # ── groups ───────────────────────────────────────────────────────────────────────────────────────────

    def _open(self) -> None:
        top = self._groups[-1]
        self._is_ignorable, self._ignored = False, 0
        if len(self._groups) < _MAX_GROUPS:
            self._groups.append(
                _RtfGroup(
                    top.encoding, top.unicode_skip, top.is_skipped, top.level, top.in_table, top.is_hidden
                )
            )

    def _close(self) -> None:
        self._ignored = 0
        if len(self._groups) == 1:
            return
        group = self._groups.pop()
        if group.flow is not None:
            self._flows.pop()
            self._finish_flow(group.flow)
        elif self._flows[-1].kind in ("fonttbl", "stylesheet") and not group.is_skipped:
            self._end_entry()

    def _finish_flow(self, flow: _Flow) -> None:
        text = "\n\n".join(flow.text()).strip()
        if not text or flow.kind in ("fonttbl", "stylesheet"):
            return
        line = " ".join(text.split())
        if flow.kind in self._edges:
            if any(letter.isalpha() for letter in text):
                self._edges[flow.kind][text] = None
        elif flow.kind in _INFO:
            self._info.setdefault(flow.kind, line)
        elif flow.kind == "author":
            self._author = line
        elif flow.kind == "note":
            self._notes += 1
            self._flows[-1].pieces.append(f"[^{self._notes}]")
            self._flows[-1].after.append(f"[^{self._notes}]: {line}")
        elif flow.kind == "comment":
            self._flows[-1].after.append(f"> {f'{self._author}: ' if self._author else ''}{line}")
        else:
            self._flows[-1].after.append(text)

    def _end_entry(self) -> None:
        """The end of an entry of the table of fonts or styles."""
        flow = self._flows[-1]
        name = "".join(flow.pieces)
        flow.pieces.clear()
        if flow.kind == "stylesheet" and (match := _HEADING_STYLE.match(name.strip())):
            self._heading_styles[self._style] = int(match[1])
        self._style = 0

    # ── control words ────────────────────────────────────────────────────────────────────────────────────

    def _control(self, name: str, number: int | None) -> None:
        group = self._groups[-1]
        is_ignorable, self._is_ignorable = self._is_ignorable, False
        if group.is_skipped and name != "ud":
            return
        if name in SIDE and not (
            name in ("title", "author", "subject", "keywords") and self._flows[-1].kind != "body"
        ):
            self._begin_flow(SIDE[name])
        elif name == "ud":
            group.is_skipped = False
        elif name in SKIPPED or (is_ignorable and name not in TEXT_GROUPS):
            group.is_skipped = True
        elif name in SPECIAL:
            self._add_text(SPECIAL[name])
        elif name in _PARAGRAPH_WORDS:
            _PARAGRAPH_WORDS[name](self._flows[-1], group)
        else:
            self._set(name, number, group)

    def _begin_flow(self, kind: str) -> None:
        group = self._groups[-1]
        if group.flow is None and len(self._groups) > 1:
            group.flow = _Flow(kind)
            group.level, group.in_table, group.is_hidden = 0, False, False
            self._flows.append(group.flow)

    def _set(self, name: str, number: int | None, group: _RtfGroup) -> None:
        """What changes how the letters that follow are read."""
        match name:
            case "u" if number is not None:
                self._add_text(chr(number & 0xFFFF))
                self._ignored = group.unicode_skip
            case "uc":
                group.unicode_skip = max(0, min(number or 0, 8))
            case "ansicpg" if number:
                self._default = group.encoding = _known_encoding(
                    f"cp{number}", "utf-8" if number == 65001 else "cp1252"
                )
            case "mac" | "pc" | "pca":
                self._default = group.encoding = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}[name]
            case "deff":
                self._default_font = number or 0
            case "f" if self._flows[-1].kind == "fonttbl":
                self._font = number or 0
            case "f":
                group.encoding = self._fonts.get(number or 0, self._default)
            case "fcharset" if self._flows[-1].kind == "fonttbl":
                if number in CODE_PAGES and number:
                    self._fonts[self._font] = CODE_PAGES[number] if number != 2 else self._default
                elif number == 0 and self._default != "cp1252":
                    self._fonts[self._font] = "cp1252"
            case "cpg" if self._flows[-1].kind == "fonttbl":
                self._fonts[self._font] = _known_encoding(f"cp{number}", self._default)
            case "plain":
                group.encoding = self._fonts.get(self._default_font, self._default)
                group.is_hidden = False
            case "v" | "htmlrtf" | "deleted":
                group.is_hidden = number != 0
            case "s" if self._flows[-1].kind == "stylesheet":
                self._style = number or 0
            case "s":
                group.level = self._heading_styles.get(number or 0, 0)
            case "outlinelevel" if self._flows[-1].kind != "stylesheet":
                group.level = (number or 0) + 1 if (number or 0) < 6 else 0
            case "pard":
                group.level, group.in_table = 0, False
            case "intbl":
                group.in_table = True
            case _:
                pass


def _known_encoding(name: str, default: str) -> str:
    try:
        "".encode(name)
    except LookupError:
        return default
    return name


_PARAGRAPH_WORDS: dict[str, Callable[[_Flow, _RtfGroup], None]] = {
    "par": lambda flow, group: flow.end_paragraph(group.level, in_table=group.in_table),
    "sect": lambda flow, group: flow.end_paragraph(group.level, in_table=group.in_table),
    "page": lambda flow, group: flow.end_paragraph(group.level, in_table=group.in_table),
    "cell": lambda flow, _: flow.end_cell(),
    "nestcell": lambda flow, _: flow.end_paragraph(0, in_table=True),
    "row": lambda flow, _: flow.end_row(),
}


def parse_rtf(data: bytes) -> RtfDocument:
    """The text of a file, and what it says of itself."""
    return _RtfParser(data).parse()
