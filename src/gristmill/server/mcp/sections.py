"""The sections of a document, by the headings of its markdown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LINE = re.compile(
    r"^(?: {0,3}(?P<fence>`{3,}|~{3,})| {0,3}(?P<marks>#{1,6})[ \t]+(?P<title>[^\n]*))", re.MULTILINE
)


@dataclass(frozen=True)
class DocumentSection:
    """A section: its heading and those above it, outermost first, and its range of characters, subsections included."""

    headings: tuple[str, ...]
    start: int
    end: int


def find_sections(text: str) -> list[DocumentSection]:
    """All sections in the order of the document. Text before the first heading is a section without headings."""
    places = list(_headings(text))
    sections: list[DocumentSection] = []
    if not places or text[: places[0][2]].strip():
        sections.append(DocumentSection((), 0, places[0][2] if places else len(text)))
    ends = _section_ends([level for level, _, _ in places], [start for _, _, start in places], len(text))
    above: list[tuple[int, str]] = []
    for (level, title, start), end in zip(places, ends, strict=True):
        above = [*((depth, name) for depth, name in above if depth < level), (level, title)]
        sections.append(DocumentSection(tuple(name for _, name in above), start, end))
    return sections


def _section_ends(levels: Sequence[int], starts: Sequence[int], end_of_text: int) -> list[int]:
    """Where each section ends: at the next heading of its level or of one above it. In one pass, because a document may have a
    hundred thousand headings."""
    ends = [end_of_text] * len(levels)
    open_sections: list[int] = []
    for index, level in enumerate(levels):
        while open_sections and levels[open_sections[-1]] >= level:
            ends[open_sections.pop()] = starts[index]
        open_sections.append(index)
    return ends


def section_at(sections: Sequence[DocumentSection], offset: int) -> DocumentSection | None:
    """The innermost section around a character of the document."""
    return next((section for section in reversed(sections) if section.start <= offset < section.end), None)


def section_named(sections: Sequence[DocumentSection], heading: str) -> DocumentSection | None:
    """The first section with this heading; case is ignored."""
    wanted = heading.strip().lstrip("# ").casefold()
    return next(
        (section for section in sections if section.headings and section.headings[-1].casefold() == wanted),
        None,
    )


def neighbours(
    sections: Sequence[DocumentSection], section: DocumentSection
) -> tuple[DocumentSection | None, DocumentSection | None]:
    """The sections before this one and after its last subsection."""
    before = [other for other in sections if other.start < section.start]
    after = [other for other in sections if other.start >= section.end]
    return (before[-1] if before else None), (after[0] if after else None)


def _headings(text: str) -> list[tuple[int, str, int]]:
    """Level, title and offset of each heading outside of fenced code."""
    headings: list[tuple[int, str, int]] = []
    fence = ""
    for match in _LINE.finditer(text):
        if match["fence"]:
            if not fence:
                fence = match["fence"]
            elif match["fence"].startswith(fence):
                fence = ""
        elif not fence:
            headings.append((len(match["marks"]), match["title"].rstrip("# \t"), match.start()))
    return headings
