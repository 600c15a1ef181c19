"""Lines out of parts of any size: the same ones however the content is cut into parts.

A line ends with `\\n`, which it keeps. One beyond `LONGEST` is given in fragments, each of them cut by what it holds
itself, so that a file without a single line break is never held whole.
"""

import re
from typing import NamedTuple

MAX_LINE = 16_384

_LINES = re.compile(r"[^\n]*\n")
_SENTENCE_ENDS = ("。", "！", "？", ". ", "! ", "? ")


class TextLine(NamedTuple):
    """A line, or a fragment of one; `continues` a line whose beginning was given before."""

    text: str
    continues: bool


class LineSplitter:
    """The lines of one document."""

    def __init__(self) -> None:
        self._pending = ""  # a beginning whose end hasn't come
        self._is_continuation = False  # it is not the line's own beginning

    def feed(self, text: str) -> list[TextLine]:
        """The lines that are complete with `text`."""
        self._pending += text
        lines: list[TextLine] = []
        end = self._pending.rfind("\n") + 1
        if end:
            for line in _LINES.findall(self._pending, 0, end):
                at = self._split_fragments(line, 0, len(line), lines)
                lines.append(TextLine(line[at:] if at else line, self._is_continuation))
                self._is_continuation = False
        at = self._split_fragments(self._pending, end, len(self._pending), lines)
        self._pending = self._pending[at:]
        return lines

    def finish(self) -> list[TextLine]:
        """The last line, when nothing ended it."""
        last, self._pending = self._pending, ""
        return [TextLine(last, self._is_continuation)] if last else []

    def _split_fragments(self, text: str, at: int, end: int, lines: list[TextLine]) -> int:
        """Cut fragments off until what is left is short; where that begins."""
        while end - at > MAX_LINE:
            cut = _fragment_end(text, at)
            lines.append(TextLine(text[at:cut], self._is_continuation))
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
