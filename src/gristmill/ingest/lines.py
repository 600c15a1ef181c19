"""Split content that arrives in parts of any size into lines. The lines don't depend on the sizes of the parts.

A line includes its final `\\n`. A line longer than `MAX_LINE` is returned in fragments, each split by its own text alone,
so that a file without line breaks is never held in memory as a whole. Blank lines that follow each other are returned
together, up to `MAX_BLANKS` at a time: megabytes of them cost hardly anything.
"""

import re
from typing import NamedTuple

MAX_LINE = 16_384
MAX_BLANKS = 256
_MAX_INDENT = 8  # a blank line with more white space is returned by itself

_BLANKS = rf"(?:[ \t\r]{{0,{_MAX_INDENT}}}\n){{1,{MAX_BLANKS}}}"
_LINES = re.compile(rf"{_BLANKS}|[^\n]+\n")
_LAST_BLANKS = re.compile(rf"{_BLANKS}\Z")
_INDENT = re.compile(rf"[ \t\r]{{0,{_MAX_INDENT}}}\Z")
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
        complete = self._complete_lines(end)
        if complete and self._may_grow(complete[-1], end):
            end -= len(complete.pop())
        self._add_lines(complete, lines)
        if "\n" not in self._pending[end:]:
            end = self._split_fragments(self._pending, end, len(self._pending), lines)
        self._pending = self._pending[end:]
        return lines

    def finish(self) -> list[ContentLine]:
        """End the content, and return its last lines, also one that no line break ended."""
        lines: list[ContentLine] = []
        end = self._pending.rfind("\n") + 1
        self._add_lines(self._complete_lines(end), lines)
        last, self._pending = self._pending[end:], ""
        return [*lines, ContentLine(last, self._is_continuation)] if last else lines

    def _complete_lines(self, end: int) -> list[str]:
        """The lines of the pending text up to `end`. The rest of a line is never part of a run of blank lines."""
        begin = self._pending.index("\n") + 1 if self._is_continuation and end else 0
        rest = [self._pending[:begin]] if begin else []
        return rest + _LINES.findall(self._pending, begin, end)

    def _may_grow(self, last: str, end: int) -> bool:
        """Whether the last complete line is a run of blank lines that text still to come may continue."""
        return (
            last.count("\n") < MAX_BLANKS
            and not (self._is_continuation and len(last) == end)
            and _LAST_BLANKS.match(last) is not None
            and _INDENT.match(self._pending, end) is not None
        )

    def _add_lines(self, complete: list[str], lines: list[ContentLine]) -> None:
        for line in complete:
            if len(line) <= MAX_LINE:
                lines.append(ContentLine(line, self._is_continuation))
                self._is_continuation = False
                continue
            at = self._split_fragments(line, 0, len(line), lines)
            lines.append(ContentLine(line[at:] if at else line, self._is_continuation))
            self._is_continuation = False

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
