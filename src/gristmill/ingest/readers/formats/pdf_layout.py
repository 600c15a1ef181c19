"""The lines of a PDF page as markdown: words that a line end cut are whole again, lines are paragraphs, and what is
set larger than the rest is a heading. One look at the first letter of each line is all that this costs.
"""

import ctypes
import re
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from gristmill.ingest.readers.untyped import pdfium_c

_HYPHEN = "\x02"  # PDFium's sign for a hyphen at a line's end, which it joins by itself
_MOST_HEADING = 160  # characters
_LARGE, _LARGER = 1.18, 1.6  # times the size of most of the page's text
_CJK = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_LIST = re.compile(r"^\s*(?:[•‣▪◦●○■□–—-]|\d{1,3}[.)]|\(?[a-z][.)])\s+")
_BULLET = re.compile(r"^\s*[•‣▪◦●○■□]\s+")


@dataclass
class _Line:
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
    body = _body_size(lines)
    full = _full_width(lines)
    spacing = _spacing(lines)
    blocks: list[str] = []
    before: _Line | None = None
    for line in lines:
        line.level = _level(line, body)
        if line.level:
            joins = before is not None and before.level == line.level and _near(before, line, 2.2)
            if joins and len(blocks[-1]) + len(line.text) < _MOST_HEADING:
                blocks[-1] += " " + line.text
            else:
                blocks.append("#" * line.level + " " + line.text)
        elif before is None or before.level or not _near(before, line, spacing):
            blocks.append(_BULLET.sub("- ", line.text))
        elif _LIST.match(line.text) or len(before.text) < 0.6 * full:
            blocks[-1] += "\n" + _BULLET.sub("- ", line.text)
        else:
            blocks[-1] += _joint(before.text, line.text) + line.text
        before = line
    return "\n\n".join(blocks)


def _lines(textpage: Any) -> list[_Line]:
    count = textpage.count_chars()
    if count <= 0:
        return []
    lines: list[_Line] = []
    index = 0
    for raw in textpage.get_text_range(0, count).split("\r\n"):
        text = raw.replace(_HYPHEN, "").replace("\ufffe", "").strip()
        if text:
            lead = len(raw) - len(raw.lstrip())
            lines.append(_Line(text, *_measure(textpage, index + lead)))
        index += len(raw) + 2
    return _upright(lines)


def _upright(lines: list[_Line]) -> list[_Line]:
    """Text that runs upwards comes letter by letter: put it together again."""
    found: list[_Line] = []
    run: list[_Line] = []
    for line in [*lines, None]:
        if line is not None and len(line.text) == 1:
            run.append(line)
            continue
        if len(run) >= 4 and any(letter.text.isalpha() for letter in run):
            run[0].text = "".join(letter.text for letter in run)
            run = run[:1]
        found += run
        run = []
        if line is not None:
            found.append(line)
    return found


def _measure(textpage: Any, index: int) -> tuple[float, float, float]:
    """Size, top and height of the letter at `index`."""
    box = [ctypes.c_double() for _ in range(4)]
    left, right, bottom, top = box
    if not pdfium_c.FPDFText_GetCharBox(textpage, index, left, right, bottom, top):
        return 0.0, 0.0, 0.0
    size = pdfium_c.FPDFText_GetFontSize(textpage, index)
    height = abs(top.value - bottom.value)
    # Some writers set every font at size 1 and scale it later; then the letter itself has to tell.
    return (size if size > 2 else height * 1.4), top.value, height


def _body_size(lines: list[_Line]) -> float:
    """The size that most letters of the page have."""
    weights: dict[float, int] = {}
    for line in lines:
        weights[round(line.size, 1)] = weights.get(round(line.size, 1), 0) + len(line.text)
    return max(weights, key=lambda size: weights[size])


def _full_width(lines: list[_Line]) -> float:
    lengths = sorted(len(line.text) for line in lines)
    return lengths[int(len(lengths) * 0.8)] if lengths else 0


def _spacing(lines: list[_Line]) -> float:
    """The distance between lines of one paragraph, in sizes of a line, with some room."""
    steps = [
        (above.top - below.top) / (below.size or 1)
        for above, below in pairwise(lines)
        if 0 < above.top - below.top < 3 * (below.size or 1)
    ]
    return 1.35 * median(steps) if steps else 2.0


def _near(above: _Line, below: _Line, spacing: float) -> bool:
    return 0 <= abs(above.top - below.top) <= max(spacing, 1.0) * (below.size or 1)


def _level(line: _Line, body: float) -> int:
    if line.size < _LARGE * body or body <= 0 or len(line.text) > _MOST_HEADING:
        return 0
    if not any(sign.isalpha() for sign in line.text):
        return 0
    return 1 if line.size >= _LARGER * body else 2


def _joint(above: str, below: str) -> str:
    return "" if _CJK.match(above[-1]) and _CJK.match(below[0]) else " "
