"""Split content that arrives in parts of any size into lines. The lines don't depend on the sizes of the parts.

A line includes its final `\\n`. A line longer than `MAX_LINE` is returned in fragments, each split by its own text alone,
so that a file without line breaks is never held in memory as a whole.
"""

import re
from typing import NamedTuple

MAX_LINE = 16_384

_LINES = re.compile(r"[^\n]*\n")
_SENTENCE_ENDS = ("。", "！", "？", ". ", "! ", "? ")


class ContentLine(NamedTuple):
    """A line, or a fragment of a line; `continues` if it isn't the first fragment of its line."""

    text: str
    continues: bool


class LineSplitter:
    """Splits one document."""

    def __init__(self) -> None:
        self._pending = ""  # the start of a line whose end hasn't arrived
        self._is_continuation = False  # whether that is not the line's first fragment

    def feed(self, text: str) -> list[ContentLine]:
        """Add `text`, and return the lines that it completes."""
        self._pending += text
        lines: list[ContentLine] = []
        end = self._pending.rfind("\n") + 1
        if end:
            for line in _LINES.findall(self._pending, 0, end):
                at = self._split_fragments(line, 0, len(line), lines)
                lines.append(ContentLine(line[at:] if at else line, self._is_continuation))
                self._is_continuation = False
        at = self._split_fragments(self._pending, end, len(self._pending), lines)
        self._pending = self._pending[at:]
        return lines

    def finish(self) -> list[ContentLine]:
        """End the content, and return its last line if no line break ended it."""
        last, self._pending = self._pending, ""
        return [ContentLine(last, self._is_continuation)] if last else []

    def _split_fragments(self, text: str, at: int, end: int, lines: list[ContentLine]) -> int:
        """Split off fragments until the rest is short. Returns where the rest starts."""
        while end - at > MAX_LINE:
            cut = _fragment_end(text, at)
            lines.append(ContentLine(text[at:cut], self._is_continuation))
            self._is_continuation = True
            at = cut
        return at


def _fragment_end(text: str, at: int) -> int:
    earliest, latest = at + MAX_LINE // 2, at + MAX_LINE
    end = max(text.rfind(mark, earliest, latest) for mark in _SENTENCE_ENDS) + 1
    if end > earliest:
        return end
    space = text.rfind(" ", earliest, latest)
    return space if space > earliest else latest
