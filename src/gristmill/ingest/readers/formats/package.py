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

from gristmill.ingest.readers.formats import compound, pictures
from gristmill.ingest.readers.sink import Refused, Sink, bomb

_PIECE = 256 * 1024
_FOLDED = 200  # times its size that one member may unfold to, and the first megabytes are free
_FREE = 32 * 1024 * 1024
_MOST_MEMBERS = 100_000
_XML = (".xml", ".rels", ".vml", ".xhtml", ".html", ".htm", ".opf", ".ncx")
_ENTITY = re.compile(rb"<!ENTITY|<\0!\0E\0N\0T\0I\0T\0Y\0|<!DOCTYPE[^>\[]{0,500}[\"']file:", re.I)
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError, UnicodeError)
_STRING = re.compile(rb"<si[\s>/]")
_REFERENCE = re.compile(rb't="s"[^>]*>\s*(?:<f[^>]*>[^<]*</f>)?\s*<v>(\d{1,9})</v>')


def check(sink: Sink) -> None:
    """Refuse what is made to harm or needs a password; tell what is damaged."""
    try:
        archive = zipfile.ZipFile(sink.task.path)
    except _BROKEN as error:
        raise Refused(f"Its archive is broken: {error}"[:300], code="corrupt") from error
    with archive:
        members = archive.infolist()
        if len(members) > _MOST_MEMBERS:
            bomb(f"it has {len(members):,} members")
        if any(member.flag_bits & 1 for member in members):
            raise Refused("It needs a password to be opened.", code="encrypted")
        unfolded = sum(member.file_size for member in members)
        if unfolded > sink.task.embedded_bytes:
            bomb(f"it unfolds to {unfolded:,} bytes")
        for member in members:
            _look_at(sink, archive, member)


def _look_at(sink: Sink, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Read a member once to its end: its size, its checksum, its entities."""
    written, tail = 0, b""
    is_xml = member.filename.lower().endswith(_XML)
    try:
        with archive.open(member) as file:
            while piece := file.read(_PIECE):
                written += len(piece)
                if written > _FREE and written > _FOLDED * max(member.compress_size, 1):
                    bomb(f"{member.filename} unfolds {_FOLDED} times and more")
                if is_xml and _ENTITY.search(tail + piece):
                    raise Refused(
                        f"{member.filename} declares entities, as no writer does.", code="unsafe_xml"
                    )
                tail = piece[-600:]
    except _BROKEN:
        sink.warn("damaged")
    sink.alive()


def read_member(sink: Sink, archive: zipfile.ZipFile, name: str) -> bytes:
    """A member, as far as it can be read; nothing when it can't or isn't there."""
    try:
        with archive.open(name) as file:
            return file.read(sink.task.embedded_bytes)
    except KeyError:
        return b""
    except _BROKEN:
        sink.warn("damaged")
        return b""


def inner(sink: Sink, content: str, start: int, page_of: dict[str, int] | None = None) -> None:
    """Hand on what the package holds: embedded documents, and images where the content names them."""
    with zipfile.ZipFile(sink.task.path) as archive:
        for member in archive.infolist():
            path = PurePosixPath(member.filename)
            folders = {part.lower() for part in path.parts[:-1]}
            if member.is_dir() or not member.file_size or "thumbnails" in folders:
                continue
            if "embeddings" in folders:
                compound.embedded_object(sink, path.name, read_member(sink, archive, member.filename))
            elif folders & {"media", "pictures", "images", "image"} or pictures.by_name(path.name):
                place = content.find(path.name)
                pictures.hand_on(
                    sink,
                    path.name,
                    read_member(sink, archive, member.filename),
                    start=start + place if place >= 0 else start,
                    page=(page_of or {}).get(path.name),
                    text=_caption(content, place),
                )


def _caption(content: str, place: int) -> str:
    """What the content calls the image whose link holds `place`."""
    if place < 0:
        return ""
    found = re.search(r"!\[([^\]\n]*)\]\([^)\n]*$", content[max(0, place - 500) : place])
    return found.group(1) if found else ""


def check_shared_strings(sink: Sink) -> None:
    """Refuse a workbook whose cells name one long string so often that it fills any memory."""
    with zipfile.ZipFile(sink.task.path) as archive:
        lengths = array("Q")
        for piece in _split(sink, archive, "xl/sharedStrings.xml", _STRING):
            lengths.append(len(piece))
        if not lengths:
            return
        lengths.pop(0)  # what stands before the first
        total = 0
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                for number in _references(sink, archive, name):
                    total += lengths[number] if number < len(lengths) else 0
                    if total > 4 * sink.task.output:
                        bomb("its cells repeat long texts without end")


def _split(
    sink: Sink, archive: zipfile.ZipFile, name: str, mark: re.Pattern[bytes]
) -> Iterator[bytes | memoryview]:
    if name in archive.NameToInfo:
        yield from mark.split(read_member(sink, archive, name))


def _references(sink: Sink, archive: zipfile.ZipFile, name: str) -> Iterator[int]:
    tail = b""
    try:
        with archive.open(name) as file:
            while piece := file.read(_PIECE):
                text = tail + piece
                cut = max(text.rfind(b"<c "), 0)
                yield from (int(found) for found in _REFERENCE.findall(text, 0, cut or len(text)))
                tail = text[cut:] if cut else b""
    except _BROKEN:
        sink.warn("damaged")
    yield from (int(found) for found in _REFERENCE.findall(tail))
