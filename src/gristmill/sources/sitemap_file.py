"""sitemap file: parses one sitemap while its bytes arrive. Pure.

    <urlset>          pages, each with its lastmod
    <sitemapindex>    further sitemaps
    not XML           one address a line
    gzip              any of these, detected by the first bytes, whatever the name

It is safe against bombs: gzip is decompressed piece by piece and counted, a document type is refused before it can
declare an entity, and expat gets no token longer than 1 MiB, which it would scan again with every chunk.
"""

import codecs
import contextlib
import zlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import NoReturn
from xml.parsers import expat

from gristmill.errors import Unreadable
from gristmill.sources.gunzip import MAGIC, Gunzip

# Limits of the protocol (sitemaps.org): 50 MB decompressed, 50,000 entries.
MAX_FILE_BYTES = 50 * 1024 * 1024
MAX_ENTRIES = 50_000

# One character more than an address may have, so that a truncated address is refused, not taken for another page.
_MAX_VALUE_LENGTH = 8193
_MAX_DATE_LENGTH = 40
_MAX_TOKEN_BYTES = 1024 * 1024
_MAX_DEPTH = 32
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class SitemapEntry:
    """One address of a sitemap, and its lastmod as written there."""

    url: str
    lastmod: str | None = None


class _MalformedSitemap(Exception):
    """The reason why a file is no sitemap."""


class SitemapFile:
    """One sitemap; `is_index` is true when its entries are sitemaps. Raises Unreadable bad_sitemap."""

    def __init__(self, display_url: str) -> None:
        self.is_index = False
        self.over_limit = 0
        self._display_url = display_url
        self._gunzip: Gunzip | None = None
        self._content: _XmlSitemap | _TextSitemap | None = None
        self._bytes_fed = self._size = self._entry_count = 0

    def feed(self, chunk: bytes) -> list[SitemapEntry]:
        """The entries that `chunk` completes. The first chunk must have at least two bytes."""
        with self._translate_errors():
            return self._within_limit(self._feed_raw(chunk))

    def end(self) -> list[SitemapEntry]:
        """The entries that were incomplete before the end."""
        with self._translate_errors():
            if self._gunzip is not None and not self._gunzip.is_complete:
                raise _MalformedSitemap("its gzip stream is cut off")
            if self._content is None:
                raise _MalformedSitemap("it is empty")
            return self._within_limit(self._content.end())

    def _feed_raw(self, chunk: bytes) -> list[SitemapEntry]:
        if self._bytes_fed == 0 and chunk.startswith(MAGIC):
            self._gunzip = Gunzip()
        self._bytes_fed += len(chunk)
        pieces = self._gunzip.feed(chunk) if self._gunzip is not None else (chunk,)
        return [entry for piece in pieces for entry in self._parse(piece)]

    def _parse(self, piece: bytes) -> list[SitemapEntry]:
        self._size += len(piece)
        if self._size > MAX_FILE_BYTES:
            raise _MalformedSitemap(f"it is longer than {MAX_FILE_BYTES:,} bytes")
        if self._content is None:
            # Blank lines before the first tag are invalid XML, but common.
            piece = piece.removeprefix(codecs.BOM_UTF8).lstrip()
            if not piece:
                return []
            self._content = _XmlSitemap() if piece.startswith((b"<", *_UTF16_BOMS)) else _TextSitemap()
        entries = self._content.feed(piece)
        self.is_index = self._content.is_index
        return entries

    def _within_limit(self, entries: list[SitemapEntry]) -> list[SitemapEntry]:
        room = max(0, MAX_ENTRIES - self._entry_count)
        self._entry_count += len(entries)
        self.over_limit += len(entries[room:])
        return entries[:room]

    @contextlib.contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except (_MalformedSitemap, zlib.error, expat.ExpatError) as error:
            message = f"The sitemap {self._display_url} can't be read: {error}."
            raise Unreadable(message, code="bad_sitemap") from error


class _TextSitemap:
    """A plain text sitemap: one address a line, in UTF-8."""

    is_index = False

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[SitemapEntry]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _MAX_TOKEN_BYTES or b"\0" in piece:
            raise _MalformedSitemap("it is neither XML nor a list of addresses")
        return self._entries(lines)

    def end(self) -> list[SitemapEntry]:
        return self._entries([self._rest])

    def _entries(self, lines: list[bytes]) -> list[SitemapEntry]:
        urls = (line.decode("utf-8", "replace").strip() for line in lines)
        return [SitemapEntry(url) for url in urls if url]


class _XmlSitemap:
    """An XML sitemap or an index; elements of other namespaces, such as images, are skipped."""

    def __init__(self) -> None:
        self.is_index = False
        self._namespace = ""
        self._path: list[str] = []
        self._values: dict[str, str] = {}
        self._entries: list[SitemapEntry] = []
        self._bytes_fed = 0
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text

    def feed(self, piece: bytes) -> list[SitemapEntry]:
        self._bytes_fed += len(piece)
        self._parser.Parse(piece, False)
        if self._bytes_fed - self._parser.CurrentByteIndex > _MAX_TOKEN_BYTES:
            raise _MalformedSitemap(f"it has a tag of more than {_MAX_TOKEN_BYTES:,} bytes")
        return self._take_entries()

    def end(self) -> list[SitemapEntry]:
        self._parser.Parse(b"", True)
        return self._take_entries()

    def _take_entries(self) -> list[SitemapEntry]:
        entries, self._entries = self._entries, []
        return entries

    def _doctype(self, *_: object) -> NoReturn:
        raise _MalformedSitemap("it declares a document type, which no sitemap does")

    def _start(self, tag: str, _: object) -> None:
        if not self._path:
            self._namespace, _, root = tag.rpartition(" ")
            if root not in ("urlset", "sitemapindex"):
                raise _MalformedSitemap(f"its first tag is <{root[:40]}>, not <urlset> or <sitemapindex>")
            self.is_index = root == "sitemapindex"
        namespace, _, name = tag.rpartition(" ")
        self._path.append(name if namespace == self._namespace else tag)
        if len(self._path) > _MAX_DEPTH:
            raise _MalformedSitemap(f"its tags are more than {_MAX_DEPTH} deep")
        if len(self._path) == 2:
            self._values = {}

    def _end(self, _: str) -> None:
        tag = self._path.pop()
        if len(self._path) == 1 and tag == ("sitemap" if self.is_index else "url"):
            url = self._values.get("loc", "").strip()
            lastmod = self._values.get("lastmod", "").strip()[:_MAX_DATE_LENGTH]
            if url:
                self._entries.append(SitemapEntry(url, lastmod or None))

    def _text(self, text: str) -> None:
        if len(self._path) == 3 and self._path[2] in ("loc", "lastmod"):
            value = self._values.get(self._path[2], "")
            self._values[self._path[2]] = value + text[: _MAX_VALUE_LENGTH - len(value)]
