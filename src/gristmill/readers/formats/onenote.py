"""OneNote sections (one): the files inside them, and as much of the text as there is in plain runs.

The format is a log of revisions that no open library reads. Files follow a marker of their own; text is in runs of
UTF-16 letters, of which equal ones count once. Other text is not found: the report says `partial_text`.
"""

import re
import struct

from gristmill.readers.formats import compound, media
from gristmill.readers.sink import Sink

_FILE_MARKER = bytes.fromhex("e716e3bd65261145a4c48d4d0b7a9eac")
_PICTURE_BYTES = re.compile(
    rb"\x89PNG\r\n\x1a\n.{20,}?IEND\xaeB`\x82|\xff\xd8\xff[\xe0\xe1\xdb].{100,}?\xff\xd9", re.S
)
_UTF16_RUN = re.compile(rb"(?:[\x20-\x7e\t]\0){8,}")
_NOT_CONTENT = re.compile(
    r"^(?:[\w .-]+\.(?:one|onetoc2)|[A-Za-z]:\\.*|\{[0-9A-Fa-f-]+\}|Calibri.*|[0-9a-f-]{32,})$"
)


def read(sink: Sink) -> None:
    """Read a section."""
    data = sink.task.path.read_bytes()
    start, number = data.find(_FILE_MARKER), 0
    text_bytes = bytearray()
    position = 0
    while start >= 0 and start + 36 <= len(data):
        (length,) = struct.unpack_from("<Q", data, start + 16)
        body = data[start + 36 : start + 36 + length]
        text_bytes += data[position:start]
        position = start + 36 + len(body)
        number += 1
        name = f"file-{number}" + compound.suffix_for(body)
        if media.media_type(name, body):
            media.add_media(sink, name, body)
        elif body:
            sink.add_attachment(name, body)
        start = data.find(_FILE_MARKER, position)
    text_bytes += data[position:]
    if not number:  # another dialect, without the marker
        for picture_number, picture in enumerate(_PICTURE_BYTES.findall(data), 1):
            media.add_media(sink, f"picture-{picture_number}", picture)
    runs = dict.fromkeys(run.decode("utf-16-le").strip() for run in _UTF16_RUN.findall(bytes(text_bytes)))
    for text in runs:
        if (
            text
            and not _NOT_CONTENT.match(text)
            and sum(character.isalpha() for character in text) > len(text) // 2
        ):
            sink.add_text(text + "\n\n")
    sink.warn("partial_text")
