"""What reading a document yields, in the order of the document, and the limits of reading it.

Reading yields any number of `TextPart`, `AttachedFile`, `Asset` and `DocumentFields`, then one `ReadReport`, or raises. The
texts of the parts, joined, are the content; offsets count its characters from the first part of the same call.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

MIB = 1024 * 1024

# Raised whenever the same bytes would give other content.
READER_VERSION = "8"


@dataclass(frozen=True)
class TextPart:
    """A piece of the canonical markdown, in order, the page or slide that it is on, and where it stands there (`text_boxes.py`)."""

    text: str
    page: int | None = None
    boxes: bytes = b""


@dataclass(frozen=True)
class AttachedFile:
    """A file inside the document, written to the caller's scratch folder."""

    name: str
    path: Path
    media_type: str | None = None


@dataclass(frozen=True)
class Asset:
    """An image or a table, yielded once for each hash; `start` is its offset in the content."""

    hash: str
    path: Path
    media_type: str
    page: int | None
    start: int
    kind: Literal["image", "table"]
    text: str = ""  # its caption
    small: bool = False  # an icon, a line or a dot, without information


@dataclass(frozen=True)
class DocumentFields:
    """What the document says of itself (`document_metadata.py`): fields of which the first value counts."""

    fields: dict[str, Any]


@dataclass(frozen=True)
class ReadReport:
    """The end of a reading: how much was read, and what the user should know about it.

    A warning is a stable code, with figures after a colon where it has some:

        empty               the document really is empty
        no_text             it has no text of its own, but images
        partial:412/480     how many pages were read, of how many; a code `reader_…` next to it names the cause
        ocr_used:12         pages or images whose text was recognised by OCR
        unreadable_text     the font of a page does not say which letters it shows, and OCR did not read it
        ocr_doubtful:3      of these, those whose text is probably wrong: another script, handwriting, a bad picture
        ocr_skipped:12      pages that look scanned, and were not recognised
        encrypted           it is marked as protected, and could be read without a password
        encrypted_entries:3 entries of an archive that need a password
        damaged             parts of it are broken; what could be read is there
        unsafe_entries:2    entries of an archive whose names or types are not accepted
        too_deep            files inside were left out: they are nested deeper than allowed
        encoding_guessed    the encoding is a guess
        mails_in_text:120   messages of a mailbox that are part of its text, because it has too many
        partial_text        only the plain text runs of this format can be read
    """

    warnings: list[str] = field(default_factory=list[str])
    pages_total: int | None = None
    pages_read: int | None = None
    kind: str = ""
    ocr_hashes: list[str] = field(default_factory=list[str])  # of the images whose text is in the content


ReadResult = TextPart | AttachedFile | Asset | DocumentFields | ReadReport


@dataclass(frozen=True)
class ReadBudget:
    """The limits of one document, which depend on its size."""

    memory: int
    cpu_seconds: int
    stall_seconds: float
    wall_seconds: float
    max_characters: int
    attachment_bytes: int


@dataclass(frozen=True)
class ReadLimits:
    """What one document may cost. Each limit is a base that grows with the size; progress extends the time."""

    memory_mb: int = 768
    max_memory_mb: int = 2048
    ocr_memory_mb: int = 3072
    stall: timedelta = timedelta(seconds=60)  # without a page, a piece of text or another sign of progress
    wall: timedelta = timedelta(minutes=10)  # in all; every page adds `per_page`
    per_page: timedelta = timedelta(seconds=30)
    output_mb: int = 64
    attachments_mb: int = 512
    max_attachments: int = 10_000
    depth: int = 5  # how many levels of files inside files may be opened below this document
    ocr: bool = True
    ocr_pages: int = 2_000

    def budget(self, size: int) -> ReadBudget:
        """The limits of a document of `size` bytes."""
        megabytes = size / MIB
        stall = self.stall.total_seconds() + megabytes
        return ReadBudget(
            memory=min(int((self.memory_mb + 12 * megabytes) * MIB), self.max_memory_mb * MIB),
            cpu_seconds=int(2 * stall) + 1,
            stall_seconds=stall,
            wall_seconds=self.wall.total_seconds() + 10 * megabytes,
            max_characters=int((self.output_mb + 20 * megabytes) * MIB),
            attachment_bytes=int((self.attachments_mb + 20 * megabytes) * MIB),
        )


def reader_identity(limits: ReadLimits) -> str:
    """The name under which content is kept: it changes with the limits that decide what the content holds."""
    return f"readers/{READER_VERSION}" + (f"+ocr{limits.ocr_pages}" if limits.ocr else "")
