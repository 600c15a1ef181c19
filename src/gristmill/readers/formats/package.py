"""Documents that are zip archives (Office, OpenDocument, EPUB): checked before any library opens them.

    decompresses to far more than its size     refused as a bomb
    declares entities in its XML               refused as unsafe_xml: no program writes them, and attacks need them
    a member's checksum is wrong               warning `damaged`; what can be read is read
    members need a password                    refused as encrypted

Members that are documents or images of their own are handed over.
"""

import re
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from pathlib import PurePosixPath

from gristmill.readers.document_metadata import DocumentMetadata
from gristmill.readers.formats import compound, media
from gristmill.readers.sink import DocumentRefused, Sink, refuse_bomb, refuse_encrypted
from gristmill.readers.xml_metadata import xml_metadata

_BLOCK_BYTES = 256 * 1024
_MAX_COMPRESSION_RATIO = 200  # the first megabytes of a member may exceed it
_RATIO_FREE_BYTES = 32 * 1024 * 1024
_MAX_MEMBERS = 100_000
_XML = (".xml", ".rels", ".vml", ".xhtml", ".html", ".htm", ".opf", ".ncx")
_METADATA = ("docprops/core.xml", "meta.xml", ".opf", ".psmdcp", "coreprops.xml")
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
    """Refuse what is made to do harm or needs a password; warn of what is damaged. Report what the document says of itself."""
    try:
        archive = zipfile.ZipFile(sink.task.path)
    except _ZIP_ERRORS as error:
        raise DocumentRefused(f"Its zip archive is broken: {error}"[:300], code="corrupt") from error
    with archive:
        members = archive.infolist()
        if len(members) > _MAX_MEMBERS:
            refuse_bomb(f"it has {len(members):,} members")
        if any(member.flag_bits & 1 for member in members):
            refuse_encrypted()
        total_size = sum(member.file_size for member in members)
        if total_size > sink.task.attachment_bytes:
            refuse_bomb(f"it decompresses to {total_size:,} bytes")
        for member in members:
            _check_member(sink, archive, member)
        sink.describe(_metadata(sink, archive))


def _metadata(sink: Sink, archive: zipfile.ZipFile) -> DocumentMetadata:
    """What the document says of itself; the subjects of a book are its keywords."""
    name = next((name for name in archive.namelist() if name.lower().endswith(_METADATA)), None)
    if name is None:
        return DocumentMetadata()
    data = read_member(sink, archive, name)
    return xml_metadata(data, keywords=("subject",)) if name.lower().endswith(".opf") else xml_metadata(data)


def _check_member(sink: Sink, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Read a member to its end, to check its size, its checksum and its entities."""
    written, tail = 0, b""
    is_xml = member.filename.lower().endswith(_XML)
    try:
        with archive.open(member) as file:
            while block := file.read(_BLOCK_BYTES):
                written += len(block)
                if written > _RATIO_FREE_BYTES and written > _MAX_COMPRESSION_RATIO * max(
                    member.compress_size, 1
                ):
                    refuse_bomb(
                        f"{member.filename} decompresses to more than {_MAX_COMPRESSION_RATIO} times its size"
                    )
                if is_xml and _ENTITY.search(tail + block):
                    raise DocumentRefused(
                        f"{member.filename} declares XML entities, which Office never does.",
                        code="unsafe_xml",
                    )
                tail = block[-600:]
    except _ZIP_ERRORS:
        sink.warn("damaged")
    sink.report_progress()


def read_member(sink: Sink, archive: zipfile.ZipFile, name: str) -> bytes:
    """A member, or nothing when it is missing or can't be read."""
    try:
        with archive.open(name) as file:
            return file.read(sink.task.attachment_bytes)
    except KeyError:
        return b""
    except _ZIP_ERRORS:
        sink.warn("damaged")
        return b""


def add_contents(sink: Sink, content: str, start: int, page_of: dict[str, int] | None = None) -> None:
    """Hand over the contents of the package: documents, and images at the place where the content names them."""
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
    """The caption of the image whose link is at `offset` in the content."""
    if offset < 0:
        return ""
    match = re.search(r"!\[([^\]\n]*)\]\([^)\n]*$", content[max(0, offset - 500) : offset])
    return match.group(1) if match else ""


def check_shared_strings(sink: Sink) -> None:
    """Refuse a workbook whose cells repeat a long string until it fills the memory."""
    with zipfile.ZipFile(sink.task.path) as archive:
        lengths = array("Q")
        for piece in _split_member(sink, archive, "xl/sharedStrings.xml", _SHARED_STRING):
            lengths.append(len(piece))
        if not lengths:
            return
        lengths.pop(0)  # what precedes the first string
        total = 0
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                for number in _string_references(sink, archive, name):
                    total += lengths[number] if number < len(lengths) else 0
                    if total > 4 * sink.task.max_characters:
                        refuse_bomb("its cells repeat long texts too often")


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
                yield from (int(index) for index in _STRING_REFERENCE.findall(text, 0, cut or len(text)))
                tail = text[cut:] if cut else b""
    except _ZIP_ERRORS:
        sink.warn("damaged")
    yield from (int(index) for index in _STRING_REFERENCE.findall(tail))
