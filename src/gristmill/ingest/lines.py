"""Lines out of parts of any size: the same ones however the content is cut into parts.

A line ends with `\\n`, which it keeps. One beyond `LONGEST` is given in fragments, each of them cut by what it holds
itself, so that a file without a single line break is never held whole.
"""

import re
from typing import NamedTuple

LONGEST = 16_384

_LINES = re.compile(r"[^\n]*\n")
_ENDS = ("。", "！", "？", ". ", "! ", "? ")


class Line(NamedTuple):
    """A line, or a fragment of one; `continues` a line whose beginning was given before."""

    text: str
    continues: bool


class Lines:
    """The lines of one document."""

    def __init__(self) -> None:
        self._rest = ""  # a beginning whose end hasn't come
        self._within = False  # it is not the line's own beginning

    def feed(self, text: str) -> list[Line]:
        """The lines that are complete with `text`."""
        self._rest += text
        found: list[Line] = []
        end = self._rest.rfind("\n") + 1
        if end:
            for line in _LINES.findall(self._rest, 0, end):
                at = self._fragments(line, 0, len(line), found)
                found.append(Line(line[at:] if at else line, self._within))
                self._within = False
        at = self._fragments(self._rest, end, len(self._rest), found)
        self._rest = self._rest[at:]
        return found

    def finish(self) -> list[Line]:
        """The last line, when nothing ended it."""
        last, self._rest = self._rest, ""
        return [Line(last, self._within)] if last else []

    def _fragments(self, text: str, at: int, end: int, found: list[Line]) -> int:
        """Cut fragments off until what is left is short; where that begins."""
        while end - at > LONGEST:
            cut = _fragment_end(text, at)
            found.append(Line(text[at:cut], self._within))
            self._within = True
            at = cut
        return at


def _fragment_end(text: str, at: int) -> int:
    least, most = at + LONGEST // 2, at + LONGEST
    end = max(text.rfind(mark, least, most) for mark in _ENDS) + 1
    if end > least:
        return end
    space = text.rfind(" ", least, most)
    return space if space > least else most
