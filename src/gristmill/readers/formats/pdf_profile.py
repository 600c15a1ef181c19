"""What a PDF document looks like as a whole, from a sample of its pages: the style of its body text, the sizes of its headings, and
the lines that run along the top and the bottom of its pages."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gristmill.readers.formats.pdf_lines import TextLine

HEADING_RATIO = 1.12  # relative to the size of the body text
_MARGIN = 0.12  # of the height of a page, for running lines
_MIN_RUNNING_PAGES, _RUNNING_SHARE = 3, 0.4
_MAX_HEADING_SHARE = 0.2  # of the letters of a document: a size with more is no heading
_BODY_SHARE = 0.2  # of the letters of the commonest style
_MAX_LEVELS = 4
_STEPS_PER_SIZE = 20  # distances between lines are compared by a twentieth of their size
_MIN_STEP_SHARE = 0.08  # of the distances: a smaller one that is rarer is not that of a paragraph's lines
_NUMBERS = re.compile(r"\d+|\b[ivxlc]+\b")


@dataclass(frozen=True)
class PdfProfile:
    """The look of a document. `levels` are the heading levels by size, rounded to half a point."""

    body_size: float = 0.0
    is_body_bold: bool = False
    spacing: float = 1.4  # between the lines of a paragraph, relative to their size
    levels: dict[float, int] = field(default_factory=dict[float, int])
    running: frozenset[str] = frozenset()

    def is_running(self, line: TextLine, height: float) -> bool:
        """Whether a line repeats on other pages, near the edge of a page of this height."""
        return _in_margin(line, height) and running_key(line.text) in self.running

    def level(self, size: float) -> int:
        """The level of a heading of this size; of the body's size and less, the last one."""
        larger = [level for known, level in self.levels.items() if _rounded(size) >= known]
        return min(larger) if larger else min(_MAX_LEVELS, max(self.levels.values(), default=0) + 1)


def make_profile(pages: Sequence[tuple[Sequence[TextLine], float]]) -> PdfProfile:
    """The profile of pages, each given by its lines and its height."""
    letters: Counter[tuple[float, bool]] = Counter()
    edge_pages: Counter[str] = Counter()
    for lines, height in pages:
        letters.update(
            {
                style: sum(len(line.text) for line in lines if (_rounded(line.size), line.is_bold) == style)
                for style in {(_rounded(line.size), line.is_bold) for line in lines}
            }
        )
        edge_pages.update({running_key(line.text) for line in lines if _in_margin(line, height)})
    if not letters:
        return PdfProfile()
    largest_count = max(letters.values())
    # Code and notes are smaller than the text around them, and may be more.
    body_size = max(size for (size, _), count in letters.items() if count >= _BODY_SHARE * largest_count)
    is_body_bold = letters[body_size, True] > letters[body_size, False]
    by_size: Counter[float] = Counter()
    for (size, _), count in letters.items():
        by_size[size] += count
    large = [
        size
        for size, count in by_size.items()
        if size >= HEADING_RATIO * body_size and count <= _MAX_HEADING_SHARE * letters.total()
    ]
    levels = {size: min(_MAX_LEVELS, place) for place, size in enumerate(sorted(large, reverse=True), 1)}
    needed = max(_MIN_RUNNING_PAGES, _RUNNING_SHARE * len(pages))
    running = frozenset(key for key, count in edge_pages.items() if count >= needed)
    spacing = _spacing([lines for lines, _ in pages], body_size)
    return PdfProfile(body_size, is_body_bold, spacing, levels, running)


def _spacing(pages: Sequence[Sequence[TextLine]], body_size: float) -> float:
    """The smallest distance between lines that is not rare: larger ones have a gap between paragraphs."""
    steps = Counter(
        round(_STEPS_PER_SIZE * (above.last_top - below.top) / below.size)
        for lines in pages
        for above, below in pairwise(lines)
        if _rounded(above.size) == _rounded(below.size) == body_size
        and 0.8 * below.size < above.last_top - below.top < 3 * below.size
    )
    needed = max(2, _MIN_STEP_SHARE * steps.total())
    common = [step for step in steps if steps[step - 1] + steps[step] + steps[step + 1] >= needed]
    if not common:
        return 1.4
    return max(min(common), min(common) + 1, key=lambda step: steps[step]) / _STEPS_PER_SIZE


def running_key(text: str) -> str:
    """A line without what changes from page to page."""
    return _NUMBERS.sub("#", text.casefold()).strip()


def _in_margin(line: TextLine, height: float) -> bool:
    return line.middle < _MARGIN * height or line.middle > (1 - _MARGIN) * height


def _rounded(size: float) -> float:
    return round(2 * size) / 2
