"""The outline of a PDF (its bookmarks): for readers to navigate by, and to find headings that look like other text."""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gristmill.readers.formats.pdf_lines import TextLine
from gristmill.readers.libraries import pdfium
from gristmill.readers.sink import clean_text

_MAX_ENTRIES, _MAX_DEPTH, _MAX_TITLE_LENGTH = 2_000, 6, 200
_MAX_TITLE_LINES = 3
_MIN_LETTERS = 3  # of a title that may be found by chance
_NUMBER = re.compile(r"^(?:(?:chapter|section|part|appendix)\s+)?(?:\d+(?:\.\d+)*|[ivxlc]+|[a-z])[.):]?\s+")


@dataclass(frozen=True)
class OutlineTitle:
    """An entry of the outline: its level from 1, its title, and the number of its page."""

    level: int
    title: str
    page: int


def read_outline(document: Any) -> list[OutlineTitle]:
    """The outline of an open document; of a damaged one, as far as it goes."""
    outline: list[OutlineTitle] = []
    count = len(document)
    with contextlib.suppress(pdfium.PdfiumError, ValueError, RecursionError):
        for bookmark in document.get_toc(max_depth=_MAX_DEPTH):
            if len(outline) >= _MAX_ENTRIES:
                break
            target = bookmark.get_dest()
            index = None if target is None else target.get_index()
            title = clean_title(bookmark.get_title() or "")
            if index is not None and 0 <= index < count and title:
                outline.append(OutlineTitle(int(bookmark.level) + 1, title, index + 1))
    return outline


def clean_title(text: str) -> str:
    """A title or a label in one line."""
    return " ".join(clean_text(text).split())[:_MAX_TITLE_LENGTH]


def titles_by_page(outline: Sequence[OutlineTitle]) -> dict[int, list[OutlineTitle]]:
    """The entries of each page, by its number."""
    by_page: dict[int, list[OutlineTitle]] = {}
    for entry in outline:
        by_page.setdefault(entry.page, []).append(entry)
    return by_page


def mark_titles(lines: Sequence[TextLine | None], titles: Sequence[OutlineTitle]) -> None:
    """Make headings of the lines that are a title of the outline, at its level; None is where a table stands."""
    keys = [_key(line.text) if line is not None else "" for line in lines]
    used: set[int] = set()
    for title in titles:
        wanted = _key(title.title)
        if sum(letter.isalnum() for letter in wanted) < _MIN_LETTERS:
            continue
        for start in range(len(lines)):
            end = _end_of_title(keys, start, wanted)
            if end is None or used & set(range(start, end)):
                continue
            for place in range(start, end):
                line = lines[place]
                if line is not None:
                    line.level = min(title.level, _MAX_DEPTH)
            used.update(range(start, end))
            break


def _end_of_title(keys: Sequence[str], start: int, wanted: str) -> int | None:
    """The place after the lines that are the title, from `start` on."""
    text = ""
    for place in range(start, min(start + _MAX_TITLE_LINES, len(keys))):
        text = f"{text} {keys[place]}".strip()
        if keys[place] and wanted in (text, _NUMBER.sub("", text)):
            return place + 1
        if not keys[place] or len(text) > len(wanted) + 20:
            return None
    return None


def _key(text: str) -> str:
    key = " ".join(text.casefold().split())
    return _NUMBER.sub("", key) or key
