"""read: from a source to canonical content. Text, markdown and web pages so far; the rest is refused by name.

An empty source gives empty content; one with bytes but no text raises `NoText`: nothing is silently empty.
"""

import asyncio
import codecs
import hashlib
from dataclasses import dataclass

from gristmill.errors import NoText, Permanent, Unreadable, Unsupported
from gristmill.sources import Original, Source
from gristmill.sources.page import to_markdown

# Changes whenever the same bytes would give other content: equal content has equal digests.
TEXT_READER = "text/1"
PAGE_READER = "page/1"

_PAGES = frozenset({"text/html", "application/xhtml+xml"})
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


async def read(source: Source) -> Content:
    """The canonical content of `source`."""
    original = await source.read()
    if original.media_type in _PAGES:
        page = await asyncio.to_thread(to_markdown, original.data, original.final_url or "", original.charset)
        reader, text = PAGE_READER, page.text.replace("\0", "")
    else:
        reader, text = TEXT_READER, decode(original)
    if original.data and not text.strip():
        raise NoText(f"{original.name} holds {len(original.data):,} bytes, but no text.")
    digest = hashlib.sha256(reader.encode() + b"\0" + hashlib.sha256(original.data).digest()).digest()
    return Content(text, digest)


def decode(original: Original) -> str:
    """The text of a plain-text file; `Unsupported` for anything else."""
    data = original.data
    named = original.charset or "utf-8"
    encoding = next((encoding for mark, encoding in _MARKS.items() if data.startswith(mark)), named)
    if encoding == "utf-8" and b"\0" in data[:8192]:
        raise Unsupported(
            f"{original.name} is not a text file; only text, markdown and web pages are read so far."
        )
    try:
        text = data.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise Unreadable(
            f"{original.name} is not {encoding.upper()} text; convert it to UTF-8 and add it again.",
            code="unknown_encoding",
        ) from error
    if "\0" in text:
        raise Permanent(f"{original.name} holds NUL characters, which are no text.", code="no_text")
    return text.replace("\r\n", "\n")
