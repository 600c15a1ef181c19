"""read: from what a source held to canonical content, in parts.

    digest      what the content is made from and by what: known before anything is read of it, so that what is kept
                already is not made again
    parts       the text, in order, at most `PART` characters each: nothing is ever held whole but what is small

    notes, text and markdown in UTF-8      decoded here
    web pages                              their main content (sources/page.py)
    everything else                        by `readers/`, most of it in child processes that can be killed

An empty source gives empty content; one with bytes but no text raises `NoText`: nothing is silently empty. A file that
changes while it is read raises `Transient`: its digest would not be that of its parts.
"""

import codecs
import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass

from gristmill.errors import NoText, Permanent, Transient, Unreadable, Unsupported
from gristmill.identity import LOCAL_ORG, OrgId, scoped_digest
from gristmill.readers import TextPart
from gristmill.readers.text_format import HEAD_BYTES, looks_like_text, plain_format
from gristmill.sources import Original
from gristmill.sources.page import to_markdown

# Changes whenever the same bytes would give other content: equal content has equal digests.
TEXT_READER = "text/2"
PAGE_READER = "page/1"

PART = 1 << 17  # characters
_BLOCK = 1 << 18  # bytes
_LOOKED_AT = 8192

_PAGE_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class InspectedOriginal:
    """A document that is being read; its parts can be had once, here or by the readers."""

    original: Original
    reader: str
    size: int
    input_hash: bytes  # SHA-256 of the bytes
    head: bytes = b""  # the first of them
    org: OrgId = LOCAL_ORG  # whose content it becomes

    @property
    def is_plain(self) -> bool:
        """Whether it is read here."""
        return self.reader in (TEXT_READER, PAGE_READER)

    @property
    def digest(self) -> bytes:
        """What the content is made from, and by what."""
        return scoped_digest(self.org, content_digest(self.reader, self.input_hash))

    def parts(self) -> Iterator[tuple[TextPart, float]]:
        """The content, part by part, each with the share of the bytes that is read by then. Blocks: in a thread."""
        texts = self._page() if self.reader == PAGE_READER else self._text()
        is_blank = True
        for text, share in texts:
            is_blank = is_blank and not text.strip()
            yield TextPart(text), share
        if is_blank and self.size:
            raise NoText(f"{self.original.name} holds {self.size:,} bytes, but no text.")

    def _page(self) -> Iterator[tuple[str, float]]:
        original = self.original
        text = to_markdown(original.data, original.final_url or "", original.charset).text.replace("\0", "")
        for start in range(0, len(text), PART):
            yield text[start : start + PART], min(1.0, (start + PART) / len(text))

    def _text(self) -> Iterator[tuple[str, float]]:
        hasher, bytes_read = hashlib.sha256(), 0
        with self.original.open() as file:
            head = file.read(_LOOKED_AT)
            decoder = codecs.getincrementaldecoder(encoding(self.original, head))()
            lines = io.IncrementalNewlineDecoder(decoder, translate=False)
            block = head
            while True:
                hasher.update(block)
                bytes_read += len(block)
                text = _decode(self.original, lines, block)
                if text:
                    yield text, bytes_read / max(bytes_read, self.size)
                if not block:
                    break
                block = file.read(_BLOCK)
        if hasher.digest() != self.input_hash:
            raise Transient(f"{self.original.name} changed while it was read.", code="source_changed")


def content_digest(reader: str, input_hash: bytes) -> bytes:
    """What a content is made from, by the hash of its bytes, and by what."""
    return hashlib.sha256(reader.encode() + b"\0" + input_hash).digest()


def inspect_original(original: Original, *, other_reader: str | None = None) -> InspectedOriginal:
    """Look at all of the bytes once, without keeping them. `others` names who reads what is not simple; without
    them, everything is taken for text. Blocks: in a thread."""
    hasher, size = hashlib.sha256(), 0
    is_text, decoder = other_reader is None, codecs.getincrementaldecoder("utf-8")()
    with original.open() as file:
        block = file.read(_BLOCK)
        head = block[:16]
        is_text = is_text or original.charset is not None or _looks_plain(original, block)
        must_check = is_text and other_reader is not None and original.charset is None
        while block:
            hasher.update(block)
            size += len(block)
            if must_check and is_text:
                is_text = _decodes(decoder, block)
            block = file.read(_BLOCK)
    is_text = is_text and not (must_check and not _decodes(decoder, b""))
    reader = PAGE_READER if original.media_type in _PAGE_TYPES else TEXT_READER if is_text else other_reader
    return InspectedOriginal(original, reader or TEXT_READER, size, hasher.digest(), head)


def _looks_plain(original: Original, block: bytes) -> bool:
    """Whether it looks like text or markdown, which need no reader; control characters do."""
    head = block[:HEAD_BYTES]
    file_format = plain_format(head, original.name, original.media_type)
    return file_format is not None and file_format.kind in ("text", "markdown") and looks_like_text(head)


def _decodes(decoder: codecs.IncrementalDecoder, block: bytes) -> bool:
    try:
        return "\0" not in decoder.decode(block, final=not block)
    except UnicodeDecodeError:
        return False


def encoding(original: Original, head: bytes) -> str:
    """The encoding of a plain-text file by its first bytes; `Unsupported` for what is no text."""
    declared = original.charset or "utf-8"
    name = next((encoding for mark, encoding in _BYTE_ORDER_MARKS.items() if head.startswith(mark)), declared)
    if name == "utf-8" and b"\0" in head:
        raise Unsupported(
            f"{original.name} is not a text file; only text, markdown and web pages are read so far."
        )
    try:
        codecs.getincrementaldecoder(name)
    except LookupError as error:
        raise _unknown_encoding(original, name) from error
    return name


def _decode(original: Original, lines: io.IncrementalNewlineDecoder, block: bytes) -> str:
    try:
        # It keeps a carriage return back until it is seen what follows.
        text: str = lines.decode(block, final=not block)
    except UnicodeDecodeError as error:
        raise _unknown_encoding(original, error.encoding) from error
    if "\0" in text:
        raise Permanent(f"{original.name} holds NUL characters, which are no text.", code="no_text")
    return text.replace("\r\n", "\n")


def _unknown_encoding(original: Original, name: str) -> Unreadable:
    return Unreadable(
        f"{original.name} is not {name.upper()} text; convert it to UTF-8 and add it again.",
        code="unknown_encoding",
    )
