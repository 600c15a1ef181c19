"""The old Office formats: whether they are whole or need a password, and the documents inside them.

doc   storages of ObjectPool            xls   storages MBD…, LNK…
ppt   records of the stream itself, each a compressed compound file; pictures in a stream of their own
"""

import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from gristmill.ingest.readers.formats import compound, pictures
from gristmill.ingest.readers.sink import Refused, Sink
from gristmill.ingest.readers.untyped import olefile

_EXTERNAL_STORAGE = 0x1011  # ppt: an embedded object
_CONTAINER = 0xF
_ENCRYPTED_USER = 0xF3D1C4DF  # ppt: the token of the stream `Current User`
_FILE_PASS = 0x2F  # xls: the record that says how the rest is encrypted
_BEGINNINGS, _ENDING, _LAST_RECORD = (0x809, 0x409, 0x209, 0x9), 0x0A, 0x10FF
_USER_EDIT = 0x0FF5
_MOST_OBJECT = 256 * 1024 * 1024
# ppt pictures: their types, and how many bytes stand before the image itself.
_BLIPS = {0xF01D: 17, 0xF01E: 17, 0xF01F: 17, 0xF02A: 17, 0xF029: 17}


def check(sink: Sink) -> None:
    """Refuse what needs a password, and tell what is damaged."""
    kind = sink.told.kind
    try:
        with olefile.OleFileIO(str(sink.task.path), raise_defects=olefile.DEFECT_FATAL) as ole:
            if ole.parsing_issues:
                sink.warn("damaged")
            for entry in ole.listdir(streams=True, storages=False):
                _whole(sink, ole, entry)
            if kind == "doc":
                _check_doc(ole)
            elif kind == "xls":
                _check_xls(sink, ole)
            else:
                _check_ppt(sink, ole)
    except (Refused, MemoryError):
        raise
    except Exception as error:
        raise Refused(f"Its compound file is broken: {error}"[:300], code="corrupt") from error


def _whole(sink: Sink, ole: Any, entry: list[str]) -> None:
    try:
        data = ole.openstream(entry)
        if len(data.getbuffer()) < ole.get_size(entry):
            sink.warn("damaged")
    except Exception:
        sink.warn("damaged")


def _check_doc(ole: Any) -> None:
    head = ole.openstream("WordDocument").read(32)
    if len(head) < 32:
        raise Refused("Its text is cut off.", code="corrupt")
    (flags,) = struct.unpack_from("<H", head, 10)
    if flags & 0x0100:
        raise Refused("It needs a password to be opened.", code="encrypted")


def _check_xls(sink: Sink, ole: Any) -> None:
    """Walk the records: whether one says that the rest is encrypted, and whether they are records to the end."""
    data = ole.openstream("Workbook" if ole.exists("Workbook") else "Book").read()
    position = opened = closed = 0
    while position + 4 <= len(data):
        record, length = struct.unpack_from("<HH", data, position)
        if record == _FILE_PASS and "damaged" not in sink.told.warnings:
            raise Refused("It needs a password to be opened.", code="encrypted")
        opened += record in _BEGINNINGS
        closed += record == _ENDING
        if record > _LAST_RECORD:
            sink.warn("damaged")
        position += 4 + length
    # Some writers fill the last sector with zeros.
    if position > len(data) or opened != closed:
        sink.warn("damaged")


def _check_ppt(sink: Sink, ole: Any) -> None:
    if ole.exists("EncryptedSummary") or ole.exists("\x05EncryptedSummary"):
        raise Refused("It needs a password to be opened.", code="encrypted")
    data = ole.openstream("PowerPoint Document").read()
    user = ole.openstream("Current User").read(28) if ole.exists("Current User") else b""
    if len(user) >= 20:
        token, edit = struct.unpack_from("<II", user, 12)
        if token == _ENCRYPTED_USER:
            raise Refused("It needs a password to be opened.", code="encrypted")
        if _edits_are_lost(data, edit):
            sink.warn("damaged")
    else:
        sink.warn("damaged")
    if not _nested(data):
        sink.warn("damaged")


def _edits_are_lost(data: bytes, edit: int) -> bool:
    """Whether the chain of edits, from the last to the first, leads elsewhere or in a circle."""
    seen: set[int] = set()
    while edit:
        if edit in seen or edit + 32 > len(data):
            return True
        seen.add(edit)
        (kind,) = struct.unpack_from("<H", data, edit + 2)
        if kind != _USER_EDIT:
            return True
        (edit,) = struct.unpack_from("<I", data, edit + 16)
    return False


def _nested(data: bytes) -> bool:
    """Whether every record ends inside the one that holds it."""
    ends = [len(data)]
    position = 0
    while position + 8 <= len(data):
        while position >= ends[-1] and len(ends) > 1:
            ends.pop()
        first, _, length = struct.unpack_from("<HHI", data, position)
        position += 8
        if position + length > ends[-1]:
            return False
        if first & 0xF == _CONTAINER:
            ends.append(position + length)
        else:
            position += length
    return True


def inner(sink: Sink) -> None:
    """Hand on the documents and pictures inside."""
    try:
        with olefile.OleFileIO(str(sink.task.path)) as ole:
            if sink.told.kind == "ppt":
                _ppt(sink, ole)
            else:
                _storages(sink, ole)
    except (Refused, MemoryError):
        raise
    except Exception:
        sink.warn("damaged")


def _storages(sink: Sink, ole: Any) -> None:
    places = list(compound.storages(ole, ("ObjectPool",))) if sink.told.kind == "doc" else []
    places += [place for place in compound.storages(ole) if place[0][:3] in ("MBD", "LNK")]
    for number, place in enumerate(places, 1):
        try:
            if not compound.storage(sink, ole, place, f"object-{number}"):
                sink.embedded(f"object-{number}.ole", compound.extract(ole, place))
        except (Refused, MemoryError):
            raise
        except Exception:
            sink.warn("damaged")


def _ppt(sink: Sink, ole: Any) -> None:
    data = ole.openstream("PowerPoint Document").read()
    number = 0
    for kind, instance, start, end in _records(data, 0, len(data)):
        if kind != _EXTERNAL_STORAGE:
            continue
        number += 1
        body = data[start:end]
        if instance & 1:
            body = _unfold(body[4:])
        if body:
            compound.embedded_object(sink, f"object-{number}", body)
    if ole.exists("Pictures"):
        images = ole.openstream("Pictures").read()
        for count, (kind, instance, start, end) in enumerate(_records(images, 0, len(images), flat=True), 1):
            if kind in _BLIPS:
                # Of two identifiers, the instance's lowest bit tells whether the second is there.
                skip = _BLIPS[kind] + (16 if instance & 1 else 0)
                pictures.hand_on(sink, f"picture-{count}.png", images[start + skip : end])


def _unfold(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, _MOST_OBJECT)
    except zlib.error:
        return b""


def _records(data: bytes, start: int, end: int, *, flat: bool = False) -> Iterator[tuple[int, int, int, int]]:
    """Type, instance, begin and end of every record, containers opened, without recursion."""
    position = start
    while position + 8 <= end:
        first, kind, length = struct.unpack_from("<HHI", data, position)
        position += 8
        if not flat and first & 0xF == _CONTAINER:
            continue  # its records follow
        stop = min(position + length, end)
        yield kind, first >> 4, position, stop
        position = stop


def container(sink: Sink) -> None:
    """A compound file that is none of the known documents: what it wraps, if anything."""
    data = io.BytesIO(sink.task.path.read_bytes())
    with olefile.OleFileIO(data) as ole:
        found = compound.storage(
            sink, ole, (), sink.task.name.rpartition(".")[0] or "object", data.getvalue()
        )
        for number, place in enumerate(compound.storages(ole), 1):
            found = compound.storage(sink, ole, place, f"object-{number}") or found
    if not found:
        raise Refused("It is a compound file of a program that is not known.", code="unsupported_type")


def encrypted(_sink: Sink) -> None:
    """A document of Office that is wrapped in encryption."""
    raise Refused("It needs a password to be opened.", code="encrypted")
