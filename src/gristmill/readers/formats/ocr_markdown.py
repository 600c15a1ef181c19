"""Markdown of rows and tables of a scanned page: lines of a paragraph joined, headings by their height."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gristmill.readers.formats.ocr_lines import OcrLine, OcrPage, PixelBox
from gristmill.readers.markdown_tables import markdown_table
from gristmill.readers.text_boxes import TextBox

CJK = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_PARAGRAPH_STEP = 1.22  # to the first line of the next paragraph, relative to the distance of lines
_HEADING_RATIO, _TITLE_RATIO = 1.35, 1.8  # relative to the height of most lines
_MIN_HEADING_LINES, _MAX_HEADING_SHARE, _MAX_HEADING_LENGTH = 8, 0.25, 120


@dataclass(frozen=True)
class OcrTable:
    """A table in the place of its lines."""

    rows: list[list[str]]
    box: PixelBox


@dataclass(frozen=True)
class OcrRow:
    """Lines at one height, from left to right."""

    lines: list[OcrLine]

    @property
    def box(self) -> PixelBox:
        """The rectangle around it."""
        return PixelBox.around([line.box for line in self.lines])

    @property
    def text(self) -> str:
        """Its text."""
        return " ".join(line.text for line in self.lines)


class OcrWriter:
    """Writes rows and tables below each other, and notes which rectangle shows which characters."""

    def __init__(self, page: OcrPage, height: float, spacing: float) -> None:
        self._page, self._height, self._spacing = page, height, spacing
        self.text = ""
        self.boxes: list[TextBox] = []
        self._previous: OcrRow | None = None
        self._headings = self._heading_levels(page.lines)

    def add(self, block: OcrRow | OcrTable) -> None:
        """Write the next block."""
        if isinstance(block, OcrTable):
            self._begin()
            self._write(markdown_table(block.rows).strip("\n"), block.box, is_block=True)
            self._previous = None
            return
        previous, self._previous = self._previous, block
        level = self._level(block)
        if level:
            self._begin("#" * level + " ")
        elif previous is None or self._level(previous) or not self._continues(previous, block):
            self._begin()
        elif _ends_within_word(self.text, block.text):
            self._shorten()
        else:
            self._write(_separator(self.text, block.text), None)
        self._write(block.text, block.box)

    def _continues(self, above: OcrRow, below: OcrRow) -> bool:
        """Whether a row belongs to the same paragraph."""
        step = below.box.middle[1] - above.box.middle[1]
        if step < -self._height:  # at the top of the next column
            return not _ends_sentence(above.text)
        return step < _PARAGRAPH_STEP * max(self._spacing, self._height)

    def _heading_levels(self, lines: Sequence[OcrLine]) -> dict[int, int]:
        """The levels of lines that are much higher than most, if there are few of them."""
        if len(lines) < _MIN_HEADING_LINES:
            return {}
        levels = {
            id(line): 1 if line.box.height >= _TITLE_RATIO * self._height else 2
            for line in lines
            if line.box.height >= _HEADING_RATIO * self._height
            and len(line.text) <= _MAX_HEADING_LENGTH
            and sum(letter.isalpha() for letter in line.text) >= 2
        }
        return levels if len(levels) <= _MAX_HEADING_SHARE * len(lines) else {}

    def _level(self, row: OcrRow) -> int:
        return self._headings.get(id(row.lines[0]), 0) if len(row.lines) == 1 else 0

    def _begin(self, prefix: str = "") -> None:
        self._write(("\n\n" if self.text else "") + prefix, None)

    def _shorten(self) -> None:
        """Take the hyphen away that a line ends with."""
        self.text = self.text[:-1]
        last = self.boxes[-1]
        self.boxes[-1] = replace(last, end=last.end - 1)

    def _write(self, text: str, box: PixelBox | None, *, is_block: bool = False) -> None:
        if box is not None and text:
            share = self._page.share_of_picture(box)
            start = len(self.text)
            self.boxes.append(
                TextBox(start, start + len(text), share.left, share.top, share.right, share.bottom, is_block)
            )
        self.text += text


def join_lines(texts: Iterable[str]) -> str:
    """The text of lines below each other."""
    joined = ""
    for text in texts:
        if joined and _ends_within_word(joined, text):
            joined = joined[:-1] + text
        else:
            joined += (_separator(joined, text) if joined else "") + text
    return joined


def _separator(above: str, below: str) -> str:
    return "" if CJK.match(above[-1:]) and CJK.match(below[:1]) else " "


def _ends_within_word(above: str, below: str) -> bool:
    return above.endswith("-") and above[-2:-1].isalpha() and below[:1].islower()


def _ends_sentence(text: str) -> bool:
    return text.rstrip("\"'”’»)]").endswith((".", "!", "?", ":", ";", "。", "！", "？", "：", "；"))
