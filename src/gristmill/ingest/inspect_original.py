"""Inspect an original: hash its bytes and decide which reader it needs. Decode it here if it is plain text or a web page.

    digest      identifies the content by its bytes and its reader, and by the format that its name asks for: equal bytes
                are a table as .csv, and code as .py. It is known before anything is read, so that content that is stored
                already is not made again
    parts       the text, in order, at most `PART` characters each, so that large files are never held in memory

    notes, text and markdown in UTF-8      decoded here
    web pages                              their main content (sources/page.py)
    everything else                        by a reader, usually in a child process (read.py, readers/)

An empty source gives empty content; one with bytes but no text raises `NoText`, so that nothing is silently empty. A file that
changes while it is read raises `Transient`, because its digest would not match its parts.
"""

import codecs
import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gristmill.errors import NoText, Permanent, Transient, Unreadable, Unsupported
from gristmill.identity import LOCAL_ORG, OrgId, scoped_digest
from gristmill.readers import TextPart
from gristmill.readers.front_matter import front_matter, has_front_matter
from gristmill.readers.html_metadata import HTML_HEAD_BYTES, html_metadata
from gristmill.readers.text_format import HEAD_BYTES, detect_format, looks_like_text, plain_format
from gristmill.sources import Original
from gristmill.sources.page import PAGE_TYPES, decode_page, to_markdown

# Must change whenever the same bytes would give other content: equal digests mean equal content.
TEXT_READER = "text/2"
PAGE_READER = "page/2"

PART = 1 << 17  # characters
_BLOCK = 1 << 18  # bytes
_SAMPLE = 8192

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class InspectedOriginal:
    """An original with its hash and the reader it needs."""

    original: Original
    reader: str
    size: int
    input_hash: bytes  # SHA-256 of the bytes
    head: bytes = b""  # the first bytes
    org: OrgId = LOCAL_ORG  # the organisation that owns the content
    format_name: str = ""  # for the reader: equal bytes give other content in another format

    @property
    def is_plain(self) -> bool:
        """Whether it is decoded in this process."""
        return self.reader in (TEXT_READER, PAGE_READER)

    @property
    def digest(self) -> bytes:
        """Identifies the content within its organisation."""
        reader = f"{self.reader}:{self.format_name}" if self.format_name else self.reader
        return scoped_digest(self.org, content_digest(reader, self.input_hash))

    def parts(self) -> Iterator[tuple[TextPart, float]]:
        """The content, part by part, each with the share of the bytes read so far. Blocks: run it in a thread."""
        texts = self._page() if self.reader == PAGE_READER else self._text()
        is_blank = True
        for text, share in texts:
            is_blank = is_blank and not text.strip()
            yield TextPart(text), share
        if is_blank and self.size:
            raise NoText(f"{self.original.name} has {self.size:,} bytes, but no text.")

    def document_fields(self, beginning: str) -> dict[str, Any]:
        """What a plain document says of itself: a web page in its head, another text in the front matter it begins with."""
        if self.reader == PAGE_READER:
            head = decode_page(self.original.data[:HTML_HEAD_BYTES], self.original.charset)
            return html_metadata(head).to_json()
        return front_matter(beginning).to_json() if has_front_matter(beginning) else {}

    def _page(self) -> Iterator[tuple[str, float]]:
        original = self.original
        text = to_markdown(original.data, original.final_url or "", original.charset).text.replace("\0", "")
        for start in range(0, len(text), PART):
            yield text[start : start + PART], min(1.0, (start + PART) / len(text))

    def _text(self) -> Iterator[tuple[str, float]]:
        hasher, bytes_read = hashlib.sha256(), 0
        with self.original.open() as file:
            head = file.read(_SAMPLE)
            decoder = codecs.getincrementaldecoder(encoding(self.original, head))()
            lines = io.IncrementalNewlineDecoder(decoder, translate=False)
            block = head
            while True:
                if self.original.path is not None:  # bytes in memory can't change
                    hasher.update(block)
                bytes_read += len(block)
                text = _decode(self.original, lines, block)
                if text:
                    yield text, bytes_read / max(bytes_read, self.size)
                if not block:
                    break
                block = file.read(_BLOCK)
        if self.original.path is not None and hasher.digest() != self.input_hash:
            raise Transient(f"{self.original.name} changed while it was being read.", code="source_changed")


def content_digest(reader: str, input_hash: bytes) -> bytes:
    """Identifies a content by its reader and the hash of its bytes."""
    return hashlib.sha256(reader.encode() + b"\0" + input_hash).digest()


def inspect_original(original: Original, *, other_reader: str | None = None) -> InspectedOriginal:
    """Read all bytes once, without keeping them. `other_reader` is the reader of everything but plain text; without it,
    everything is treated as text. Blocks: run it in a thread."""
    hasher, size = hashlib.sha256(), 0
    is_text, decoder = other_reader is None, codecs.getincrementaldecoder("utf-8")()
    with original.open() as file:
        block = file.read(_BLOCK)
        first, head = block[:HEAD_BYTES], block[:16]
        is_text = is_text or original.charset is not None or _looks_plain(original, block)
        must_check = is_text and other_reader is not None and original.charset is None
        while block:
            hasher.update(block)
            size += len(block)
            if must_check and is_text:
                is_text = _decodes(decoder, block)
            block = file.read(_BLOCK)
    is_text = is_text and not (must_check and not _decodes(decoder, b""))
    reader = PAGE_READER if original.media_type in PAGE_TYPES else TEXT_READER if is_text else other_reader
    inspected = InspectedOriginal(original, reader or TEXT_READER, size, hasher.digest(), head)
    return inspected if inspected.is_plain else replace(inspected, format_name=_format_name(original, first))


def _format_name(original: Original, head: bytes) -> str:
    file_format = detect_format(head, original.name, original.media_type)
    return f"{file_format.kind}/{file_format.language}"


def _looks_plain(original: Original, block: bytes) -> bool:
    """Whether it looks like text or markdown, which need no reader. Control characters do."""
    head = block[:HEAD_BYTES]
    file_format = plain_format(head, original.name, original.media_type)
    return file_format is not None and file_format.kind in ("text", "markdown") and looks_like_text(head)


def _decodes(decoder: codecs.IncrementalDecoder, block: bytes) -> bool:
    try:
        return "\0" not in decoder.decode(block, final=not block)
    except UnicodeDecodeError:
        return False


def encoding(original: Original, head: bytes) -> str:
    """The encoding of a plain-text file, by its first bytes. Raises `Unsupported` if it is not text."""
    declared = original.charset or "utf-8"
    name = next((encoding for mark, encoding in _BYTE_ORDER_MARKS.items() if head.startswith(mark)), declared)
    if name == "utf-8" and b"\0" in head:
        raise Unsupported(
            f"{original.name} is not a text file. Only text, markdown and web pages can be read here."
        )
    try:
        codecs.getincrementaldecoder(name)
    except LookupError as error:
        raise _unknown_encoding(original, name) from error
    return name


def _decode(original: Original, lines: io.IncrementalNewlineDecoder, block: bytes) -> str:
    try:
        # The decoder holds back a carriage return until it sees the next character.
        text: str = lines.decode(block, final=not block)
    except UnicodeDecodeError as error:
        raise _unknown_encoding(original, error.encoding) from error
    if "\0" in text:
        raise Permanent(f"{original.name} contains NUL characters, so it is not text.", code="no_text")
    return text.replace("\r\n", "\n")


def _unknown_encoding(original: Original, name: str) -> Unreadable:
    return Unreadable(
        f"{original.name} is not {name.upper()} text. Convert it to UTF-8 and add it again.",
        code="unknown_encoding",
    )
