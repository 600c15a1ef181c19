"""Lines that are drawn on a scanned page: those of tables, across and down."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gristmill.readers.libraries import cv2, numpy

_MIN_LENGTH = 2.5  # of a drawn line, relative to the height of a line of text: no letter is that long
_MAX_THICKNESS = 0.35
_MAX_RULINGS = 2_000  # more are a drawing or a photograph
_DARKER = 12  # than the paper around


@dataclass(frozen=True)
class Ruled:
    """A drawn line: at `at`, from `start` to `end`, in pixels from the upper left."""

    at: float
    start: float
    end: float


@dataclass(frozen=True)
class Rulings:
    """The drawn lines of a page."""

    across: Sequence[Ruled]
    down: Sequence[Ruled]

    def crossing(self, left: float, top: float, right: float, bottom: float) -> list[float]:
        """Where lines that are drawn down go through a rectangle, from left to right."""
        height = bottom - top
        inner = [
            line.at
            for line in self.down
            if left + 0.2 * height < line.at < right - 0.2 * height
            and line.start <= top + 0.3 * height
            and line.end >= bottom - 0.3 * height
        ]
        return sorted(inner)


def find_rulings(gray: Any, text_height: float) -> Rulings:
    """The lines that are drawn on a gray picture with text of this height."""
    dark = cv2.adaptiveThreshold(gray, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, 31, _DARKER)
    length = max(20, int(_MIN_LENGTH * text_height))
    thickness = max(4, int(_MAX_THICKNESS * text_height))
    across = _runs(dark, (length, 1), thickness)
    down = _runs(numpy.ascontiguousarray(dark.T), (length, 1), thickness)
    return Rulings(across, down) if len(across) + len(down) <= _MAX_RULINGS else Rulings([], [])


def _runs(dark: Any, kernel: tuple[int, int], thickness: int) -> list[Ruled]:
    """The long thin runs of dark pixels across a picture."""
    # A slight slant or a speck cuts a line: a pixel above and below counts.
    thick = cv2.dilate(dark, cv2.getStructuringElement(cv2.MORPH_RECT, (1, 3)))
    opened = cv2.morphologyEx(thick, cv2.MORPH_OPEN, cv2.getStructuringElement(cv2.MORPH_RECT, kernel))
    count, _, boxes, _ = cv2.connectedComponentsWithStats(opened)
    lines: list[Ruled] = []
    for left, top, width, height, _ in boxes[1:count]:
        if height - 2 <= thickness:
            lines.append(Ruled(float(top + height / 2), float(left), float(left + width)))
    return lines
