"""Compound files (OLE): the documents inside the old Office formats, and inside the objects of the new ones.

\\x01Ole10Native          a file that a user inserted: its name and its bytes
Package, EmbeddedOdf     a document in a new format, unchanged
CONTENTS                 a document of another program, such as a PDF
WordDocument, Workbook … an old document: its storage becomes a compound file of its own
"""

import io
import struct
from collections.abc import Iterator
from typing import Any

from gristmill.readers.formats import compound_writer, media
from gristmill.readers.libraries import olefile
from gristmill.readers.sink import Sink

MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SUFFIX_BY_STREAM = {
    "worddocument": ".doc",
    "workbook": ".xls",
    "book": ".xls",
    "powerpoint document": ".ppt",
} | {
    "__properties_version1.0": ".msg",
    "visiodocument": ".vsd",
}
_PAYLOAD_STREAMS = ("package", "embeddedodf", "contents", "\x01ole10native")
_MAX_STREAMS = 20_000

Streams = dict[tuple[str, ...], bytes]


def add_object(sink: Sink, name: str, data: bytes) -> None:
    """Hand over an OLE object: the document that it wraps, or itself when it is a document."""
    if not data.startswith(MAGIC):
        if media.media_type(name, data):
            media.add_media(sink, name, data)
        elif data:
            sink.add_attachment(name, data)
        return
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as ole:
            top = _entries_below(ole, ())
            stem = name.rpartition(".")[0] or name
            if not add_storage(sink, ole, (), stem, file_bytes=data):
                sink.add_attachment(stem + ".ole", data)
            elif "objectpool" in top:
                return
    except Exception:  # olefile raises errors of any type for a broken file
        sink.warn("damaged")
        sink.add_attachment(name, data)


def add_storage(
    sink: Sink, ole: Any, storage_path: tuple[str, ...], name: str, file_bytes: bytes | None = None
) -> bool:
    """Hand over the document in a storage; returns whether there was one."""
    entries = _entries_below(ole, storage_path)
    for stream_name in _PAYLOAD_STREAMS:
        if stream_name not in entries:
            continue
        data = _read_stream(ole, (*storage_path, entries[stream_name]))
        if stream_name == "\x01ole10native":
            inner_name, data = unwrap_ole_native(data)
            sink.add_attachment(inner_name or name, data)
        else:
            add_object(sink, name + suffix_for(data), data)
        return True
    for stream_name, suffix in _SUFFIX_BY_STREAM.items():
        if stream_name in entries:
            sink.add_attachment(
                name + suffix, file_bytes if file_bytes is not None else repack_storage(ole, storage_path)
            )
            return True
    return False


def repack_storage(ole: Any, storage_path: tuple[str, ...]) -> bytes:
    """A storage as a compound file of its own."""
    streams: Streams = {}
    for entry in ole.listdir(streams=True, storages=False):
        path = tuple(str(part) for part in entry)
        if path[: len(storage_path)] == storage_path and len(path) > len(storage_path):
            streams[path[len(storage_path) :]] = _read_stream(ole, path)
        if len(streams) > _MAX_STREAMS:
            break
    return compound_writer.write(streams, clsid=_clsid(ole, storage_path))


def storages(ole: Any, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The storages right below `place`."""
    for entry in ole.listdir(streams=False, storages=True):
        path = tuple(str(part) for part in entry)
        if len(path) == len(parent) + 1 and path[: len(parent)] == parent:
            yield path


def unwrap_ole_native(data: bytes) -> tuple[str, bytes]:
    """The name and the bytes of a file that a user inserted into a document."""
    try:
        position = 6
        label, position = _read_string(data, position)
        source, position = _read_string(data, position)
        position += 8  # two counters, and the length of the path that follows, with its final zero
        (length,) = struct.unpack_from("<I", data, position - 4)
        position += length
        (size,) = struct.unpack_from("<I", data, position)
        position += 4
        if size and position + size <= len(data):
            return (label or source), data[position : position + size]
    except (struct.error, ValueError):
        pass
    # Some programs write only the size before the bytes.
    (size,) = struct.unpack_from("<I", data + b"\0\0\0\0", 0)
    return "", data[4 : 4 + size] or data


def suffix_for(data: bytes) -> str:
    """The file name suffix of a document, by its first bytes."""
    for magic, suffix in ((b"%PDF", ".pdf"), (b"{\\rtf", ".rtf"), (b"PK\x03\x04", ""), (b"BM", ".bmp")):
        if data.startswith(magic):
            return suffix
    return ""


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    end = data.index(b"\0", position, position + 1024)
    raw = data[position:end]
    try:
        return raw.decode(), end + 1
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace"), end + 1


def _entries_below(ole: Any, parent: tuple[str, ...]) -> dict[str, str]:
    """The entries right below `place`, by their names in lower case."""
    entries: dict[str, str] = {}
    for entry in ole.listdir(streams=True, storages=True):
        path = tuple(str(part) for part in entry)
        if len(path) == len(parent) + 1 and path[: len(parent)] == parent:
            entries[path[-1].lower()] = path[-1]
    return entries


def _read_stream(ole: Any, path: tuple[str, ...]) -> bytes:
    return bytes(ole.openstream(list(path)).read())


def _clsid(ole: Any, storage_path: tuple[str, ...]) -> bytes:
    try:
        text = str(ole.getclsid(list(storage_path)) if storage_path else ole.root.clsid)
        parts = text.split("-")
        numbers = struct.pack("<IHH", int(parts[0], 16), int(parts[1], 16), int(parts[2], 16))
        return numbers + bytes.fromhex(parts[3] + parts[4])
    except (ValueError, IndexError, AttributeError):
        return bytes(16)
