"""read: from a source to canonical content. Plain text and markdown so far; the rest is refused by name.

An empty source gives empty content; one with bytes but no text raises `NoText`: nothing is silently empty.
"""

import codecs
import hashlib
from dataclasses import dataclass
from pathlib import Path

from gristmill.catalog import Item
from gristmill.errors import NoText, Permanent, Unreadable, Unsupported
from gristmill.sources import FileSource, NoteSource, Original, Source

# Changes whenever the same bytes would give other content: equal content has equal digests.
READER = "text/1"

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class Content:
    """The canonical text of a document; `digest` tells what it was made from and by what."""

    text: str
    digest: bytes


def source_of(item: Item, note: str | None, limit: int) -> Source:
    """Where `item` is read from."""
    match item.type:
        case "note":
            return NoteSource(note or "", item.title)
        case "file":
            return FileSource(Path(item.source["path"]), limit)
        case _:
            raise Unsupported(f"Items of type {item.type!r} can't be read yet.")


async def read(source: Source) -> Content:
    """The canonical content of `source`."""
    original = await source.read()
    digest = hashlib.sha256(READER.encode() + b"\0" + hashlib.sha256(original.data).digest()).digest()
    text = decode(original)
    if original.data and not text.strip():
        raise NoText(f"{original.name} holds {len(original.data):,} bytes, but no text.")
    return Content(text, digest)


def decode(original: Original) -> str:
    """The text of a plain-text file; `Unsupported` for anything else."""
    data = original.data
    encoding = next((encoding for mark, encoding in _MARKS.items() if data.startswith(mark)), "utf-8")
    if encoding == "utf-8" and b"\0" in data[:8192]:
        raise Unsupported(f"{original.name} is not a text file; only text and markdown are read so far.")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"{original.name} is not UTF-8 text (byte {error.start:,}); convert it and add it again.",
            code="unknown_encoding",
        ) from error
    if "\0" in text:
        raise Permanent(f"{original.name} holds NUL characters, which are no text.", code="no_text")
    return text.replace("\r\n", "\n")
