"""Documents that are zip archives (Office, OpenDocument, EPUB): looked over before anything else opens them.

    unfolds to far more than it holds          bomb
    declares entities in its XML               unsafe_xml: no writer of documents does, and readers are tricked by them
    a member's checksum is wrong               damaged; what can be read is
    members need a password                    encrypted

The members inside that are documents or images of their own are handed on.
"""

import re
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from pathlib import PurePosixPath

from gristmill.readers.formats import compound, media
from gristmill.readers.sink import DocumentRefused, Sink, refuse_bomb

_BLOCK_BYTES = 256 * 1024
_MAX_COMPRESSION_RATIO = 200  # times its size that one member may unfold to, and the first megabytes are free
_RATIO_FREE_BYTES = 32 * 1024 * 1024
_MAX_MEMBERS = 100_000
_XML = (".xml", ".rels", ".vml", ".xhtml", ".html", ".htm", ".opf", ".ncx")
_ENTITY = re.compile(rb"<!ENTITY|<\0!\0E\0N\0T\0I\0T\0Y\0|<!DOCTYPE[^>\[]{0,500}[\"']file:", re.I)
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    OSError,
    ValueError,
    UnicodeError,
)
_SHARED_STRING = re.compile(rb"<si[\s>/]")
_STRING_REFERENCE = re.compile(rb't="s"[^>]*>\s*(?:<f[^>]*>[^<]*</f>)?\s*<v>(\d{1,9})</v>')


def check(sink: Sink) -> None:
    """Refuse what is made to harm or needs a password; tell what is damaged."""
    try:
        archive = zipfile.ZipFile(sink.task.path)
    except _ZIP_ERRORS as error:
        raise DocumentRefused(f"Its archive is broken: {error}"[:300], code="corrupt") from error
    with archive:
        members = archive.infolist()
        if len(members) > _MAX_MEMBERS:
            refuse_bomb(f"it has {len(members):,} members")
        if any(member.flag_bits & 1 for member in members):
            raise DocumentRefused("It needs a password to be opened.", code="encrypted")
        total_size = sum(member.file_size for member in members)
        if total_size > sink.task.embedded_bytes:
            refuse_bomb(f"it unfolds to {total_size:,} bytes")
        for member in members:
            _check_member(sink, archive, member)


def _check_member(sink: Sink, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Read a member once to its end: its size, its checksum, its entities."""
    written, tail = 0, b""
    is_xml = member.filename.lower().endswith(_XML)
    try:
        with archive.open(member) as file:
            while block := file.read(_BLOCK_BYTES):
                written += len(block)
                if written > _RATIO_FREE_BYTES and written > _MAX_COMPRESSION_RATIO * max(
                    member.compress_size, 1
                ):
                    refuse_bomb(f"{member.filename} unfolds {_MAX_COMPRESSION_RATIO} times and more")
                if is_xml and _ENTITY.search(tail + block):
                    raise DocumentRefused(
                        f"{member.filename} declares entities, as no writer does.", code="unsafe_xml"
                    )
                tail = block[-600:]
    except _ZIP_ERRORS:
        sink.warn("damaged")
    sink.report_progress()


def read_member(sink: Sink, archive: zipfile.ZipFile, name: str) -> bytes:
    """A member, as far as it can be read; nothing when it can't or isn't there."""
    try:
        with archive.open(name) as file:
            return file.read(sink.task.embedded_bytes)
    except KeyError:
        return b""
    except _ZIP_ERRORS:
        sink.warn("damaged")
        return b""


def add_contents(sink: Sink, content: str, start: int, page_of: dict[str, int] | None = None) -> None:
    """Hand on what the package holds: embedded documents, and images where the content names them."""
    with zipfile.ZipFile(sink.task.path) as archive:
        for member in archive.infolist():
            path = PurePosixPath(member.filename)
            folders = {part.lower() for part in path.parts[:-1]}
            if member.is_dir() or not member.file_size or "thumbnails" in folders:
                continue
            if "embeddings" in folders:
                compound.add_object(sink, path.name, read_member(sink, archive, member.filename))
            elif folders & {"media", "pictures", "images", "image"} or media.is_image_name(path.name):
                offset = content.find(path.name)
                media.add_media(
                    sink,
                    path.name,
                    read_member(sink, archive, member.filename),
                    start=start + offset if offset >= 0 else start,
                    page=(page_of or {}).get(path.name),
                    text=_caption(content, offset),
                )


def _caption(content: str, offset: int) -> str:
    """What the content calls the image whose link holds `place`."""
    if offset < 0:
        return ""
    match = re.search(r"!\[([^\]\n]*)\]\([^)\n]*$", content[max(0, offset - 500) : offset])
    return match.group(1) if match else ""


def check_shared_strings(sink: Sink) -> None:
    """Refuse a workbook whose cells name one long string so often that it fills any memory."""
    with zipfile.ZipFile(sink.task.path) as archive:
        lengths = array("Q")
        for piece in _split_member(sink, archive, "xl/sharedStrings.xml", _SHARED_STRING):
            lengths.append(len(piece))
        if not lengths:
            return
        lengths.pop(0)  # what stands before the first
        total = 0
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                for number in _string_references(sink, archive, name):
                    total += lengths[number] if number < len(lengths) else 0
                    if total > 4 * sink.task.output:
                        refuse_bomb("its cells repeat long texts without end")


def _split_member(
    sink: Sink, archive: zipfile.ZipFile, name: str, separator: re.Pattern[bytes]
) -> Iterator[bytes | memoryview]:
    if name in archive.NameToInfo:
        yield from separator.split(read_member(sink, archive, name))


def _string_references(sink: Sink, archive: zipfile.ZipFile, name: str) -> Iterator[int]:
    tail = b""
    try:
        with archive.open(name) as file:
            while block := file.read(_BLOCK_BYTES):
                text = tail + block
                cut = max(text.rfind(b"<c "), 0)
                yield from (int(found) for found in _STRING_REFERENCE.findall(text, 0, cut or len(text)))
                tail = text[cut:] if cut else b""
    except _ZIP_ERRORS:
        sink.warn("damaged")
    yield from (int(found) for found in _STRING_REFERENCE.findall(tail))
