"""The lines of a PDF page as markdown: hyphenated words and paragraphs are joined, and larger text becomes a heading.

It measures only the first letter of each line.
"""

import ctypes
import re
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from gristmill.readers.libraries import pdfium_c

_HYPHEN = "\x02"  # PDFium's character for a hyphen at the end of a line, whose word it joins
_MAX_HEADING_LENGTH = 160  # characters
_HEADING_RATIO, _TITLE_RATIO = 1.18, 1.6  # relative to the size of the body text
_CJK = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_LIST_ITEM = re.compile(r"^\s*(?:[•‣▪◦●○■□–—-]|\d{1,3}[.)]|\(?[a-z][.)])\s+")
_BULLET = re.compile(r"^\s*[•‣▪◦●○■□]\s+")


@dataclass
class _TextLine:
    text: str
    size: float
    top: float
    height: float
    level: int = 0


def markdown(textpage: Any) -> str:
    """The text of a page."""
    lines = _lines(textpage)
    if not lines:
        return ""
    body_size = _body_size(lines)
    full_length = _full_line_length(lines)
    spacing = _line_spacing(lines)
    blocks: list[str] = []
    previous: _TextLine | None = None
    for line in lines:
        line.level = _heading_level(line, body_size)
        if line.level:
            continues_heading = (
                previous is not None and previous.level == line.level and _is_adjacent(previous, line, 2.2)
            )
            if continues_heading and len(blocks[-1]) + len(line.text) < _MAX_HEADING_LENGTH:
                blocks[-1] += " " + line.text
            else:
                blocks.append("#" * line.level + " " + line.text)
        elif previous is None or previous.level or not _is_adjacent(previous, line, spacing):
            blocks.append(_BULLET.sub("- ", line.text))
        elif _LIST_ITEM.match(line.text) or len(previous.text) < 0.6 * full_length:
            blocks[-1] += "\n" + _BULLET.sub("- ", line.text)
        else:
            blocks[-1] += _separator(previous.text, line.text) + line.text
        previous = line
    return "\n\n".join(blocks)


def _lines(textpage: Any) -> list[_TextLine]:
    count = textpage.count_chars()
    if count <= 0:
        return []
    lines: list[_TextLine] = []
    index = 0
    for raw in textpage.get_text_range(0, count).split("\r\n"):
        text = raw.replace(_HYPHEN, "").replace("\ufffe", "").strip()
        if text:
            lead = len(raw) - len(raw.lstrip())
            lines.append(_TextLine(text, *_measure(textpage, index + lead)))
        index += len(raw) + 2
    return _join_vertical_text(lines)


def _join_vertical_text(lines: list[_TextLine]) -> list[_TextLine]:
    """Join vertical text, which PDFium returns letter by letter."""
    joined: list[_TextLine] = []
    run: list[_TextLine] = []
    for line in [*lines, None]:
        if line is not None and len(line.text) == 1:
            run.append(line)
            continue
        if len(run) >= 4 and any(letter.text.isalpha() for letter in run):
            run[0].text = "".join(letter.text for letter in run)
            run = run[:1]
        joined += run
        run = []
        if line is not None:
            joined.append(line)
    return joined


def _measure(textpage: Any, index: int) -> tuple[float, float, float]:
    """Size, top and height of the letter at `index`."""
    box = [ctypes.c_double() for _ in range(4)]
    left, right, bottom, top = box
    if not pdfium_c.FPDFText_GetCharBox(textpage, index, left, right, bottom, top):
        return 0.0, 0.0, 0.0
    size = pdfium_c.FPDFText_GetFontSize(textpage, index)
    height = abs(top.value - bottom.value)
    # Some programs use fonts of size 1 and scale them; then the height of the letter is all there is.
    return (size if size > 2 else height * 1.4), top.value, height


def _body_size(lines: list[_TextLine]) -> float:
    """The font size of most letters of the page."""
    weights: dict[float, int] = {}
    for line in lines:
        weights[round(line.size, 1)] = weights.get(round(line.size, 1), 0) + len(line.text)
    return max(weights, key=lambda size: weights[size])


def _full_line_length(lines: list[_TextLine]) -> float:
    lengths = sorted(len(line.text) for line in lines)
    return lengths[int(len(lengths) * 0.8)] if lengths else 0


def _line_spacing(lines: list[_TextLine]) -> float:
    """The distance between lines of one paragraph relative to the font size, with some tolerance."""
    steps = [
        (above.top - below.top) / (below.size or 1)
        for above, below in pairwise(lines)
        if 0 < above.top - below.top < 3 * (below.size or 1)
    ]
    return 1.35 * median(steps) if steps else 2.0


def _is_adjacent(above: _TextLine, below: _TextLine, spacing: float) -> bool:
    return 0 <= abs(above.top - below.top) <= max(spacing, 1.0) * (below.size or 1)


def _heading_level(line: _TextLine, body: float) -> int:
    if line.size < _HEADING_RATIO * body or body <= 0 or len(line.text) > _MAX_HEADING_LENGTH:
        return 0
    if not any(character.isalpha() for character in line.text):
        return 0
    return 1 if line.size >= _TITLE_RATIO * body else 2


def _separator(above: str, below: str) -> str:
    return "" if _CJK.match(above[-1]) and _CJK.match(below[0]) else " "
