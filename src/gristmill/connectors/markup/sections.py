"""Documents of several texts: a title, a description, and comments as sections."""

from collections.abc import Iterable


def comment_section(author: str | None, day: str, text: str, *, level: int = 2, location: str = "") -> str:
    """A comment below a heading with its author, day and, for comments on code, the file."""
    place = f" at `{location}`" if location else ""
    return f"{'#' * level} {author or 'unknown'}, {day}{place}\n\n{text}"


def join_sections(sections: Iterable[str]) -> str:
    """Sections that are not empty, one below the other, with Unix line ends."""
    return "\n\n".join(section for section in sections if section).replace("\r\n", "\n")
