"""What reading a document gives, in the order of the document, and the limits it is read within.

A reader yields any number of `Part`, `Embedded` and `Asset`, then one `Report`, or raises. The concatenated texts of
the parts are the content; offsets count its characters from the first part of the same call.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

MIB = 1024 * 1024


@dataclass(frozen=True)
class TextPart:
    """A piece of the canonical markdown, in order, and the page or slide it stands on."""

    text: str
    page: int | None = None


@dataclass(frozen=True)
class AttachedFile:
    """A document inside the document: its bytes are in a file of the caller's scratch folder."""

    name: str
    path: Path
    media_type: str | None = None


@dataclass(frozen=True)
class Asset:
    """An image or a table, once for each hash; `start` is where the content stands that it belongs to."""

    hash: str
    path: Path
    media_type: str
    page: int | None
    start: int
    kind: Literal["image", "table"]
    text: str = ""  # its caption
    small: bool = False  # an icon, a rule, a dot: it says nothing


@dataclass(frozen=True)
class ReadReport:
    """The end of a reading: what the document says of itself, and what has to be told about the result.

    A warning is a stable code, with figures behind a colon where there are some:

        empty               the document is truly empty
        no_text             it has no text of its own, but images inside
        partial:412/480     pages that were read, of how many; `reader_…` beside it says what ended the others
        ocr_used:12         pages or images whose text was recognised from their looks
        ocr_skipped:12      pages that look scanned and were not recognised
        encrypted           it says that it is protected, and could be read without a password
        encrypted_entries:3 entries of an archive that need a password
        damaged             parts of it are broken; what could be read is there
        unsafe_entries:2    entries of an archive whose names or kinds are not taken
        too_deep            documents inside were left out: the nesting goes deeper than allowed
        encoding_guessed    the encoding is a guess
        partial_text        the format is read only as far as its text stands in plain runs
    """

    title: str | None = None
    language: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    warnings: list[str] = field(default_factory=list[str])
    pages_total: int | None = None
    pages_read: int | None = None
    kind: str = ""
    ocr_hashes: list[str] = field(default_factory=list[str])  # hashes of images whose text is in the content


ReadResult = TextPart | AttachedFile | Asset | ReadReport


@dataclass(frozen=True)
class ReadBudget:
    """The limits of one document, as its size sets them."""

    memory: int
    cpu_seconds: int
    stall_seconds: float
    wall_seconds: float
    output: int
    embedded_bytes: int


@dataclass(frozen=True)
class ReadLimits:
    """What one document may cost. Each limit is a base that grows with the input, and progress extends time."""

    memory_mb: int = 768
    most_memory_mb: int = 2048
    ocr_memory_mb: int = 3072
    stall: timedelta = timedelta(seconds=60)  # without a page, a piece or a sign of progress
    wall: timedelta = timedelta(minutes=10)  # in all; every page adds `per_page`
    per_page: timedelta = timedelta(seconds=30)
    output_mb: int = 64
    embedded_mb: int = 512
    embedded_files: int = 10_000
    depth: int = 5  # levels of documents inside documents that may still be opened below this one
    ocr: bool = True
    ocr_pages: int = 2_000

    def budget(self, size: int) -> ReadBudget:
        """The limits of a document of `size` bytes."""
        megabytes = size / MIB
        stall = self.stall.total_seconds() + megabytes
        return ReadBudget(
            memory=min(int((self.memory_mb + 12 * megabytes) * MIB), self.most_memory_mb * MIB),
            cpu_seconds=int(2 * stall) + 1,
            stall_seconds=stall,
            wall_seconds=self.wall.total_seconds() + 10 * megabytes,
            output=int((self.output_mb + 20 * megabytes) * MIB),
            embedded_bytes=int((self.embedded_mb + 20 * megabytes) * MIB),
        )
