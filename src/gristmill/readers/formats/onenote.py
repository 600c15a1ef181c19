"""OneNote sections (one): the files inside them, and their texts, in any language.

The format is a log of revisions that no open library reads. Files follow a marker of their own. A text is a string behind its
length, in UTF-16 that ends with a zero, or in ASCII; what only looks like one is recognised by its characters. Of equal texts
one counts, and of what was typed in several revisions the longest. Order and structure are lost: the report says `partial_text`.
"""

import itertools
import re
import struct
from collections.abc import Iterator

from gristmill.readers.formats import compound, media
from gristmill.readers.sink import Sink

_FILE_MARKER = bytes.fromhex("e716e3bd65261145a4c48d4d0b7a9eac")
_PICTURE_BYTES = re.compile(
    rb"\x89PNG\r\n\x1a\n.{20,}?IEND\xaeB`\x82|\xff\xd8\xff[\xe0\xe1\xdb].{100,}?\xff\xd9", re.S
)
_UTF16_RUN = re.compile(rb"(?:[\x20-\x7e\t]\0){8,}")
_LENGTH = re.compile(rb"(?s)..[\x00-\x07]\x00")
_NOT_CONTENT = re.compile(
    r"^(?:[\w .-]+\.(?:one|onetoc2)|[A-Za-z]:\\.*|\{[0-9A-Fa-f-]+\}|Calibri.*|Consolas|[0-9a-f-]{32,}|\.\w{2,5}"
    r"|PageTitle|PageDateTime|h[1-6]|p|cite|blockquote|code)$"
)
# The blocks of the scripts that people write in; of Han, what the common character sets have at their first level.
_USUAL = re.compile(
    "[ -~\u00a0-\u024f\u02b0-\u058f\u0590-\u06ff\u0900-\u0dff\u0e00-\u0eff\u10a0-\u10ff\u1e00-\u1fff\u2010-\u2027\u2030-\u203a"
    "\u20a0-\u20bf\u2100-\u214f\u2190-\u21ff\u2200-\u22ff\u25a0-\u25ff\u3000-\u30ff\uac00-\ud7a3\uff01-\uff65\t\r\n\x0b]"
)
_SAMPLE = 200  # characters of a text by which it is judged


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
    for text in section_texts(bytes(text_bytes)):
        sink.add_text(text + "\n\n")
    sink.warn("partial_text")


def section_texts(data: bytes) -> list[str]:
    """The texts in a section, without those that are the beginning of another."""
    strings = dict.fromkeys(text.strip() for text in _strings(data))
    joined = "\n".join(strings)
    runs = (run.decode("utf-16-le").strip() for run in _UTF16_RUN.findall(data))
    strings |= dict.fromkeys(run for run in runs if run not in joined)
    texts = [text for text in strings if text and not _NOT_CONTENT.match(text) and _is_mostly_letters(text)]
    in_order = sorted(texts)
    beginnings = {text for text, following in itertools.pairwise(in_order) if following.startswith(text)}
    return [text for text in texts if text not in beginnings]


def _strings(data: bytes) -> Iterator[str]:
    """The strings that stand behind their lengths."""
    position = 0
    while (match := _LENGTH.search(data, position)) is not None:
        start = match.start() + 4
        length = int.from_bytes(match.group(), "little")
        text = _string(data[start : start + length]) if 4 <= length <= len(data) - start else None
        position = match.start() + 1 if text is None else start + length
        if text is not None:
            yield text


def _string(data: bytes) -> str | None:
    if data.endswith(b"\0\0") and len(data) % 2 == 0:
        text = data[:-2].decode("utf-16-le", "replace")
        return text if len(text) > 1 and all(map(_is_usual, text[:_SAMPLE])) else None
    text = data.removesuffix(b"\0").decode("latin-1")
    is_text = len(text) >= 4 and text.isascii() and text.replace("\t", " ").isprintable()
    return text if is_text and (data.endswith(b"\0") or " " in text) else None


def _is_usual(character: str) -> bool:
    if _USUAL.match(character):
        return True
    if not "\u4e00" <= character <= "\u9fff":
        return False
    simplified, traditional = character.encode("gb2312", "ignore"), character.encode("big5", "ignore")
    return b"\xb0" <= simplified[:1] <= b"\xd7" or b"\xa4" <= traditional[:1] <= b"\xc6"


def _is_mostly_letters(text: str) -> bool:
    return sum(map(str.isalpha, text)) > len(text.replace(" ", "")) // 2
