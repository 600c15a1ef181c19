"""Tables of a PDF page: by the lines that are drawn around their cells, else by cells that stand below each other.

A ruled table is a grid of drawn lines that cross; the text of a cell is what stands within it. An unruled table is a run of lines
with wide gaps whose parts can be sorted into columns. If such parts are long, they are columns of prose, which are read one
after the other.
"""

import ctypes
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median, mode
from typing import Any

from gristmill.readers.formats.pdf_lines import TextLine, baseline, letter_box
from gristmill.readers.libraries import pdfium_c

_SPACE = re.compile(r"(?<=\S)\s+(?=\S)")
_THIN = 3.0  # points: a path that is not higher or not wider is a line
_NEAR = 2.5  # points between lines that meet
_MAX_PATHS = 4_000
_MAX_CELLS = 900  # of a table
_MIN_DENSITY = 0.53  # of a line that may have gaps
_MIN_GAP = 0.9  # of a gap between cells, relative to the size of the letters
_MIN_ROWS = 3
_SAME_CELL = 1.12  # of the smallest distance between lines of a column: that of lines of one cell
_PROSE_WORDS = 5  # of a typical cell in every column of prose


@dataclass(frozen=True)
class Box:
    """A rectangle on a page."""

    left: float
    bottom: float
    right: float
    top: float

    def contains(self, line: TextLine) -> bool:
        """Whether the middle of a line is inside."""
        across = (line.left + line.right) / 2
        return self.left - _NEAR <= across <= self.right + _NEAR and self.bottom <= line.middle <= self.top


@dataclass(frozen=True)
class PdfTable:
    """A table, as rows of cells."""

    box: Box
    rows: list[list[str]]


@dataclass
class Ruling:
    """A drawn line: at `at`, from `start` to `end`."""

    at: float
    start: float
    end: float


@dataclass(frozen=True)
class LinePart:
    """A part of a line between wide gaps."""

    text: str
    left: float
    right: float
    top: float
    bottom: float
    size: float


@dataclass
class _Row:
    top: float
    parts: list[LinePart] = field(default_factory=list[LinePart])


# ── ruled tables ─────────────────────────────────────────────────────────────────────────────────────────


def find_ruled_tables(textpage: Any, paths: Sequence[Any]) -> list[PdfTable]:
    """The tables whose cells have drawn edges; `paths` are what is drawn on the page."""
    across, down = _rulings(paths)
    if len(across) < 2 or len(down) < 2:
        return []
    tables: list[PdfTable] = []
    for rows, columns in find_grids(across, down):
        if len(columns) < 3 or len(rows) < 2 or (len(columns) - 1) * (len(rows) - 1) > _MAX_CELLS:
            continue
        cells = [
            [_text_within(textpage, left, bottom, right, top) for left, right in itertools.pairwise(columns)]
            for top, bottom in itertools.pairwise(rows)
        ]
        cells = [row for row in cells if any(row)]
        filled = sum(bool(cell) for row in cells for cell in row)
        if len(cells) >= 2 and filled >= 0.3 * sum(map(len, cells)):
            tables.append(PdfTable(Box(columns[0], rows[-1], columns[-1], rows[0]), cells))
    return tables


def _rulings(paths: Sequence[Any]) -> tuple[list[Ruling], list[Ruling]]:
    """The lines that are drawn across and down the page."""
    across: list[Ruling] = []
    down: list[Ruling] = []
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if len(paths) > _MAX_PATHS:
        return [], []  # a drawing
    for item in paths:
        if not pdfium_c.FPDFPageObj_GetBounds(item, left, bottom, right, top):
            continue
        width, height = right.value - left.value, top.value - bottom.value
        if height <= _THIN < width:
            across.append(Ruling((top.value + bottom.value) / 2, left.value, right.value))
        elif width <= _THIN < height:
            down.append(Ruling((left.value + right.value) / 2, bottom.value, top.value))
        elif width > _THIN and height > _THIN and _is_stroked(item):
            across += [Ruling(at, left.value, right.value) for at in (top.value, bottom.value)]
            down += [Ruling(at, bottom.value, top.value) for at in (left.value, right.value)]
    return across, down


def _is_stroked(item: Any) -> bool:
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    return bool(pdfium_c.FPDFPath_GetDrawMode(item, fill, stroke) and stroke.value)


def find_grids(across: list[Ruling], down: list[Ruling]) -> list[tuple[list[float], list[float]]]:
    """The grids: heights of their rows from the top, and places of their columns from the left."""
    across, down = _join_rulings(across), _join_rulings(down)
    parents = list(range(len(across) + len(down)))

    def root(place: int) -> int:
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    for row, horizontal in enumerate(across):
        for column, vertical in enumerate(down):
            meets = (
                horizontal.start - _NEAR <= vertical.at <= horizontal.end + _NEAR
                and vertical.start - _NEAR <= horizontal.at <= vertical.end + _NEAR
            )
            if meets:
                parents[root(len(across) + column)] = root(row)
    groups: dict[int, tuple[list[float], list[float]]] = {}
    for row, horizontal in enumerate(across):
        groups.setdefault(root(row), ([], []))[0].append(horizontal.at)
    for column, vertical in enumerate(down):
        groups.setdefault(root(len(across) + column), ([], []))[1].append(vertical.at)
    return [(_distinct(rows)[::-1], _distinct(columns)) for rows, columns in groups.values()]


def _join_rulings(rulings: list[Ruling]) -> list[Ruling]:
    """Join the pieces of a line: programs draw an edge for each cell."""
    joined_rulings: list[Ruling] = []
    for ruling in sorted(rulings, key=lambda each: (round(each.at / _NEAR), each.start)):
        last = joined_rulings[-1] if joined_rulings else None
        if last is not None and abs(last.at - ruling.at) <= _NEAR and ruling.start <= last.end + _NEAR:
            last.end = max(last.end, ruling.end)
        else:
            joined_rulings.append(Ruling(ruling.at, ruling.start, ruling.end))
    return joined_rulings


def _distinct(places: list[float]) -> list[float]:
    distinct: list[float] = []
    for place in sorted(places):
        if not distinct or place - distinct[-1] > _NEAR:
            distinct.append(place)
    return distinct


def _text_within(textpage: Any, left: float, bottom: float, right: float, top: float) -> str:
    return " ".join(textpage.get_text_bounded(left, bottom, right, top).split())


# ── unruled tables ───────────────────────────────────────────────────────────────────────────────────────


def whole_line(line: TextLine) -> LinePart:
    """A line as one part."""
    return LinePart(line.text, line.left, line.right, line.top, line.bottom, line.size)


def may_have_gaps(line: TextLine) -> bool:
    """Whether a line is wide for its letters: most lines are not, and are not looked at letter by letter."""
    # Without all of its letters in the text, places in it are not places on the page.
    return (
        line.size > 0 and line.density >= _MIN_DENSITY and " " in line.text and line.length == len(line.text)
    )


def split_line(textpage: Any, line: TextLine) -> list[LinePart]:
    """The parts between wide gaps of a line that may have some."""
    letters = line.text
    parts: list[LinePart] = []
    start, left, right = 0, line.left, line.left

    def add(end: int) -> None:
        # PDFium takes cells for one line even if one of them stands half a line lower.
        lift = baseline(textpage, line.first + start, line.baseline) - line.baseline
        text, top, bottom = letters[start:end].strip(), line.top + lift, line.bottom + lift
        parts.append(LinePart(text, left, right, top, bottom, line.size))

    for space in _SPACE.finditer(letters):
        before = letter_box(textpage, line.first + space.start() - 1)
        after = letter_box(textpage, line.first + space.end())
        if before is None or after is None:
            continue
        right = max(right, before[1])
        if after[0] - right > _MIN_GAP * line.size:
            add(space.start())
            start, left = space.end(), after[0]
        right = max(right, after[1])
    right = max(right, line.right)
    add(len(letters))
    return [part for part in parts if part.text] or [whole_line(line)]


def table_of_parts(parts: Sequence[LinePart], spacing: float) -> list[list[str]] | None:
    """The rows of the table that these parts make, or None if they make none; `spacing` is that of lines, by their size."""
    rows = _rows(parts)
    wide = [row for row in rows if len(row.parts) > 1]
    columns = _columns(wide)
    if len(columns) < 2 or len(wide) < (_MIN_ROWS if len(columns) == 2 else _MIN_ROWS - 1):
        return None
    if centred := _rows_by_middle(parts, columns):
        return centred
    cells: list[list[str]] = []
    last_top = 0.0
    for row in rows:
        texts = [""] * len(columns)
        for part in row.parts:
            place = _column_of(part, columns)
            texts[place] = f"{texts[place]} {part.text}".strip()
        # What stands close below a row, and has fewer parts, continues its cells.
        is_close = bool(cells) and last_top - row.top < 1.15 * spacing * row.parts[0].size
        if (
            is_close
            and not any(text and not above for text, above in zip(texts, cells[-1], strict=True))
            and not all(texts)
        ):
            cells[-1] = [f"{above} {below}".strip() for above, below in zip(cells[-1], texts, strict=True)]
        else:
            cells.append(texts)
        last_top = row.top
    return cells


def _rows_by_middle(
    parts: Sequence[LinePart], columns: Sequence[tuple[float, float]]
) -> list[list[str]] | None:
    """The rows of a table whose cells have several lines and are centred in their row, as browsers do it: the middles of a row's
    cells are level. None if no line stands between the lines of another column."""
    by_column: list[list[LinePart]] = [[] for _ in columns]
    for part in sorted(parts, key=lambda each: -each.top):
        by_column[_column_of(part, columns)].append(part)
    size = median(part.size for part in parts)
    steps = [above.top - below.top for column in by_column for above, below in itertools.pairwise(column)]
    step = min((each for each in steps if each > 0.8 * size), default=0.0)
    tops = {round(part.top, 1) for part in parts}
    if not any(0.35 * step < above - below < 0.65 * step for above, below in itertools.combinations(tops, 2)):
        return None
    cells: list[tuple[float, int, str]] = []  # middle, column, text
    for place, column in enumerate(by_column):
        run: list[LinePart] = []
        for part in [*column, None]:
            if part is not None and (not run or run[-1].top - part.top <= _SAME_CELL * step):
                run.append(part)
                continue
            if run:
                cells.append(((run[0].top + run[-1].top) / 2, place, " ".join(each.text for each in run)))
            run = [part] if part is not None else []
    rows: list[tuple[float, list[str]]] = []
    for middle, place, text in sorted(cells, key=lambda cell: -cell[0]):
        if not rows or rows[-1][0] - middle > 0.25 * step or rows[-1][1][place]:
            rows.append((middle, [""] * len(columns)))
        rows[-1][1][place] = text
    is_level = 2 * sum(sum(map(bool, row)) > 1 for _, row in rows) > len(rows)
    return [row for _, row in rows] if is_level else None


def is_prose(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the cells of every column are so long that these are columns of a page."""
    columns = [[len(cell.split()) for cell in column if cell] for column in zip(*rows, strict=True)]
    return all(lengths and median(lengths) >= _PROSE_WORDS for lengths in columns)


def _rows(parts: Sequence[LinePart]) -> list[_Row]:
    """The parts by their height, from the top, each row from the left."""
    rows: list[_Row] = []
    for part in sorted(parts, key=lambda each: -each.top):
        if rows and abs(rows[-1].top - part.top) <= 0.5 * part.size:
            rows[-1].parts.append(part)  # the highest letter of a row is its top
        else:
            rows.append(_Row(part.top, [part]))
    for row in rows:
        row.parts.sort(key=lambda part: part.left)
    return rows


def _columns(rows: Sequence[_Row]) -> list[tuple[float, float]]:
    """Where columns stand: parts that overlap are in one column. A part that spans columns which most rows have does not join them."""
    usual = mode(len(row.parts) for row in rows) if rows else 0
    typical = [part for row in rows if len(row.parts) == usual for part in row.parts]
    joined, apart = _spans([part for row in rows for part in row.parts]), _spans(typical)
    return apart if len(apart) > len(joined) and len(typical) >= _MIN_ROWS * usual else joined


def _spans(parts: Sequence[LinePart]) -> list[tuple[float, float]]:
    """From where to where parts reach that overlap."""
    spans: list[tuple[float, float]] = []
    for part in sorted(parts, key=lambda each: each.left):
        if spans and part.left < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], part.right))
        else:
            spans.append((part.left, part.right))
    return spans


def _column_of(part: LinePart, columns: Sequence[tuple[float, float]]) -> int:
    def overlap(place: int) -> float:
        left, right = columns[place]
        return min(right, part.right) - max(left, part.left)

    return max(range(len(columns)), key=overlap)
