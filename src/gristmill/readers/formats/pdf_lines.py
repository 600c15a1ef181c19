"""The lines of a PDF page, with where they stand and how they are set. Only the first and the last letter of a line are measured."""

import ctypes
import math
import re
from dataclasses import dataclass
from typing import Any

from gristmill.readers.formats.pdf_repair import compounds_in, fold_ligatures, join_hyphens, mend_letters
from gristmill.readers.libraries import pdfium_c

_BOLD_NAME = re.compile(r"bold|black|heavy|semibold|demi|-bd\b", re.IGNORECASE)
_BOLD_WEIGHT = 600
_EDGES = tuple(ctypes.c_double() for _ in range(4))  # that PDFium writes into: used again for every letter
_MATRIX = pdfium_c.FS_MATRIX()  # as are those
_ASCENT, _DESCENT = 0.72, 0.2  # of a typical font, by its size


@dataclass(slots=True)
class TextLine:
    """A line: its text, where it stands on the page in points from the lower left, and the style of its first and last letter."""

    text: str
    size: float
    is_bold: bool
    left: float
    right: float
    top: float
    bottom: float
    last_top: (
        float  # of its end: PDFium joins a word that is hyphenated at the end of a line, and so two lines
    )
    last_right: float
    first: int = 0  # the index of its first letter on the page
    length: int = 0  # letters on the page, with spaces
    level: int = 0  # of a heading
    has_gaps: bool = False  # wide ones, between parts

    @property
    def density(self) -> float:
        """Its width by letter, in units of its size: about 0.5 for text, more if there are wide gaps."""
        return (self.right - self.left) / max(1e-6, self.size * len(self.text))

    @property
    def baseline(self) -> float:
        """The height that its first letter stands on."""
        return self.bottom + _DESCENT * self.size

    @property
    def middle(self) -> float:
        """The height of its middle."""
        return (self.top + self.bottom) / 2


class FontCache:
    """Which fonts of a document are bold, and which of its words have hyphens."""

    def __init__(self) -> None:
        self.compounds: set[str] = set()
        self._is_bold: dict[int, bool | None] = {}

    def is_bold(self, textpage: Any, index: int) -> bool | None:
        """Whether the letter at `index` is bold; None if its font has no name, as in Chinese pages that Chromium prints."""
        font = pdfium_c.FPDFTextObj_GetFont(pdfium_c.FPDFText_GetTextObject(textpage, index))
        key = ctypes.cast(font, ctypes.c_void_p).value or 0
        if key not in self._is_bold:
            self._is_bold[key] = _is_bold_font(font) if key else False
        return self._is_bold[key]


def read_lines(textpage: Any, fonts: FontCache) -> list[TextLine]:
    """The lines of a page, in the order of its content."""
    count = textpage.count_chars()
    if count <= 0:
        return []
    lines: list[TextLine] = []
    page_text = mend_letters(textpage, textpage.get_text_range(0, count))
    fonts.compounds |= compounds_in(page_text)
    is_ascii = page_text.isascii()  # most pages: no ligatures
    is_wide = not is_ascii and max(page_text) > "\uffff"  # of two units each, as PDFium counts
    letters = textpage.raw  # which is faster to pass on than its wrapper
    index = 0
    for raw in page_text.split("\r\n"):
        text = join_hyphens(raw, fonts.compounds).strip()
        text = text if is_ascii else fold_ligatures(text)
        length = len(raw.encode("utf-16-le")) // 2 if is_wide else len(raw)
        if text:
            first, last = (
                index + len(raw) - len(raw.lstrip()),
                index + length - len(raw) + len(raw.rstrip()) - 1,
            )
            lines.append(_measure_line(letters, fonts, text, first, last))
        index += length + 2
    return _join_vertical_text(lines)


def letter_box(textpage: Any, index: int) -> tuple[float, float, float, float] | None:
    """Left, right, bottom and top of the letter at `index`."""
    left, right, bottom, top = _EDGES
    if not pdfium_c.FPDFText_GetCharBox(textpage, index, left, right, bottom, top):
        return None
    return left.value, right.value, bottom.value, top.value


def _measure_line(textpage: Any, fonts: FontCache, text: str, start: int, end: int) -> TextLine:
    # PDFium leaves some letters out of the text, so that places in the text are not those on the page.
    first = pdfium_c.FPDFText_GetCharIndexFromTextIndex(textpage, start)
    last = pdfium_c.FPDFText_GetCharIndexFromTextIndex(textpage, end)
    box, last_box = letter_box(textpage, first), letter_box(textpage, last)
    if box is None or last_box is None:
        return TextLine(text, 0.0, False, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, first, last - first + 1)
    left, right, bottom, top = box
    # Of a line that begins with code or ends with a mark, the rest counts.
    size = max(_size_on_page(textpage, first), _size_on_page(textpage, last)) or abs(top - bottom) * 1.4
    is_bold = fonts.is_bold(textpage, first)
    if first != last and is_bold is not False:
        is_end_bold = fonts.is_bold(textpage, last)
        is_bold = is_bold if is_end_bold is None else is_end_bold
    # Letters have different heights: a line is as high as its font.
    own_baseline, last_baseline = baseline(textpage, first, bottom), baseline(textpage, last, last_box[2])
    return TextLine(
        text,
        size,
        bool(is_bold),
        min(left, last_box[0]),
        max(right, last_box[1]),
        own_baseline + _ASCENT * size,
        own_baseline - _DESCENT * size,
        last_baseline + _ASCENT * size,
        last_box[1],
        first,
        last - first + 1,
    )


def baseline(textpage: Any, index: int, default: float) -> float:
    """The height that the letter at `index` stands on."""
    across, up = _EDGES[:2]
    return up.value if pdfium_c.FPDFText_GetCharOrigin(textpage, index, across, up) else default


def _size_on_page(textpage: Any, index: int) -> float:
    """The size of a letter in points: that of its font, as the page scales it."""
    if not pdfium_c.FPDFText_GetMatrix(textpage, index, _MATRIX):
        return 0.0
    return pdfium_c.FPDFText_GetFontSize(textpage, index) * math.hypot(_MATRIX.c, _MATRIX.d)


def _is_bold_font(font: Any) -> bool | None:
    if pdfium_c.FPDFFont_GetWeight(font) >= _BOLD_WEIGHT:
        return True
    length = pdfium_c.FPDFFont_GetBaseFontName(font, None, 0)
    name = ctypes.create_string_buffer(length or 1)
    pdfium_c.FPDFFont_GetBaseFontName(font, name, length)
    return bool(_BOLD_NAME.search(name.value.decode("utf-8", "replace"))) if name.value else None


def _join_vertical_text(lines: list[TextLine]) -> list[TextLine]:
    """Join vertical text, which PDFium returns letter by letter."""
    joined: list[TextLine] = []
    run: list[TextLine] = []
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
