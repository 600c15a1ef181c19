"""The archives inside iWork documents since 2013 (`.iwa`): blocks compressed with Snappy, and messages of Protocol Buffers. Pure.

Apple does not document them. What is read here is stable since 2013: blocks without checksums, each message behind an
`ArchiveInfo` with its type and length, and two types that hold text. What does not fit raises ValueError.
"""

from collections.abc import Iterator

_TEXT_STORAGE = frozenset((2001, 2005))  # TSWP.StorageArchive; its field 3 is text
_CELL_STRINGS = 6005  # TST.TableDataList; the field 3 of its entries is the text of cells
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def archive_texts(data: bytes, max_bytes: int) -> Iterator[str]:
    """The texts in an archive, in order: of text storages, and of cells of tables."""
    for kind, message in _messages(decompress_blocks(data, max_bytes)):
        if kind in _TEXT_STORAGE:
            text = b"".join(value for number, value in _byte_fields(message) if number == 3)
            yield text.decode("utf-8", "replace")
        elif kind == _CELL_STRINGS:
            for number, entry in _byte_fields(message):
                if number == 3:
                    yield from (
                        value.decode("utf-8", "replace") for field, value in _byte_fields(entry) if field == 3
                    )


def decompress_blocks(data: bytes, max_bytes: int) -> bytes:
    """The bytes in a sequence of blocks: a zero, a length of three bytes, and a block of Snappy."""
    output = bytearray()
    position = 0
    while position + 4 <= len(data):
        if data[position]:
            raise ValueError("not a block of an iWork archive")
        length = int.from_bytes(data[position + 1 : position + 4], "little")
        position += 4
        output += decompress(data[position : position + length], max_bytes - len(output))
        position += length
    return bytes(output)


def decompress(data: bytes, max_bytes: int) -> bytes:
    """The bytes of a block that Snappy has compressed."""
    size, position = _varint(data, 0)
    if size > max_bytes:
        raise ValueError("too large")
    output = bytearray()
    while position < len(data) and len(output) <= size:
        tag = data[position]
        position += 1
        if tag & 3 == 0:  # bytes as they are
            length = tag >> 2
            if length >= 60:
                width = length - 59
                length = int.from_bytes(data[position : position + width], "little")
                position += width
            output += data[position : position + length + 1]
            position += length + 1
            continue
        if tag & 3 == 1:
            length, width = (tag >> 2 & 7) + 4, 1
            offset = (tag >> 5 << 8) + int.from_bytes(data[position : position + 1], "little")
        else:
            length, width = (tag >> 2) + 1, 2 if tag & 3 == 2 else 4
            offset = int.from_bytes(data[position : position + width], "little")
        position += width
        if not 0 < offset <= len(output):
            raise ValueError("a copy of what is not there")
        start = len(output) - offset
        repeated = bytes(output[start : start + length])
        output += (repeated * (length // max(len(repeated), 1) + 1))[:length]
    if len(output) != size:
        raise ValueError("cut off")
    return bytes(output)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The messages of a decompressed archive with their types."""
    position = 0
    while position < len(data):
        length, position = _varint(data, position)
        info = data[position : position + length]
        position += length
        for number, value in _byte_fields(info):
            if number != 2:
                continue
            numbers = dict(_numbers(value))
            size = numbers.get(3, 0)
            yield numbers.get(1, 0), data[position : position + size]
            position += size


def _byte_fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, value in _fields(data):
        if isinstance(value, bytes):
            yield number, value


def _numbers(data: bytes) -> Iterator[tuple[int, int]]:
    for number, value in _fields(data):
        if isinstance(value, int):
            yield number, value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield key >> 3, value
        elif kind == _BYTES:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise ValueError("cut off")
            yield key >> 3, data[position : position + length]
            position += length
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("not a message")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("cut off")
