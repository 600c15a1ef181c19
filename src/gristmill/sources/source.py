"""The port that every source implements, and the simplest source: a note."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from gristmill.errors import Transient

MAX_IN_MEMORY = 1 << 20  # bytes; larger files stay on the disk, and are read in blocks


@dataclass(frozen=True)
class Original:
    """The bytes that a source had when it was read, or the path of a file on this machine that has them.

    A source that knows more passes it on: `media_type` and `charset` as the server declared them, `final_url` after
    redirects, and in `metadata` the validators that show later whether it changed (`etag`, `last_modified`). The
    reader removes a `temporary` file.
    """

    data: bytes
    name: str
    media_type: str | None = None
    charset: str | None = None
    final_url: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    path: Path | None = None
    temporary: bool = False
    peer: str | None = None  # the network address that a page was fetched from
    unchanged: bool = False  # the source has not changed since the last reading: there are no bytes

    def open(self) -> BinaryIO:
        """Open the bytes for reading from the beginning. Blocks."""
        if self.path is None:
            return io.BytesIO(self.data)
        try:
            return self.path.open("rb")
        except OSError as error:
            raise Transient(f"{self.path}: {error.strerror}", code="source_io_error") from error


class Source(Protocol):
    """A place that a document can be read from."""

    async def probe(self) -> int:
        """Its size in bytes. Raises Permanent when it can't be read, Transient when it may work later."""
        ...

    async def read(self) -> Original:
        """Its bytes. Raises the same errors."""
        ...


@dataclass(frozen=True)
class NoteSource:
    """A text that a user typed: the text itself is the source."""

    text: str
    title: str

    async def probe(self) -> int:
        """The length of the text in bytes."""
        return len(self.text.encode())

    async def read(self) -> Original:
        """The text."""
        return Original(self.text.encode(), self.title, charset="utf-8")
