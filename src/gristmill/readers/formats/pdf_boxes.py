"""Where the text of a PDF page stands: the words of its lines, found again in its markdown.

Layout puts lines in another order, joins them and makes tables of them, but keeps their words. So each line is looked for, word by
word, in the markdown: first lines that stand there as a whole, then the longest runs of words that no other line has. A line of
which nothing is found, such as a running head, has no box.
"""

import ctypes
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.readers.formats.pdf_lines import TextLine, letter_box
from gristmill.readers.formats.pdf_pages import LoadedPage
from gristmill.readers.libraries import pdfium_c
from gristmill.readers.text_boxes import MAX_BOXES, TextBox

_CJK = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_MAX_CANDIDATES = 40  # places of a word that are compared
_DEVICE = 1 << 20  # units that a page is wide and high when its matrix is taken
_NEXT_LINE = (
    0.3  # of the size of its letters, that the end of a line is lower if a hyphenated word continues below
)


@dataclass(frozen=True)
class _LineWords:
    """The words of a text and where they stand in it."""

    words: list[str]
    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, text: str) -> "_LineWords":
        matches = list(_WORD.finditer(text))
        return cls([match[0] for match in matches], [m.start() for m in matches], [m.end() for m in matches])


@dataclass
class _Markdown:
    """The words of the markdown, and which of them a line has taken."""

    words: _LineWords
    positions: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    taken: bytearray = field(default_factory=bytearray)
    at: int = 0  # after the last word that was found

    @classmethod
    def of(cls, text: str) -> "_Markdown":
        words = _LineWords.of(text)
        markdown = cls(words, taken=bytearray(len(words.words)))
        for position, word in enumerate(words.words):
            markdown.positions.setdefault(word, []).append(position)
        return markdown

    def take(self, words: Sequence[str], first: int, *, is_complete: bool = False) -> tuple[int, int] | None:
        """Take the longest run that begins with the word at `first`: its position, and how many words it has. If it must be
        complete, only one that has all of them."""
        best = (self.at, self._length(self.at, words, first))
        if best[1] < len(words) - first:
            places = self.positions.get(words[first], [])
            middle = bisect_left(places, self.at)
            for position in places[max(0, middle - _MAX_CANDIDATES // 2) : middle + _MAX_CANDIDATES]:
                length = self._length(position, words, first)
                if length > best[1]:
                    best = (position, length)
        position, length = best
        if not length or (is_complete and length < len(words) - first):
            return None
        self.taken[position : position + length] = b"\1" * length
        self.at = position + length
        return best

    def _length(self, position: int, words: Sequence[str], first: int) -> int:
        own, length = self.words.words, 0
        while (
            first + length < len(words)
            and position + length < len(own)
            and not self.taken[position + length]
            and own[position + length] == words[first + length]
        ):
            length += 1
        return length


def text_boxes(loaded: LoadedPage, text: str) -> list[TextBox]:
    """The boxes of `text`, which is the markdown of the page."""
    matrix = _PageMatrix(loaded.page)
    boxes: list[TextBox] = []
    others: list[TextLine] = []
    at = 0
    for line in loaded.lines[:MAX_BOXES]:
        if line.right <= line.left or line.top <= line.bottom:
            continue
        place = _next_place(text, at, line.text)
        if place is None:
            others.append(line)
            continue
        if _is_one_line(line):  # most lines
            boxes.append(TextBox(*place, *matrix.shares(line.left, line.bottom, line.right, line.top)))
        else:
            boxes.extend(_run_boxes(loaded.textpage, matrix, line, (0, len(line.text)), place))
        at = place[1]
    if others and _WORD.search(text, at):
        boxes += _boxes_of_others(loaded, matrix, text, others, at)
    return boxes


def _next_place(text: str, at: int, line: str) -> tuple[int, int] | None:
    """From where to where the words of a line are in the text, if they are the next ones after `at`."""
    first = _WORD.search(line)
    following = _WORD.search(text, at)
    if first is None or following is None or "|" in line:
        return None
    core = line[first.start() :]
    while not core[-1].isalnum():
        core = core[:-1]
    end = following.start() + len(core)
    if not text.startswith(core, following.start()) or text[end : end + 1].isalnum():
        return None
    return following.start(), end


def _boxes_of_others(
    loaded: LoadedPage, matrix: "_PageMatrix", text: str, lines: Sequence[TextLine], taken: int
) -> list[TextBox]:
    """The boxes of lines that are elsewhere in the markdown, or in parts; the words before `taken` are those of other lines."""
    markdown = _Markdown.of(text)
    boxes: list[TextBox] = []
    markdown.at = bisect_left(markdown.words.starts, taken)
    markdown.taken[: markdown.at] = b"\1" * markdown.at

    def add(line: TextLine, words: _LineWords, first: int, position: int, length: int) -> None:
        characters = markdown.words.starts[position], markdown.words.ends[position + length - 1]
        letters = words.starts[first], words.ends[first + length - 1]
        if length == len(words.words):  # with the marks around its words
            letters = 0, len(line.text)
        boxes.extend(_run_boxes(loaded.textpage, matrix, line, letters, characters))

    incomplete: list[tuple[TextLine, _LineWords]] = []
    for line in lines:
        words = _LineWords.of(line.text)
        if not words.words:
            continue
        run = markdown.take(words.words, 0, is_complete=True)
        if run is None:
            incomplete.append((line, words))
        else:
            for cell in _cells(markdown, text, *run):
                add(line, words, cell[0] - run[0], *cell)
    markdown.at = 0
    for line, words in incomplete:
        first = 0
        while first < len(words.words):
            run = markdown.take(words.words, first)
            for cell in _cells(markdown, text, *run) if run else ():
                add(line, words, first + cell[0] - (run or cell)[0], *cell)
            first += run[1] if run else 1
    return boxes


def _cells(markdown: _Markdown, text: str, position: int, length: int) -> Iterator[tuple[int, int]]:
    """The run, divided where a cell of a table ends: between cells there are gaps of any width."""
    words, first = markdown.words, position
    for place in range(position + 1, position + length):
        if "|" in text[words.ends[place - 1] : words.starts[place]]:
            yield first, place - first
            first = place
    yield first, position + length - first


def _run_boxes(
    textpage: Any,
    matrix: "_PageMatrix",
    line: TextLine,
    letters: tuple[int, int],
    characters: tuple[int, int],
) -> Iterator[TextBox]:
    """The boxes of letters of a line, which are these characters of the markdown."""
    segments = list(_letter_runs(textpage, line, *letters))
    start, end = characters
    share = (end - start) / max(1, sum(segment.letters for segment in segments))
    at = float(start)
    for segment in segments:
        first, at = round(at), at + segment.letters * share
        box = matrix.shares(segment.left, segment.bottom, segment.right, segment.top)
        yield TextBox(first, round(at), *box)


@dataclass(frozen=True)
class _LetterRun:
    """Letters of a line that stand on one line of the page."""

    letters: int
    left: float
    right: float
    bottom: float
    top: float


def _letter_runs(textpage: Any, line: TextLine, start: int, end: int) -> Iterator[_LetterRun]:
    """Letters of a line, by line of the page: PDFium joins two lines between which a word is hyphenated."""
    is_one_line = _is_one_line(line)
    if is_one_line and end - start == len(line.text):
        yield _LetterRun(end - start, line.left, line.right, line.bottom, line.top)
        return
    # Letters that PDFium leaves out of the text, such as that hyphen, are on the page all the same.
    letters = line.length / len(line.text)
    first = line.first + int(start * letters)
    last = max(first, line.first + math.ceil(end * letters) - 1)
    while first <= last:
        turn = last if is_one_line else _last_of_line(textpage, line, first, last)
        boxes = letter_box(textpage, first), letter_box(textpage, turn)
        drop = 0.0 if is_one_line else line.baseline - _baseline(textpage, first, line)
        if boxes[0] is not None and boxes[1] is not None:
            # Of text from right to left, the last letter is the leftmost.
            left, right = min(boxes[0][0], boxes[1][0]), max(boxes[0][1], boxes[1][1])
            yield _LetterRun(turn - first + 1, left, right, line.bottom - drop, line.top - drop)
        first = turn + 1


def _is_one_line(line: TextLine) -> bool:
    return abs(line.top - line.last_top) < _NEXT_LINE * max(line.size, 1.0)


def _last_of_line(textpage: Any, line: TextLine, first: int, last: int) -> int:
    """The last letter that stands as high as the one at `first`; those after it are lower."""
    height = _baseline(textpage, first, line)
    slack = _NEXT_LINE * max(line.size, 1.0)
    if abs(_baseline(textpage, last, line) - height) < slack:
        return last
    while last - first > 1:
        middle = (first + last) // 2
        if abs(_baseline(textpage, middle, line) - height) < slack:
            first = middle
        else:
            last = middle
    return first


def _baseline(textpage: Any, index: int, line: TextLine) -> float:
    across, up = ctypes.c_double(), ctypes.c_double()
    is_known = pdfium_c.FPDFText_GetCharOrigin(textpage, index, across, up)
    return up.value if is_known else line.baseline


class _PageMatrix:
    """From points of a page to shares of the page as it is displayed: cropped, and turned by its /Rotate."""

    def __init__(self, page: Any) -> None:
        origin, across, up = (self._device(page, *point) for point in ((0, 0), (1000, 0), (0, 1000)))
        self._origin = origin
        self._across = ((across[0] - origin[0]) / 1000, (across[1] - origin[1]) / 1000)
        self._up = ((up[0] - origin[0]) / 1000, (up[1] - origin[1]) / 1000)

    @staticmethod
    def _device(page: Any, x: float, y: float) -> tuple[float, float]:
        across, down = ctypes.c_int(), ctypes.c_int()
        pdfium_c.FPDF_PageToDevice(page, 0, 0, _DEVICE, _DEVICE, 0, x, y, across, down)
        return across.value / _DEVICE, down.value / _DEVICE

    def shares(
        self, left: float, bottom: float, right: float, top: float
    ) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of a rectangle."""
        (x, y), (across_x, across_y), (up_x, up_y) = self._origin, self._across, self._up
        x1, x2 = x + left * across_x + bottom * up_x, x + right * across_x + top * up_x
        y1, y2 = y + left * across_y + bottom * up_y, y + right * across_y + top * up_y
        return (
            x1 if x1 < x2 else x2,
            y1 if y1 < y2 else y2,
            x2 if x1 < x2 else x1,
            y2 if y1 < y2 else y1,
        )
