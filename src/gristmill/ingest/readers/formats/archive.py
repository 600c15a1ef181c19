"""Archives: each entry becomes a document of its own; the content is the list of them.

unfolds past its limits, or holds itself      bomb
entries with a password                       told; encrypted when there are no others
links, devices, names that lead elsewhere     not taken, or taken by their last part; told
a directory that is broken                    entries are found by their own heads
"""

import bz2
import contextlib
import gzip
import hashlib
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from gristmill.ingest.readers.formats import office
from gristmill.ingest.readers.sink import Refused, Sink, bomb, pieces, safe_path

_FOLDED, _FREE = 200, 32 * 1024 * 1024
_JUNK = ("__MACOSX/", ".DS_Store", "Thumbs.db", "desktop.ini")
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError, lzma.LZMAError)
_MOST_LISTED = 5_000


class Listing:
    """Takes entries, and tells them in the content."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._itself = sink.task.path.stat().st_size
        self.entries = self.locked = self.unsafe = 0
        self.names: set[str] = set()

    def take(self, name: str, data: Iterable[bytes], folded: int | None = None) -> None:
        """An entry with its bytes; `folded` is what they took in the archive."""
        if name.endswith("/") or any(junk in name for junk in _JUNK):
            return
        self.entries += 1
        self.names.add(name)
        if self.entries <= _MOST_LISTED:
            self._sink.part(f"- {safe_path(name)}\n")
        self._sink.embedded(name, self._watched(name, data, folded))

    def end(self) -> None:
        """Say what was left out."""
        if self.locked and not self.entries:
            raise Refused("Its entries need a password to be opened.", code="encrypted")
        if self.locked:
            self._sink.warn(f"encrypted_entries:{self.locked}")
        if self.unsafe:
            self._sink.warn(f"unsafe_entries:{self.unsafe}")
        if not self.entries and "damaged" in self._sink.told.warnings:
            raise Refused("Nothing in it can be read.", code="corrupt")
        if not self.entries:
            self._sink.warn("empty")

    def _watched(self, name: str, data: Iterable[bytes], folded: int | None) -> Iterator[bytes]:
        written, digest = 0, hashlib.sha256()
        for piece in data:
            written += len(piece)
            if folded is not None and written > _FREE and written > _FOLDED * max(folded, 1):
                bomb(f"{name[:100]} unfolds {_FOLDED} times and more")
            if written <= self._itself:
                digest.update(piece)
            yield piece
        if written == self._itself and digest.digest() == _digest(self._sink.task.path):
            bomb("it holds itself")


def read_zip(sink: Sink) -> None:
    """Read a zip archive."""
    listing = Listing(sink)
    try:
        with zipfile.ZipFile(sink.task.path) as archive:
            members = archive.infolist()
            if len(members) > 2 * sink.task.embedded_files:
                bomb(f"it has {len(members):,} entries")
            if sum(member.file_size for member in members) > sink.task.embedded_bytes:
                bomb("it unfolds to more than any archive of its size")
            for member in members:
                if member.flag_bits & 1:
                    listing.locked += 1
                elif (member.external_attr >> 28) == 0xA:  # a link, as Unix writes it
                    listing.unsafe += 1
                elif not member.is_dir():
                    _zipped(sink, archive, member, listing)
    except _BROKEN:
        sink.warn("damaged")
    if "damaged" in sink.told.warnings:
        for name, data, folded in _found(sink):
            if name not in listing.names:
                listing.take(name, data, folded)
    listing.end()


def _zipped(sink: Sink, archive: zipfile.ZipFile, member: zipfile.ZipInfo, listing: Listing) -> None:
    try:
        with archive.open(member) as file:
            first = file.read(256 * 1024)
            listing.take(member.filename, _chained(sink, first, file), member.compress_size)
    except _BROKEN:
        sink.warn("damaged")


def _chained(sink: Sink, first: bytes, file: IO[bytes]) -> Iterator[bytes]:
    """The pieces of an entry; what breaks in the middle ends it."""
    yield first
    try:
        yield from pieces(file)  # pyright: ignore[reportArgumentType]  -- read() is all it takes
    except _BROKEN:
        sink.warn("damaged")


def _found(sink: Sink) -> Iterator[tuple[str, Iterable[bytes], int]]:
    """The entries of an archive whose directory is lost or wrong, by their own heads."""
    data = sink.task.path.read_bytes()
    position = data.find(b"PK\x03\x04")
    while 0 <= position <= len(data) - 30:
        flags, method, _, _, _, folded, size, names, extra = struct.unpack_from(
            "<HHHHIIIHH", data, position + 6
        )
        name = data[position + 30 : position + 30 + names].decode(
            "utf-8" if flags & 0x800 else "cp437", "replace"
        )
        start = position + 30 + names + extra
        end = start + folded
        if flags & 1:
            sink.warn("damaged")
        elif method == 8:
            unfolding = zlib.decompressobj(-15)
            with contextlib.suppress(zlib.error):
                unfolded = unfolding.decompress(data[start:], sink.task.embedded_bytes)
                end = len(data) - len(unfolding.unused_data) if unfolding.eof else end
                yield name, (unfolded,), end - start
        elif method == 0:
            if flags & 8 and not size:
                marks = [
                    place
                    for mark in (b"PK\x07\x08", b"PK\x03\x04", b"PK\x01\x02")
                    if (place := data.find(mark, start)) > 0
                ]
                end = min(marks, default=len(data))
            yield name, (data[start:end],), end - start
        position = data.find(b"PK\x03\x04", max(end, position + 4))


def read_tar(sink: Sink) -> None:
    """Read a tar archive, folded or not."""
    listing = Listing(sink)
    try:
        with tarfile.open(sink.task.path, "r|*") as archive:
            for member in archive:
                if member.isfile() and member.size > sink.task.embedded_bytes:  # it may be sparse
                    bomb(f"{member.name[:100]} says that it has {member.size:,} bytes")
                if member.isfile() and (file := archive.extractfile(member)) is not None:
                    listing.take(member.name, pieces(file))  # pyright: ignore[reportArgumentType]  -- as above
                elif not member.isdir():
                    listing.unsafe += 1
                sink.alive()
    except (tarfile.TarError, *_BROKEN):
        sink.warn("damaged")
    listing.end()


_OPENERS: dict[str, Any] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}


def read_folded(sink: Sink) -> None:
    """Read one folded file; when a tar archive is folded in it, that."""
    opener = _OPENERS[sink.told.kind]
    try:
        with opener(sink.task.path, "rb") as file:
            first: bytes = file.read(1024)
            if first[257:262] == b"ustar":
                sink.told.kind = "tar"
                read_tar(sink)
                return
            listing = Listing(sink)
            listing.take(_inner_name(sink), _chained(sink, first, file), sink.task.path.stat().st_size)
    except _BROKEN as error:
        raise Refused(f"It can't be unfolded: {error}"[:300], code="corrupt") from None
    listing.end()


def _inner_name(sink: Sink) -> str:
    name = sink.task.name
    for ending in (".gz", ".bz2", ".xz", ".lzma"):
        if name.lower().endswith(ending):
            return name[: -len(ending)] or "content"
    return name + ".content"


def read_7z(sink: Sink) -> None:
    """Read a 7z archive: kreuzberg gives the text of its entries, not their bytes."""
    result = office.extract(sink, "7z")
    listing = Listing(sink)
    for child in result.children or ():
        text = str(child["result"].content)
        if text.strip():
            listing.take(str(child["path"]) + ".md", (text.encode("utf-8", "replace"),))
    listing.end()


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
