"""What one back-up consists of. A manifest is written last: a back-up without one does not exist.

The file is zstd-compressed JSON behind a line with its SHA-256, so that a truncated or damaged one is refused:

    gristmill-backup 1 <sha256 of the rest, in hex>\\n<zstd>

Version 1 of the format: every file and blob is a list of pieces, which the repository stores by their hash.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import zstandard
from pydantic import TypeAdapter

from gristmill.errors import Invalid

FORMAT = 1
_MAGIC = b"gristmill-backup"


@dataclass(frozen=True)
class SavedFile:
    """A file of PostgreSQL's data directory; `path` is relative to it.

    `settled` is True if the file had not changed for a while when it was read, so that an equal size and time later mean
    equal bytes.
    """

    path: str
    size: int
    modified_ns: int
    settled: bool
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class SavedBlob:
    """A blob, by its name in the blob store."""

    name: str
    size: int
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    """One back-up. `created_at` is the moment that a restore brings back."""

    id: str
    created_at: datetime
    gristmill: str
    postgres: int
    schema: int
    backup_label: str
    start_wal: str
    stop_wal: str
    folders: tuple[str, ...] = ()
    secret_key: SavedFile | None = None
    files: tuple[SavedFile, ...] = ()
    blobs: tuple[SavedBlob, ...] = ()
    # The size of each stored piece, by which a truncated one is noticed.
    pieces: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def size(self) -> int:
        """The bytes that a restore writes."""
        return sum(file.size for file in self.files) + sum(blob.size for blob in self.blobs)

    def encode(self) -> bytes:
        """The manifest as a file."""
        body = zstandard.compress(_adapter.dump_json(self), 6)
        digest = hashlib.sha256(body).hexdigest().encode()
        return b"%s %d %s\n%s" % (_MAGIC, FORMAT, digest, body)


_adapter = TypeAdapter(Manifest)


def decode_manifest(data: bytes, name: str) -> Manifest:
    """The manifest in a file; `Invalid` when it is damaged, or of a later format."""
    header, _, body = data.partition(b"\n")
    words = header.split(b" ")
    if len(words) != 3 or words[0] != _MAGIC or not words[1].isdigit():
        raise _damage_error(name)
    if int(words[1]) > FORMAT:
        raise Invalid(
            f"The back-up {name} was made by a later release, in format {int(words[1])}; this one reads up to {FORMAT}. "
            "Use that release to restore it.",
            code="backup_format",
        )
    if hashlib.sha256(body).hexdigest().encode() != words[2]:
        raise _damage_error(name)
    return _adapter.validate_json(zstandard.decompress(body))


def _damage_error(name: str) -> Invalid:
    return Invalid(
        f"The back-up {name} is damaged or incomplete. Choose another one: `gristmill backup DESTINATION --list` shows them.",
        code="backup_damaged",
    )
