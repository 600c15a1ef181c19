"""What checks of sources have in common: what was written, when to stop, which errors are those of a source, and how many pages may
be gone at once."""

from dataclasses import dataclass

FEW_PAGES = 20  # so many pages of a sitemap or site may be gone at once, whatever share of it they are …
_HANDFUL = 3  # … unless these, or more, are all that there was, and only the start page is left

# Errors of a source, not of what it contains: once it can be read, a document that has one is tried again.
SOURCE_ERRORS = frozenset(
    {
        "source_gone",
        "forbidden_by_source",
        "refused_by_source",
        "too_many_redirects",
        "host_unknown",
        "source_unreachable",
        "source_unavailable",
        "source_timeout",
        "source_busy",
        "source_io_error",
        "permission_denied",
        "broken_link",
        "render_failed",
        "render_timeout",
        "render_too_large",
        "render_unavailable",
    }
)


def is_mass_removal(gone: int, filed: int, present: int) -> bool:
    """Whether so many pages are gone at once that the site more likely has a problem: a notice of maintenance, a log-in.
    `present` is how many pages it has now."""
    return gone > max(FEW_PAGES, filed // 2) or (gone >= _HANDFUL and present <= 1)


class Interrupted(Exception):
    """The container is gone, is being listed, or belongs to another worker by now: nothing more is written."""


@dataclass
class ChangeCounts:
    """What was written."""

    added: int = 0
    changed: int = 0
    moved: int = 0
    removed: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.added + self.changed + self.moved + self.removed

    def add(self, other: "ChangeCounts") -> None:
        """Count another batch too."""
        self.added += other.added
        self.changed += other.changed
        self.moved += other.moved
        self.removed += other.removed
