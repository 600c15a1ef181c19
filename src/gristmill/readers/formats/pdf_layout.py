"""A PDF page as markdown: headings by size and weight, paragraphs and hyphenated words joined, tables, and no running lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gristmill.readers.formats.pdf_lines import TextLine
from gristmill.readers.formats.pdf_outline import OutlineTitle, mark_titles
from gristmill.readers.formats.pdf_pages import LoadedPage
from gristmill.readers.formats.pdf_profile import HEADING_RATIO, PdfProfile
from gristmill.readers.formats.pdf_tables import (
    LinePart,
    PdfTable,
    find_ruled_tables,
    is_prose,
    may_have_gaps,
    split_line,
    table_of_parts,
    whole_line,
)
from gristmill.readers.markdown_tables import markdown_table

_SLACK = 1.25  # of the distance between lines of a paragraph
_MAX_HEADING_LENGTH = 200  # characters
_MAX_HEADING_LINES = 3
_CJK = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_LIST_ITEM = re.compile(r"^\s*(?:[•‣▪◦●○■□–—-]|\d{1,3}[.)]|\(?[a-z][.)])\s+")
_BULLET = re.compile(r"^\s*[•‣▪◦●○■□]\s+")
_SENTENCE_END = re.compile(r"[.;,:。；，：]$")
_CELL_WIDTH, _CELL_WORDS = 0.6, 12  # of the page; a longer line without gaps is no cell
_CELL_LINES = 10  # lines of one cell, at most


@dataclass(frozen=True)
class _TableBlock:
    """A table in the place of its lines."""

    rows: list[list[str]]


def markdown(page: LoadedPage, profile: PdfProfile, titles: Sequence[OutlineTitle] = ()) -> str:
    """The text of a page; `titles` are those that the document's outline has for it."""
    # A page on which nothing else stands, such as a part's first one, keeps its running lines.
    lines = [line for line in page.lines if not profile.is_running(line, page.height)] or page.lines
    if not lines:
        return ""
    tables = find_ruled_tables(page.textpage, page.objects.paths)
    blocks = _TableFinder(page, profile).put_tables(lines, tables)
    text_lines = [block for block in blocks if isinstance(block, TextLine)]
    _mark_headings(blocks, profile)
    if titles:
        mark_titles([block if isinstance(block, TextLine) else None for block in blocks], titles)
    full_width = _full_width(text_lines)
    spacing = _SLACK * profile.spacing
    texts: list[str] = []
    previous: TextLine | None = None
    for block in blocks:
        if isinstance(block, _TableBlock):
            texts.append(markdown_table(block.rows))
            previous = None
        else:
            _add_line(texts, block, previous, spacing, full_width)
            previous = block
    return "\n\n".join(texts)


def _add_line(
    texts: list[str], line: TextLine, previous: TextLine | None, spacing: float, full_width: float
) -> None:
    if line.level:
        continues = (
            previous is not None
            and previous.level == line.level
            and _is_adjacent(previous, line, 2.2)
            and _same_style(previous, line)
        )
        if continues and len(texts[-1]) + len(line.text) < _MAX_HEADING_LENGTH:
            texts[-1] += " " + line.text
        else:
            texts.append("#" * line.level + " " + line.text)
    elif previous is None or previous.level or not _is_adjacent(previous, line, spacing):
        texts.append(_BULLET.sub("- ", line.text))
    elif _LIST_ITEM.match(line.text) or _ends_short(previous, full_width):
        texts[-1] += "\n" + _BULLET.sub("- ", line.text)
    else:
        texts[-1] += _separator(previous.text, line.text) + line.text


# ── headings ─────────────────────────────────────────────────────────────────────────────────────────────


def _mark_headings(blocks: Sequence[TextLine | _TableBlock], profile: PdfProfile) -> None:
    """Set the levels of the lines that are headings."""
    spacing = _SLACK * profile.spacing
    lines = [block if isinstance(block, TextLine) else None for block in blocks]
    candidates = [line is not None and _may_be_heading(line, profile) for line in lines]
    place = 0
    while place < len(lines):
        line = lines[place]
        if line is None or not candidates[place]:
            place += 1
            continue
        run = [line]
        while (
            place + len(run) < len(lines)
            and (below := lines[place + len(run)]) is not None
            and candidates[place + len(run)]
            and _continues(run[-1], below, spacing)
        ):
            run.append(below)
        above = lines[place - 1] if place else None
        place += len(run)
        below = lines[place] if place < len(lines) else None
        if _is_heading(run, above, below, profile, spacing):
            for each in run:
                each.level = profile.level(each.size)


def _may_be_heading(line: TextLine, profile: PdfProfile) -> bool:
    is_large = line.size >= HEADING_RATIO * profile.body_size
    stands_out = line.is_bold and not profile.is_body_bold and line.size >= 0.95 * profile.body_size
    if profile.body_size <= 0 or line.has_gaps or not (is_large or stands_out):  # most lines
        return False
    text = line.text
    if len(text) > _MAX_HEADING_LENGTH or sum(letter.isalpha() for letter in text) < 2:
        return False
    return not _BULLET.match(text)


def _continues(above: TextLine, below: TextLine, spacing: float) -> bool:
    return _same_style(above, below) and _is_adjacent(above, below, spacing)


def _same_style(above: TextLine, below: TextLine) -> bool:
    return abs(above.size - below.size) < 0.3 and above.is_bold == below.is_bold


def _is_heading(
    run: Sequence[TextLine],
    above: TextLine | None,
    below: TextLine | None,
    profile: PdfProfile,
    spacing: float,
) -> bool:
    """Whether lines of one style are a heading: few, and apart from what stands above unless they are larger."""
    if len(run) > _MAX_HEADING_LINES or sum(len(line.text) for line in run) > _MAX_HEADING_LENGTH:
        return False
    if run[0].size >= HEADING_RATIO * profile.body_size:
        return True
    if _SENTENCE_END.search(run[-1].text):
        return False
    is_apart = above is None or above.level > 0 or not _is_adjacent(above, run[0], spacing)
    if below is None or below.top > run[-1].top:  # at the end of a page or a column
        return is_apart
    return is_apart and abs(below.left - run[0].left) < 12 * run[0].size


# ── tables ───────────────────────────────────────────────────────────────────────────────────────────────


class _TableFinder:
    """Puts tables in the place of their lines. `_run` are the lines that may become an unruled table."""

    def __init__(self, page: LoadedPage, profile: PdfProfile) -> None:
        self._page, self._profile, self._spacing = page, profile, profile.spacing
        self._run: list[tuple[TextLine, list[LinePart]]] = []

    def put_tables(
        self, lines: Sequence[TextLine], ruled: Sequence[PdfTable]
    ) -> list[TextLine | _TableBlock]:
        """The lines, with tables in the place of theirs."""
        blocks: list[TextLine | _TableBlock] = []
        used: set[int] = set()
        for place, line in enumerate(lines):
            table = (
                next((number for number, each in enumerate(ruled) if each.box.contains(line)), None)
                if ruled
                else None
            )
            if table is not None:
                blocks += self._end_run()
                if table not in used:
                    used.add(table)
                    blocks.append(_TableBlock(ruled[table].rows))
                continue
            parts = split_line(self._page.textpage, line) if may_have_gaps(line) else None
            line.has_gaps = parts is not None and len(parts) > 1
            following = lines[place + 1] if place + 1 < len(lines) else None
            precedes_cell = (
                following is not None and following.left > line.right and self._steps_right(line, following)
            )
            if line.has_gaps or precedes_cell or (self._belongs(line) and not self._is_heading(line)):
                self._run.append((line, parts or [whole_line(line)]))
            else:
                if self._run:
                    blocks += self._end_run()
                blocks.append(line)
        return blocks + self._end_run()

    def _is_short(self, line: TextLine) -> bool:
        return (
            line.right - line.left <= _CELL_WIDTH * self._page.width and len(line.text.split()) <= _CELL_WORDS
        )

    def _steps_right(self, line: TextLine, following: TextLine) -> bool:
        """Whether the next line stands to the right at the same height or a little higher: the next cell of a row."""
        return (
            self._is_short(line)
            and self._is_short(following)
            and following.left > line.right
            and line.bottom < following.top < line.top + _CELL_LINES * line.size
        )

    def _belongs(self, line: TextLine) -> bool:
        """Whether a line without gaps may be a cell, or the rest of one, of the table that has begun."""
        if not self._run or not self._is_short(line):
            return False
        if self._steps_right(self._run[-1][0], line):
            return True
        left = min(part.left for _, parts in self._run for part in parts)
        right = max(part.right for _, parts in self._run for part in parts)
        lowest = min(other.top for other, _ in self._run)
        is_below = line.top > lowest - 2.2 * line.size
        return left - 2 <= line.left and line.right <= right + 2 * line.size and is_below

    def _is_heading(self, line: TextLine) -> bool:
        """Whether a line below a table is the heading of what follows: larger, or bold and apart from rows that are not."""
        last = self._run[-1][0]
        if self._steps_right(last, line) or not _may_be_heading(line, self._profile):
            return False
        is_large = line.size >= HEADING_RATIO * max(last.size, self._profile.body_size)
        return is_large or not (last.is_bold or _is_adjacent(last, line, _SLACK * self._spacing))

    def _end_run(self) -> list[TextLine | _TableBlock]:
        """The table that the run is, or its lines; the run is empty afterwards."""
        taken, rest = self._run, list[TextLine]()
        self._run = []
        while taken and len(taken[-1][1]) == 1 and self._is_after(taken[-1][0], taken[:-1]):
            rest.insert(0, taken.pop()[0])
        parts = [part for _, line_parts in taken for part in line_parts]
        rows = table_of_parts(parts, self._spacing) if taken else None
        if rows is None:
            return [*(line for line, _ in taken), *rest]
        if is_prose(rows):  # columns of a page: one after the other
            columns = [[row[place] for row in rows if row[place]] for place in range(len(rows[0]))]
            return [*(_column_line(column, taken[0][0]) for column in columns if column), *rest]
        return [_TableBlock(rows), *rest]

    def _is_after(self, line: TextLine, run: Sequence[tuple[TextLine, list[LinePart]]]) -> bool:
        """Whether a line stands by itself below the others."""
        lowest = min((other.top for other, _ in run), default=line.top)
        return lowest - line.top > 1.15 * self._spacing * line.size


def _column_line(texts: Sequence[str], sample: TextLine) -> TextLine:
    return replace(sample, text=" ".join(texts), is_bold=False, has_gaps=False)


# ── paragraphs ───────────────────────────────────────────────────────────────────────────────────────────


def _full_width(lines: Sequence[TextLine]) -> float:
    """The width of most lines that are full."""
    widths = sorted(line.right - line.left for line in lines)
    return widths[int(len(widths) * 0.8)] if widths else 0.0


def _ends_short(line: TextLine, full_width: float) -> bool:
    return line.last_right - line.left < 0.6 * full_width


def _is_adjacent(above: TextLine, below: TextLine, spacing: float) -> bool:
    return abs(above.last_top - below.top) <= max(spacing, 1.0) * (below.size or 1)


def _separator(above: str, below: str) -> str:
    return "" if _CJK.match(above[-1]) and _CJK.match(below[0]) else " "
