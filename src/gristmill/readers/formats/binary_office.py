"""The binary Office formats (doc, xls, ppt): whether they are damaged or encrypted, and the documents inside them.

doc   storages of ObjectPool            xls   storages MBD…, LNK…
ppt   records of the stream itself, each a compressed compound file; pictures in a stream of their own
"""

import io
import shutil
import struct
import zlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from gristmill.readers.document_metadata import DocumentMetadata, split_keywords, split_names
from gristmill.readers.formats import compound, media
from gristmill.readers.formats.xls_charts import separate_charts
from gristmill.readers.libraries import olefile
from gristmill.readers.sink import DocumentRefused, Sink, refuse_encrypted

_EXTERNAL_STORAGE = 0x1011  # ppt: an embedded object
_CONTAINER = 0xF
_ENCRYPTED_USER = 0xF3D1C4DF  # ppt: the token of the stream `Current User`
_FILE_PASS = 0x2F  # xls: the record that describes the encryption of the rest
_BOF_RECORDS, _EOF_RECORD, _LAST_RECORD = (0x809, 0x409, 0x209, 0x9), 0x0A, 0x10FF
_USER_EDIT = 0x0FF5
_MAX_OBJECT_BYTES = 256 * 1024 * 1024
# ppt pictures: their types, and how many bytes precede the image itself.
_BLIP_HEADER_BYTES = {0xF01D: 17, 0xF01E: 17, 0xF01F: 17, 0xF02A: 17, 0xF029: 17}


def check(sink: Sink) -> None:
    """Refuse what needs a password, and warn of what is damaged."""
    kind = sink.report.kind
    try:
        with olefile.OleFileIO(str(sink.task.path), raise_defects=olefile.DEFECT_FATAL) as ole:
            if ole.parsing_issues:
                sink.warn("damaged")
            sink.describe(_metadata(ole))
            for entry in ole.listdir(streams=True, storages=False):
                _check_stream(sink, ole, entry)
            if kind == "doc":
                _check_doc(ole)
            elif kind == "xls":
                _check_xls(sink, ole)
            else:
                _check_ppt(sink, ole)
    except (DocumentRefused, MemoryError):
        raise
    except Exception as error:
        raise DocumentRefused(f"The file is damaged: {error}"[:300], code="corrupt") from error


def _metadata(ole: Any) -> DocumentMetadata:
    """What the document says of itself, in the code page that it names."""
    try:
        summary = ole.get_metadata()
        page = int(summary.codepage or 1252) & 0xFFFF
        encoding = {65001: "utf-8", 1200: "utf-16-le", 10000: "mac-roman"}.get(page, f"cp{page}")

        def text(value: Any) -> str:
            return value.decode(encoding, "replace").strip("\0") if isinstance(value, bytes) else ""

        return DocumentMetadata(
            title=text(summary.title),
            authors=split_names(text(summary.author)),
            created=summary.create_time if isinstance(summary.create_time, datetime) else None,
            modified=summary.last_saved_time if isinstance(summary.last_saved_time, datetime) else None,
            keywords=split_keywords(text(summary.keywords)),
            subject=text(summary.subject) or text(summary.comments),
        )
    except (MemoryError, DocumentRefused):
        raise
    except Exception:  # made-up properties cost the metadata, not the document
        return DocumentMetadata()


def _check_stream(sink: Sink, ole: Any, entry: list[str]) -> None:
    try:
        data = ole.openstream(entry)
        if len(data.getbuffer()) < ole.get_size(entry):
            sink.warn("damaged")
    except Exception:
        sink.warn("damaged")


def _check_doc(ole: Any) -> None:
    head = ole.openstream("WordDocument").read(32)
    if len(head) < 32:
        raise DocumentRefused("The file is cut off before its text.", code="corrupt")
    (flags,) = struct.unpack_from("<H", head, 10)
    if flags & 0x0100:
        refuse_encrypted()


def _check_xls(sink: Sink, ole: Any) -> None:
    """Walk the records: whether one declares encryption, and whether they are records to the end."""
    data = ole.openstream("Workbook" if ole.exists("Workbook") else "Book").read()
    position = bof_count = eof_count = 0
    while position + 4 <= len(data):
        record, length = struct.unpack_from("<HH", data, position)
        if record == _FILE_PASS and "damaged" not in sink.report.warnings:
            refuse_encrypted()
        bof_count += record in _BOF_RECORDS
        eof_count += record == _EOF_RECORD
        if record > _LAST_RECORD:
            sink.warn("damaged")
        position += 4 + length
    # Some programs fill the last sector with zeros.
    if position > len(data) or bof_count != eof_count:
        sink.warn("damaged")


def without_charts(sink: Sink) -> tuple[bytes | None, list[tuple[int, str]]]:
    """A workbook without the cells of its charts if it has any, and the charts as text with the numbers of their sheets."""
    path = sink.task.scratch / "workbook.xls"
    try:
        with olefile.OleFileIO(str(sink.task.path)) as ole:
            name = "Workbook" if ole.exists("Workbook") else "Book"
            stream = ole.openstream(name).read()
        patched, charts = separate_charts(stream)
        if patched == stream:
            return None, charts
        shutil.copyfile(sink.task.path, path)
        with olefile.OleFileIO(str(path), write_mode=True) as ole:
            ole.write_stream(name, patched)
        return path.read_bytes(), charts
    except (MemoryError, DocumentRefused):
        raise
    except Exception:  # then it is read as it is
        return None, []
    finally:
        path.unlink(missing_ok=True)


def _check_ppt(sink: Sink, ole: Any) -> None:
    if ole.exists("EncryptedSummary") or ole.exists("\x05EncryptedSummary"):
        refuse_encrypted()
    data = ole.openstream("PowerPoint Document").read()
    user = ole.openstream("Current User").read(28) if ole.exists("Current User") else b""
    if len(user) >= 20:
        token, edit = struct.unpack_from("<II", user, 12)
        if token == _ENCRYPTED_USER:
            refuse_encrypted()
        if _is_edit_chain_broken(data, edit):
            sink.warn("damaged")
    else:
        sink.warn("damaged")
    if not _is_properly_nested(data):
        sink.warn("damaged")


def _is_edit_chain_broken(data: bytes, edit: int) -> bool:
    """Whether the chain of edits, from the last to the first, leads outside or in a circle."""
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


def _is_properly_nested(data: bytes) -> bool:
    """Whether every record ends inside the one that contains it."""
    ends = [len(data)]
    position = 0
    while position + 8 <= len(data):
        while position >= ends[-1] and len(ends) > 1:
            ends.pop()
        flags, _, length = struct.unpack_from("<HHI", data, position)
        position += 8
        if position + length > ends[-1]:
            return False
        if flags & 0xF == _CONTAINER:
            ends.append(position + length)
        else:
            position += length
    return True


def add_contents(sink: Sink) -> None:
    """Hand over the documents and pictures inside."""
    try:
        with olefile.OleFileIO(str(sink.task.path)) as ole:
            if sink.report.kind == "ppt":
                _add_ppt_contents(sink, ole)
            else:
                _add_storages(sink, ole)
    except (DocumentRefused, MemoryError):
        raise
    except Exception:
        sink.warn("damaged")


def _add_storages(sink: Sink, ole: Any) -> None:
    storage_paths = list(compound.storages(ole, ("ObjectPool",))) if sink.report.kind == "doc" else []
    storage_paths += [
        storage_path for storage_path in compound.storages(ole) if storage_path[0][:3] in ("MBD", "LNK")
    ]
    for number, place in enumerate(storage_paths, 1):
        try:
            if not compound.add_storage(sink, ole, place, f"object-{number}"):
                sink.add_attachment(f"object-{number}.ole", compound.repack_storage(ole, place))
        except (DocumentRefused, MemoryError):
            raise
        except Exception:
            sink.warn("damaged")


def _add_ppt_contents(sink: Sink, ole: Any) -> None:
    data = ole.openstream("PowerPoint Document").read()
    number = 0
    for kind, instance, start, end in _records(data, 0, len(data)):
        if kind != _EXTERNAL_STORAGE:
            continue
        number += 1
        body = data[start:end]
        if instance & 1:
            body = _decompress(body[4:])
        if body:
            compound.add_object(sink, f"object-{number}", body)
    if ole.exists("Pictures"):
        images = ole.openstream("Pictures").read()
        for count, (kind, instance, start, end) in enumerate(_records(images, 0, len(images), flat=True), 1):
            if kind in _BLIP_HEADER_BYTES:
                # With the lowest bit of the instance set, a second identifier precedes the image.
                skip = _BLIP_HEADER_BYTES[kind] + (16 if instance & 1 else 0)
                media.add_media(sink, f"picture-{count}.png", images[start + skip : end])


def _decompress(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, _MAX_OBJECT_BYTES)
    except zlib.error:
        return b""


def _records(data: bytes, start: int, end: int, *, flat: bool = False) -> Iterator[tuple[int, int, int, int]]:
    """Type, instance, start and end of every record; containers are entered, without recursion."""
    position = start
    while position + 8 <= end:
        flags, kind, length = struct.unpack_from("<HHI", data, position)
        position += 8
        if not flat and flags & 0xF == _CONTAINER:
            continue  # its records follow
        record_end = min(position + length, end)
        yield kind, flags >> 4, position, record_end
        position = record_end


def read_unknown(sink: Sink) -> None:
    """Read a compound file of unknown type: the documents that it wraps."""
    data = io.BytesIO(sink.task.path.read_bytes())
    with olefile.OleFileIO(data) as ole:
        has_document = compound.add_storage(
            sink, ole, (), sink.task.name.rpartition(".")[0] or "object", data.getvalue()
        )
        for number, storage_path in enumerate(compound.storages(ole), 1):
            has_document = compound.add_storage(sink, ole, storage_path, f"object-{number}") or has_document
    if not has_document:
        raise DocumentRefused("It is a compound file of an unknown program.", code="unsupported_type")


def read_encrypted(_sink: Sink) -> None:
    """Refuse an Office document that is encrypted as a whole."""
    refuse_encrypted()
