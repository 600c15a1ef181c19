"""The lines of a scanned page as markdown: columns one after the other, tables as tables, lines of a paragraph joined.

ruled tables      grids of drawn lines; a line of text belongs to the cell that its middle is in
columns           a gutter that few lines cross divides a region, if what stands on both sides is prose; the lines that cross it
                  (titles, wide tables) divide it from top to bottom
unruled tables    rows with several parts that can be sorted into columns (`pdf_tables`)
paragraphs        by the distance of their lines
"""

import itertools
from collections.abc import Sequence
from statistics import median

from gristmill.readers.formats.ocr_lines import OcrLine, OcrPage, PixelBox
from gristmill.readers.formats.ocr_markdown import CJK, OcrRow, OcrTable, OcrWriter, join_lines
from gristmill.readers.formats.pdf_tables import LinePart, Ruling, find_grids, is_prose, table_of_parts
from gristmill.readers.text_boxes import TextBox

_POINTS = 10.0  # that a line of text is high in the units of `pdf_tables`, which are points
_MIN_GUTTER = 0.25  # between columns, relative to the height of a line
_BOX_MARGIN = 0.15  # of paper that a box has around its text, relative to the height of a line
_MIN_OVERLAP = 0.75  # on both sides of a gutter, of what crosses it
_MAX_CROSSING = 0.25  # of the lines of a region, that may cross a gutter
_MIN_COLUMN_WIDTH, _MIN_COLUMN_LINES = 9.0, 3  # relative to the height of a line
_MIN_FILL = 0.55  # of the width of a column, by a typical line of prose
_PROSE_LETTERS = 18  # of a line of prose; of Chinese and the like a third
_PROSE_SHARE = 0.4  # of the lines of a column, by their width
_MAX_CELLS = 900
_MAX_ROW_STEP = 2.5  # from row to row of an unruled table, relative to the distance of lines
_MAX_SPACE = (
    1.2  # between the boxes of two words of a line that was stretched, relative to the height of a line
)
_CELL_WIDTH = 0.6  # of a region: a wider line without gaps is no cell


_Block = OcrLine | OcrTable


def page_text(page: OcrPage) -> tuple[str, list[TextBox]]:
    """The markdown of a page, and where its lines stand."""
    if not page.lines:
        return "", []
    height = median(line.box.height for line in page.lines)
    tables, rest = _tables_in_grids(page, height)
    regions = [_put_tables(region, height) for region in _regions([*rest, *tables], height)]
    rows = [[block for block in region if isinstance(block, OcrRow)] for region in regions]
    writer = OcrWriter(page, height, _spacing(rows))
    for block in itertools.chain.from_iterable(regions):
        writer.add(block)
    return writer.text, writer.boxes


# ── ruled tables ─────────────────────────────────────────────────────────────────────────────────────────


def _tables_in_grids(page: OcrPage, height: float) -> tuple[list[OcrTable], list[OcrLine]]:
    """The tables with drawn lines, and the lines outside of them."""
    unit = _POINTS / height
    across = [Ruling(-line.at * unit, line.start * unit, line.end * unit) for line in page.rulings.across]
    down = [Ruling(line.at * unit, -line.end * unit, -line.start * unit) for line in page.rulings.down]
    tables: list[OcrTable] = []
    rest = page.lines
    for upward_rows, scaled_columns in find_grids(across, down):
        rows, columns = [-at / unit for at in upward_rows], [at / unit for at in scaled_columns]
        if len(columns) < 3 or len(rows) < 3 or (len(columns) - 1) * (len(rows) - 1) > _MAX_CELLS:
            continue
        box = PixelBox(columns[0], rows[0], columns[-1], rows[-1])
        inside = [line for line in rest if box.has_middle_of(line.box)]
        cells = [[list[OcrLine]() for _ in columns[1:]] for _ in rows[1:]]
        for line in inside:
            across_at, down_at = line.box.middle
            cells[_interval(rows, down_at)][_interval(columns, across_at)].append(line)
        texts = [[_cell_text(cell) for cell in row] for row in cells]
        texts = [row for row in texts if any(row)]
        filled = sum(bool(cell) for row in texts for cell in row)
        if len(texts) >= 2 and filled >= 0.3 * sum(map(len, texts)):
            tables.append(OcrTable(texts, box))
            rest = [line for line in rest if line not in inside]
    return tables, rest


def _cell_text(lines: Sequence[OcrLine]) -> str:
    return join_lines(row.text for row in _rows(lines))


def _interval(edges: Sequence[float], at: float) -> int:
    """Which of the intervals between edges a place is in."""
    place = sum(edge <= at for edge in edges) - 1
    return min(max(place, 0), len(edges) - 2)


# ── columns ──────────────────────────────────────────────────────────────────────────────────────────────


def _regions(blocks: Sequence[_Block], height: float) -> list[list[_Block]]:
    """The blocks by region, in reading order; a region has one column."""
    gutter = _find_gutter(blocks, height)
    if gutter is None:
        return [list(blocks)] if blocks else []
    crossing = sorted(
        (block for block in blocks if _crosses(block, gutter, height)), key=lambda block: block.box.top
    )
    regions: list[list[_Block]] = []
    below = [block for block in blocks if not _crosses(block, gutter, height)]
    for block in [*crossing, None]:
        limit = block.box.middle[1] if block is not None else float("inf")
        group = [other for other in below if other.box.middle[1] < limit]
        below = [other for other in below if other.box.middle[1] >= limit]
        for side in (
            [other for other in group if other.box.middle[0] <= gutter],
            [other for other in group if other.box.middle[0] > gutter],
        ):
            regions += _regions(side, height)
        if block is not None:
            if regions and not group and _is_single(regions[-1], crossing):
                regions[-1].append(block)
            else:
                regions.append([block])
    return regions


def _is_single(region: Sequence[_Block], crossing: Sequence[_Block]) -> bool:
    """Whether a region consists of lines that cross the gutter: the next one continues it."""
    return all(any(block is other for other in crossing) for block in region)


def _crosses(block: _Block, gutter: float, height: float) -> bool:
    margin = _MIN_OVERLAP * height
    return block.box.left + margin < gutter < block.box.right - margin


def _find_gutter(blocks: Sequence[_Block], height: float) -> float | None:
    """The middle of the widest gap that goes down a region between two columns of prose."""
    if len(blocks) < 2 * _MIN_COLUMN_LINES:
        return None
    left = min(block.box.left for block in blocks)
    right = max(block.box.right for block in blocks)
    step, margin = height / 16, _BOX_MARGIN * height
    count = int((right - left) / step) + 1
    covered = [0] * (count + 1)
    for block in blocks:
        weight = 1 if isinstance(block, OcrLine) else len(block.rows)
        first, last = (
            int((block.box.left + margin - left) / step),
            int((block.box.right - margin - left) / step),
        )
        for place in range(max(0, first), min(count, last) + 1):
            covered[place] += weight
    limit = _MAX_CROSSING * max(covered)
    gaps: list[tuple[float, float]] = []
    for is_gap, run in itertools.groupby(range(count), key=lambda place: covered[place] <= limit):
        places = list(run)
        if is_gap and places[0] > 0 and places[-1] < count - 1:
            # Where the fewest lines cross: a short line at the end of a paragraph makes one side of a gap ragged.
            fewest = min(covered[place] for place in places)
            best = [place for place in places if covered[place] == fewest]
            gaps.append((left + (best[0] + best[-1] + 1) / 2 * step, len(places) * step))
    for middle, width in sorted(gaps, key=lambda gap: -gap[1]):
        if width >= _MIN_GUTTER * height and _divides_prose(blocks, middle, height):
            return middle
    return None


def _divides_prose(blocks: Sequence[_Block], gutter: float, height: float) -> bool:
    """Whether what stands on both sides are columns of prose, not of a table."""
    others = [block for block in blocks if not _crosses(block, gutter, height)]
    for side in (
        [block for block in others if block.box.middle[0] <= gutter],
        [block for block in others if block.box.middle[0] > gutter],
    ):
        lines = [block for block in side if isinstance(block, OcrLine)]
        if len(lines) < _MIN_COLUMN_LINES:
            return False
        width = max(line.box.right for line in lines) - min(line.box.left for line in lines)
        if width < _MIN_COLUMN_WIDTH * height:
            return False
        # By width: a table in one of the columns has many short lines. Of three columns, two are divided again.
        prose = [
            row.box.width
            for row in _rows(lines)
            if row.box.width >= _MIN_FILL * width
            and _letters(row.text) >= _PROSE_LETTERS
            and _widest_gap(row) < _MAX_SPACE * height
        ]
        is_prose_column = len(prose) >= _MIN_COLUMN_LINES and sum(prose) >= _PROSE_SHARE * sum(
            line.box.width for line in lines
        )
        if not is_prose_column and _find_gutter(side, height) is None:
            return False
    return True


def _letters(text: str) -> int:
    """The letters of a text; one of Chinese counts for three."""
    return len(text) + 2 * len(CJK.findall(text))


# ── rows and unruled tables ──────────────────────────────────────────────────────────────────────────────


def _put_tables(region: Sequence[_Block], height: float) -> list[OcrRow | OcrTable]:
    """The rows of a region from the top, with tables in the place of theirs."""
    tables = [block for block in region if isinstance(block, OcrTable)]
    rows = _rows([block for block in region if isinstance(block, OcrLine)])
    around = PixelBox.around([block.box for block in region])
    edges = _edges_of_prose(rows, around.width)
    spacing = _spacing([rows])
    blocks: list[OcrRow | OcrTable] = []
    run: list[OcrRow] = []
    for row in rows:
        if run and row.box.top - run[-1].box.top > _MAX_ROW_STEP * max(spacing, height):
            blocks += _end_run(run, height)
            run = []
        has_cells = len(row.lines) > 1 and not _is_justified(row, edges, height)
        if has_cells or (run and _continues_table(run, row, around.width, spacing)):
            run.append(row)
        else:
            blocks += _end_run(run, height)
            blocks.append(row)
            run = []
    blocks += _end_run(run, height)
    return sorted([*blocks, *tables], key=lambda block: block.box.top)


def _gaps(row: OcrRow) -> list[float]:
    return [right.box.left - left.box.right for left, right in itertools.pairwise(row.lines)]


def _widest_gap(row: OcrRow) -> float:
    return max(_gaps(row), default=0.0)


def _edges_of_prose(rows: Sequence[OcrRow], width: float) -> tuple[float, float]:
    """Where most wide rows of a region begin and end."""
    wide = [row.box for row in rows if row.box.width >= _CELL_WIDTH * width]
    return (median(box.left for box in wide), median(box.right for box in wide)) if wide else (0.0, 0.0)


def _is_justified(row: OcrRow, edges: tuple[float, float], height: float) -> bool:
    """Whether a row is a line of prose that was stretched to the width of its column: its gaps are equal, and not wide."""
    gaps = _gaps(row)
    is_full = abs(row.box.left - edges[0]) < 0.5 * height and abs(row.box.right - edges[1]) < 0.5 * height
    return is_full and max(gaps) < _MAX_SPACE * height and max(gaps) - min(gaps) < 0.5 * height


def _continues_table(run: Sequence[OcrRow], row: OcrRow, width: float, spacing: float) -> bool:
    """Whether a row with one part is the rest of a cell of the table that has begun."""
    above = PixelBox.around([each.box for each in run])
    box = row.box
    is_near = box.top - run[-1].box.top < 1.4 * spacing
    return (
        is_near
        and box.width <= _CELL_WIDTH * width
        and above.left - 2 <= box.left
        and box.right <= above.right + 2
    )


def _end_run(run: Sequence[OcrRow], height: float) -> list[OcrRow | OcrTable]:
    """The table that the rows are, or the rows."""
    if len(run) < 2:
        return list(run)
    unit = _POINTS / height
    parts = [
        LinePart(
            line.text,
            line.box.left * unit,
            line.box.right * unit,
            -row.box.top * unit,
            -row.box.bottom * unit,
            _POINTS,
        )
        for row in run
        for line in row.lines
    ]
    rows = table_of_parts(parts, 1.4)
    if rows is None or is_prose(rows):
        return list(run)
    return [OcrTable(rows, PixelBox.around([row.box for row in run]))]


def _rows(lines: Sequence[OcrLine]) -> list[OcrRow]:
    """The lines by their height, from the top, each row from the left."""
    rows: list[list[OcrLine]] = []
    for line in sorted(lines, key=lambda each: each.box.middle[1]):
        middle = line.box.middle[1]
        if rows and middle < median(other.box.middle[1] for other in rows[-1]) + 0.45 * min(
            line.box.height, min(other.box.height for other in rows[-1])
        ):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [OcrRow(sorted(row, key=lambda line: line.box.left)) for row in rows]


def _spacing(regions: Sequence[Sequence[OcrRow]]) -> float:
    """The distance of most lines, from top to top."""
    steps = [
        below.box.middle[1] - above.box.middle[1]
        for rows in regions
        for above, below in itertools.pairwise(rows)
    ]
    return median(steps) if steps else 0.0
