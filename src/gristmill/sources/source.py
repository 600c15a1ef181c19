"""The port: a source can be asked whether it is there, and read."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from gristmill.errors import Transient

MAX_IN_MEMORY = 1 << 20  # bytes; what is longer stays on the disk, and is read in blocks


@dataclass(frozen=True)
class Original:
    """What a source held when it was read: its bytes, or where they lie on this machine's disk.

    A source that is told more than the bytes passes it on: `media_type` and `charset` as the sender named
    them, `final_url` after redirects, and in `metadata` what tells later whether it changed (`etag`,
    `last_modified`). A `temporary` file is the reader's to remove.
    """

    data: bytes
    name: str
    media_type: str | None = None
    charset: str | None = None
    final_url: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    path: Path | None = None
    temporary: bool = False
    unchanged: bool = False  # the source says that it is as it was when it was last read: there are no bytes

    def open(self) -> BinaryIO:
        """The bytes, to be read from the beginning. Blocks."""
        if self.path is None:
            return io.BytesIO(self.data)
        try:
            return self.path.open("rb")
        except OSError as error:
            raise Transient(f"{self.path}: {error.strerror}", code="source_io_error") from error


class Source(Protocol):
    """Something that a document can be read from."""

    async def probe(self) -> int:
        """Its size in bytes. Raises Permanent when it can't be read, Transient when it may be later."""
        ...

    async def read(self) -> Original:
        """Its bytes, under the same errors."""
        ...
