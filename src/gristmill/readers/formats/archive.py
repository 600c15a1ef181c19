"""Archives: each entry becomes a document of its own; the content is the list of their names.

decompresses beyond its limits, or contains itself     refused as a bomb
entries with a password                                 counted in a warning; refused when there are no others
links, devices, names that lead elsewhere               left out, or named by their last part; counted in a warning
a broken central directory                              entries are found by their local headers
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

from gristmill.readers.formats import office
from gristmill.readers.libraries import zstandard
from gristmill.readers.sink import (
    DocumentRefused,
    Sink,
    file_blocks,
    refuse_bomb,
    refuse_encrypted,
    safe_path,
)

_MAX_COMPRESSION_RATIO, _RATIO_FREE_BYTES = 200, 32 * 1024 * 1024
_IGNORED_NAMES = ("__MACOSX/", ".DS_Store", "Thumbs.db", "desktop.ini")
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    OSError,
    ValueError,
    lzma.LZMAError,
)
_MAX_LISTED = 5_000


class ArchiveEntries:
    """Hands over the entries of an archive, and lists their names in the content."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._archive_size = sink.task.path.stat().st_size
        self.count = self.encrypted_count = self.unsafe_count = 0
        self.names: set[str] = set()

    def add(self, name: str, data: Iterable[bytes], compressed_size: int | None = None) -> None:
        """Hand over an entry; `compressed_size` is its size in the archive."""
        if name.endswith("/") or any(junk in name for junk in _IGNORED_NAMES):
            return
        self.count += 1
        self.names.add(name)
        if self.count <= _MAX_LISTED:
            self._sink.add_text(f"- {safe_path(name)}\n")
        self._sink.add_attachment(name, self._check_blocks(name, data, compressed_size))

    def finish(self) -> None:
        """Warn of what was left out; refuse an archive of which nothing can be read."""
        if self.encrypted_count and not self.count:
            refuse_encrypted()
        if self.encrypted_count:
            self._sink.warn(f"encrypted_entries:{self.encrypted_count}")
        if self.unsafe_count:
            self._sink.warn(f"unsafe_entries:{self.unsafe_count}")
        if not self.count and "damaged" in self._sink.report.warnings:
            raise DocumentRefused("The archive is damaged, and nothing in it can be read.", code="corrupt")
        if not self.count:
            self._sink.warn("empty")

    def _check_blocks(self, name: str, data: Iterable[bytes], compressed_size: int | None) -> Iterator[bytes]:
        written, digest = 0, hashlib.sha256()
        for block in data:
            written += len(block)
            if (
                compressed_size is not None
                and written > _RATIO_FREE_BYTES
                and written > _MAX_COMPRESSION_RATIO * max(compressed_size, 1)
            ):
                refuse_bomb(f"{name[:100]} decompresses to more than {_MAX_COMPRESSION_RATIO} times its size")
            if written <= self._archive_size:
                digest.update(block)
            yield block
        if written == self._archive_size and digest.digest() == _file_digest(self._sink.task.path):
            refuse_bomb("it contains itself")


def read_zip(sink: Sink) -> None:
    """Read a zip archive."""
    entries = ArchiveEntries(sink)
    try:
        with zipfile.ZipFile(sink.task.path) as archive:
            members = archive.infolist()
            if len(members) > 2 * sink.task.max_attachments:
                refuse_bomb(f"it has {len(members):,} entries")
            if sum(member.file_size for member in members) > sink.task.attachment_bytes:
                refuse_bomb("it decompresses to more than its limit")
            for member in members:
                if member.flag_bits & 1:
                    entries.encrypted_count += 1
                elif (member.external_attr >> 28) == 0xA:  # a symbolic link of Unix
                    entries.unsafe_count += 1
                elif not member.is_dir():
                    _add_zip_member(sink, archive, member, entries)
    except _ARCHIVE_ERRORS:
        sink.warn("damaged")
    if "damaged" in sink.report.warnings:
        for name, data, compressed_size in _scan_local_headers(sink):
            if name not in entries.names:
                entries.add(name, data, compressed_size)
    entries.finish()


def _add_zip_member(
    sink: Sink, archive: zipfile.ZipFile, member: zipfile.ZipInfo, entries: ArchiveEntries
) -> None:
    try:
        with archive.open(member) as file:
            first_block = file.read(256 * 1024)
            entries.add(member.filename, _member_blocks(sink, first_block, file), member.compress_size)
    except _ARCHIVE_ERRORS:
        sink.warn("damaged")


def _member_blocks(sink: Sink, first_block: bytes, file: IO[bytes]) -> Iterator[bytes]:
    """The blocks of an entry, up to the point where it is broken."""
    yield first_block
    try:
        yield from file_blocks(file)  # pyright: ignore[reportArgumentType]  -- it needs `read` only
    except (*_ARCHIVE_ERRORS, zstandard.ZstdError):
        sink.warn("damaged")


def _scan_local_headers(sink: Sink) -> Iterator[tuple[str, Iterable[bytes], int]]:
    """The entries of an archive whose central directory is lost or wrong, by their local headers."""
    data = sink.task.path.read_bytes()
    position = data.find(b"PK\x03\x04")
    while 0 <= position <= len(data) - 30:
        flags, method, _, _, _, compressed_size, size, name_length, extra_length = struct.unpack_from(
            "<HHHHIIIHH", data, position + 6
        )
        name = data[position + 30 : position + 30 + name_length].decode(
            "utf-8" if flags & 0x800 else "cp437", "replace"
        )
        start = position + 30 + name_length + extra_length
        end = start + compressed_size
        if flags & 1:
            sink.warn("damaged")
        elif method == 8:
            decompressor = zlib.decompressobj(-15)
            with contextlib.suppress(zlib.error):
                content = decompressor.decompress(data[start:], sink.task.attachment_bytes)
                end = len(data) - len(decompressor.unused_data) if decompressor.eof else end
                yield name, (content,), end - start
        elif method == 0:
            if flags & 8 and not size:
                signature_offsets = [
                    offset
                    for signature in (b"PK\x07\x08", b"PK\x03\x04", b"PK\x01\x02")
                    if (offset := data.find(signature, start)) > 0
                ]
                end = min(signature_offsets, default=len(data))
            yield name, (data[start:end],), end - start
        position = data.find(b"PK\x03\x04", max(end, position + 4))


def read_tar(sink: Sink, decompressed: IO[bytes] | None = None) -> None:
    """Read a tar archive, compressed or not; what `tarfile` can't decompress is passed on `decompressed`."""
    entries = ArchiveEntries(sink)
    try:
        with tarfile.open(
            None if decompressed else sink.task.path, "r|" if decompressed else "r|*", fileobj=decompressed
        ) as archive:
            for member in archive:
                if member.isfile() and member.size > sink.task.attachment_bytes:  # it may be sparse
                    refuse_bomb(f"{member.name[:100]} claims to have {member.size:,} bytes")
                if member.isfile() and (file := archive.extractfile(member)) is not None:
                    entries.add(member.name, file_blocks(file))  # pyright: ignore[reportArgumentType]  -- as above
                elif not member.isdir():
                    entries.unsafe_count += 1
                sink.report_progress()
    except (tarfile.TarError, *_ARCHIVE_ERRORS, zstandard.ZstdError):
        sink.warn("damaged")
    entries.finish()


def _open_zstandard(path: Path, mode: str) -> IO[bytes]:
    return zstandard.open(path, mode)


_OPENERS: dict[str, Any] = {
    "gzip": gzip.open,
    "bzip2": bz2.open,
    "xz": lzma.open,
    "zstd": _open_zstandard,
}


def read_compressed(sink: Sink) -> None:
    """Read a compressed file, or the tar archive in it."""
    opener = _OPENERS[sink.report.kind]
    try:
        with opener(sink.task.path, "rb") as file:
            first_block: bytes = file.read(1024)
            if first_block[257:262] == b"ustar":
                if sink.report.kind == "zstd":
                    with opener(sink.task.path, "rb") as start:
                        read_tar(sink, start)
                else:
                    read_tar(sink)
                sink.report.kind = "tar"
                return
            entries = ArchiveEntries(sink)
            entries.add(
                _name_without_suffix(sink),
                _member_blocks(sink, first_block, file),
                sink.task.path.stat().st_size,
            )
    except (*_ARCHIVE_ERRORS, zstandard.ZstdError) as error:
        raise DocumentRefused(f"It can't be decompressed: {error}"[:300], code="corrupt") from None
    entries.finish()


def _name_without_suffix(sink: Sink) -> str:
    name = sink.task.name
    for suffix in (".gz", ".bz2", ".xz", ".lzma", ".zst", ".zstd"):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)] or "content"
    return name + ".content"


def read_7z(sink: Sink) -> None:
    """Read a 7z archive: kreuzberg returns the text of its entries, not their bytes."""
    result = office.extract(sink, "7z")
    entries = ArchiveEntries(sink)
    for child in result.children or ():
        text = str(child["result"].content)
        if text.strip():
            entries.add(str(child["path"]) + ".md", (text.encode("utf-8", "replace"),))
    entries.finish()


def _file_digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
