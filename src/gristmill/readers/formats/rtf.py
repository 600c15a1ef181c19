"""Rich text (RTF): its text, and the objects and pictures in it, which are written as hexadecimal digits.

The digits are those of the group after `\\objdata` or `\\pict`, without the control words between them.
"""

import re
import struct
from collections.abc import Iterator

from gristmill.readers.formats import compound, media, office
from gristmill.readers.formats.rtf_text import parse_rtf
from gristmill.readers.sink import Sink

_OBJECT_WORD = re.compile(rb"\\(objdata|pict)\b")
_CONTROL_WORD = re.compile(rb"\\\*|\\[a-zA-Z]+-?\d* ?|\\[^a-zA-Z]")
_BRACE = re.compile(rb"[{}]")
_NOT_HEX = re.compile(rb"[^0-9a-fA-F]+")


def read(sink: Sink) -> None:
    """Read a rich text file."""
    data = sink.task.path.read_bytes()
    document = parse_rtf(data)
    sink.describe(document.metadata)
    if document.text.strip():
        sink.add_text(document.text.rstrip() + "\n\n")
    _add_contents(sink, data)
    office.check_content(sink)


def _add_contents(sink: Sink, data: bytes) -> None:
    """Hand over the objects and pictures."""
    for number, (word, body) in enumerate(_groups(data), 1):
        if word == b"pict":
            if media.media_type("", body):
                media.add_media(sink, f"picture-{number}.png", body)
        else:
            _add_object(sink, body, number)


def _groups(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    while (match := _OBJECT_WORD.search(data, position)) is not None:
        position, depth, digits = match.end(), 0, bytearray()
        while position < len(data):
            brace = _next_brace(data, position)
            if depth == 0:
                digits += _NOT_HEX.sub(b"", _CONTROL_WORD.sub(b"", data[position:brace]))
            position = brace + 1
            if data[brace : brace + 1] == b"}" and depth == 0:
                break
            depth += 1 if data[brace : brace + 1] == b"{" else -1
        yield match.group(1), bytes.fromhex(digits[: len(digits) // 2 * 2].decode())


def _next_brace(data: bytes, position: int) -> int:
    match = _BRACE.search(data, position)
    return match.start() if match else len(data)


def _add_object(sink: Sink, body: bytes, number: int) -> None:
    """Hand over an OLE 1 object: version, format, class, topic, item, then the length and the bytes."""
    try:
        position = 8
        names: list[bytes] = []
        for _ in range(3):
            (length,) = struct.unpack_from("<I", body, position)
            names.append(body[position + 4 : position + 4 + length].rstrip(b"\0"))
            position += 4 + length
        (size,) = struct.unpack_from("<I", body, position)
        native = body[position + 4 : position + 4 + size]
    except struct.error:
        sink.warn("damaged")
        return
    if not native:
        return
    if native.startswith(compound.MAGIC):
        compound.add_object(sink, f"object-{number}", native)
    elif names[0].lower() == b"package":
        # It is an Ole10Native stream without the leading size.
        name, inside = compound.unwrap_ole_native(b"\0\0\0\0" + native)
        sink.add_attachment(name or f"object-{number}", inside)
    else:
        sink.add_attachment(f"object-{number}", native)
