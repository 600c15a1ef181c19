"""Windows of a content: what the reader shows at once, so that a document of any length costs the same.

    around   a character: some of the text before it, more after it
    after    a character: from exactly there
    before   a character: up to exactly there

Other edges are blank lines, or else the ends of lines. A window that begins within code knows the fence that opened it, one within a
table its head: each can be shown by itself, and windows that follow each other have every character once. Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Edge = Literal["around", "after", "before"]

MAX_WINDOW = 24_000  # characters
CONTEXT = MAX_WINDOW + 4_000  # characters before a place that are looked at
_BEFORE = 6_000  # of a window, before the character that was asked for
_MAX_LINE = 4_000  # longer ones are cut
# A line that opens or closes code, also within a list, or right behind the mark of an entry. "```ls```" is code within a line.
FENCE = r"^[ \t]*(?P<entry>(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})(?P<info>.*)$"
_FENCE = re.compile(FENCE, re.MULTILINE)
_TABLE_ROW = re.compile(r"(?:[^\n]*\n)?\|")  # stored parts end anywhere: the first line can be a part of one
_TABLE_ROWS = re.compile(r"(?:\|[^\n]*\n?)+")
_CELL_END = re.compile(r"(?<!\\)\|")
_TABLE_HEAD = re.compile(r"^\|.*\|[ \t]*\n\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*\n", re.MULTILINE)


@dataclass(frozen=True)
class TextWindow:
    """A piece of a content: its text, where it begins, and the page it is on. `fence` opens the code that it begins within, and
    `line` is the number of the first line of that code; `table_head` are the first lines of the table that it begins within."""

    text: str
    start: int
    page: int | None = None
    fence: str = ""
    line: int = 1
    table_head: str = ""

    @property
    def end(self) -> int:
        """The character after its last."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class TextRun:
    """Consecutive text of one page. `table_head` is that of a table which begins before it."""

    text: str
    start: int
    page: int | None
    table_head: str = ""

    @property
    def end(self) -> int:
        """The character after its last."""
        return self.start + len(self.text)


def join_parts(parts: Sequence[tuple[int, str, int | None]]) -> list[TextRun]:
    """Runs of consecutive parts (start, text, page) that are on one page."""
    groups = [list(group) for _, group in groupby(parts, key=lambda part: part[2])]
    return [TextRun("".join(text for _, text, _ in group), group[0][0], group[0][2]) for group in groups]


def find_table_head(text: str) -> str:
    """The head of the last table in a text: its first two lines."""
    return next((match[0] for match in reversed(list(_TABLE_HEAD.finditer(text)))), "")


def widen_table_heads(text: str) -> str:
    """The text, line by line, with heads of tables as wide as their widest row: cells beyond the head would not be shown."""
    pieces: list[str] = []
    end = table_end = 0
    for match in _TABLE_HEAD.finditer(text):
        if match.start() < table_end:  # a row that looks like a head
            continue
        rows = _TABLE_ROWS.match(text, match.end())
        table_end = rows.end() if rows else match.end()
        head, rule = match[0].rstrip("\n").split("\n")
        widest = max(map(_count_cells, rows[0].split("\n")), default=0) if rows else 0
        missing = widest - _count_cells(head)
        if missing > 0:
            pieces += text[end : match.start()], f"{head}{' |' * missing}\n{rule}{' --- |' * missing}\n"
            end = match.end()
    return "".join([*pieces, text[end:]])


def _count_cells(row: str) -> int:
    return len(_CELL_END.findall(row))


def begins_in_table(text: str) -> bool:
    """Whether a text may begin within a table."""
    return _TABLE_ROW.match(text) is not None


def choose_windows(runs: Sequence[TextRun], place: int, edge: Edge) -> list[TextWindow]:
    """The windows at a place, in order; each is on one page, and each begins where the one before it ends."""
    windows: list[TextWindow] = []
    if edge == "before":
        for run in reversed([run for run in runs if run.start < place]):
            windows.insert(0, cut_window(run, min(place, run.end), "before"))
            if windows[0].start > run.start or windows[-1].end - windows[0].start > MAX_WINDOW:
                break
        return windows
    following = [run for run in runs if run.end > place] or list(runs[-1:])
    for run in following:
        if not windows:
            windows.append(cut_window(run, place, edge))
        elif windows[-1].end == run.start and run.start - windows[0].start <= MAX_WINDOW:
            windows.append(cut_window(run, run.start, "after"))
        else:
            break
    return windows


def cut_window(run: TextRun, at: int, edge: Edge = "around") -> TextWindow:
    """The window of a run at a character."""
    text = run.text
    place = max(0, min(at - run.start, len(text)))
    first, last = place, len(text)
    if edge == "before":
        last = place
        first = 0
        if last > MAX_WINDOW:
            blank = text.find("\n\n", last - MAX_WINDOW, last - MAX_WINDOW // 2)
            first = blank + 2 if blank >= 0 else _line_start(text, last - MAX_WINDOW)
    elif edge == "around":
        first = 0
        if place > _BEFORE:
            blank = text.rfind("\n\n", 0, place - _BEFORE) + 2
            too_early = place - MAX_WINDOW // 2
            first = blank if blank > too_early else _line_start(text, too_early)
    if last - first > MAX_WINDOW and edge != "before":
        blank = text.find("\n\n", first + MAX_WINDOW, first + 2 * MAX_WINDOW)
        last = blank + 2 if blank >= 0 else min(last, _line_start(text, first + 2 * MAX_WINDOW))
    fence, line = _fence_at(text, first)
    head = "" if fence else _table_head_at(run, first)
    return TextWindow(text[first:last], run.start + first, run.page, fence, line, head)


def _line_start(text: str, position: int) -> int:
    """The beginning of the line at a position, unless the line is very long."""
    if position >= len(text):
        return len(text)
    newline = text.rfind("\n", max(0, position - _MAX_LINE), position)
    return newline + 1 if newline >= 0 else position


def _fence_at(text: str, position: int) -> tuple[str, int]:
    """The fence of the code at a position, and the number of the line there; empty outside code."""
    fence, line = "", 1
    for match in _FENCE.finditer(text, 0, position):
        if not fence:
            fence, line = match["fence"], 1 + text.count("\n", match.end() + 1, position)
        elif closes(match, fence):
            fence = ""
    return (fence, line) if fence else ("", 1)


def closes(match: re.Match[str], fence: str) -> bool:
    """Whether a line that `FENCE` matches closes the code that a fence has opened."""
    return match["fence"].startswith(fence) and not match["info"].strip() and not match["entry"]


def _table_head_at(run: TextRun, position: int) -> str:
    """The head of the table whose rows are at a position, unless it begins there."""
    text = run.text
    if not text.startswith("|", position) or _TABLE_HEAD.match(text, position):
        return ""
    blank = text.rfind("\n\n", 0, position)
    head = find_table_head(text[blank + 2 if blank >= 0 else 0 : position])
    return head or (run.table_head if blank < 0 else "")
