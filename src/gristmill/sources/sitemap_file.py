"""sitemap file: what one sitemap lists, found while its bytes come in; pure.

    <urlset>          pages, each with its lastmod
    <sitemapindex>    further sitemaps
    no XML at all     one address a line
    gzip              any of these, told by its first bytes, whatever its name

Nothing unfolds: gzip is inflated piece by piece and counted, a document type is refused before it can declare an
entity, and expat is given no token longer than 1 MiB, which it would scan again with every chunk.
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

# Of the protocol (sitemaps.org): 50 MB inflated, 50,000 entries.
LONGEST_FILE = 50 * 1024 * 1024
MOST_ENTRIES = 50_000

# One character more than an address may have, so that one that was cut off is refused and not another page's.
_LONGEST_VALUE = 8193
_LONGEST_DATE = 40
_LONGEST_TOKEN = 1024 * 1024
_DEEPEST = 32
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class SitemapEntry:
    """One address of a sitemap, and when it says that the page last changed, in its own words."""

    url: str
    lastmod: str | None = None


class _Malformed(Exception):
    """Why a file is no sitemap."""


class SitemapFile:
    """One sitemap; `is_index` tells whether its entries are sitemaps. Raises Unreadable bad_sitemap."""

    def __init__(self, where: str) -> None:
        self.is_index = False
        self.over_limit = 0
        self._where = where
        self._gunzip: Gunzip | None = None
        self._content: _Xml | _Lines | None = None
        self._taken = self._size = self._listed = 0

    def feed(self, chunk: bytes) -> list[SitemapEntry]:
        """What `chunk` completes. The first one must hold the first two bytes."""
        with self._told():
            return self._within_limit(self._fed(chunk))

    def end(self) -> list[SitemapEntry]:
        """What was left when the last chunk had come."""
        with self._told():
            if self._gunzip is not None and not self._gunzip.whole:
                raise _Malformed("its gzip stream is cut off")
            if self._content is None:
                raise _Malformed("it is empty")
            return self._within_limit(self._content.end())

    def _fed(self, chunk: bytes) -> list[SitemapEntry]:
        if self._taken == 0 and chunk.startswith(MAGIC):
            self._gunzip = Gunzip()
        self._taken += len(chunk)
        pieces = self._gunzip.feed(chunk) if self._gunzip is not None else (chunk,)
        return [entry for piece in pieces for entry in self._parsed(piece)]

    def _parsed(self, piece: bytes) -> list[SitemapEntry]:
        self._size += len(piece)
        if self._size > LONGEST_FILE:
            raise _Malformed(f"it is longer than {LONGEST_FILE:,} bytes")
        if self._content is None:
            # Blank lines before the first tag are against the rules of XML, and common.
            piece = piece.removeprefix(codecs.BOM_UTF8).lstrip()
            if not piece:
                return []
            self._content = _Xml() if piece.startswith((b"<", *_WIDE_MARKS)) else _Lines()
        found = self._content.feed(piece)
        self.is_index = self._content.is_index
        return found

    def _within_limit(self, found: list[SitemapEntry]) -> list[SitemapEntry]:
        room = max(0, MOST_ENTRIES - self._listed)
        self._listed += len(found)
        self.over_limit += len(found[room:])
        return found[:room]

    @contextlib.contextmanager
    def _told(self) -> Generator[None]:
        try:
            yield
        except (_Malformed, zlib.error, expat.ExpatError) as error:
            told = f"The sitemap {self._where} can't be read: {error}."
            raise Unreadable(told, code="bad_sitemap") from error


class _Lines:
    """A plain text sitemap: an address a line, in UTF-8."""

    is_index = False

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[SitemapEntry]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LONGEST_TOKEN or b"\0" in piece:
            raise _Malformed("it is neither XML nor a list of addresses")
        return self._entries(lines)

    def end(self) -> list[SitemapEntry]:
        return self._entries([self._rest])

    def _entries(self, lines: list[bytes]) -> list[SitemapEntry]:
        urls = (line.decode("utf-8", "replace").strip() for line in lines)
        return [SitemapEntry(url) for url in urls if url]


class _Xml:
    """A sitemap or an index of them; what is of another namespace, as images are, is passed over."""

    def __init__(self) -> None:
        self.is_index = False
        self._namespace = ""
        self._path: list[str] = []
        self._values: dict[str, str] = {}
        self._found: list[SitemapEntry] = []
        self._fed = 0
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text

    def feed(self, piece: bytes) -> list[SitemapEntry]:
        self._fed += len(piece)
        self._parser.Parse(piece, False)
        if self._fed - self._parser.CurrentByteIndex > _LONGEST_TOKEN:
            raise _Malformed(f"it has a tag of more than {_LONGEST_TOKEN:,} bytes")
        return self._taken()

    def end(self) -> list[SitemapEntry]:
        self._parser.Parse(b"", True)
        return self._taken()

    def _taken(self) -> list[SitemapEntry]:
        found, self._found = self._found, []
        return found

    def _doctype(self, *_: object) -> NoReturn:
        raise _Malformed("it has a document type, as no sitemap does")

    def _start(self, tag: str, _: object) -> None:
        if not self._path:
            self._namespace, _, root = tag.rpartition(" ")
            if root not in ("urlset", "sitemapindex"):
                raise _Malformed(f"its first tag is <{root[:40]}>, not <urlset> or <sitemapindex>")
            self.is_index = root == "sitemapindex"
        namespace, _, name = tag.rpartition(" ")
        self._path.append(name if namespace == self._namespace else tag)
        if len(self._path) > _DEEPEST:
            raise _Malformed(f"its tags are more than {_DEEPEST} deep")
        if len(self._path) == 2:
            self._values = {}

    def _end(self, _: str) -> None:
        closed = self._path.pop()
        if len(self._path) == 1 and closed == ("sitemap" if self.is_index else "url"):
            url = self._values.get("loc", "").strip()
            lastmod = self._values.get("lastmod", "").strip()[:_LONGEST_DATE]
            if url:
                self._found.append(SitemapEntry(url, lastmod or None))

    def _text(self, text: str) -> None:
        if len(self._path) == 3 and self._path[2] in ("loc", "lastmod"):
            said = self._values.get(self._path[2], "")
            self._values[self._path[2]] = said + text[: _LONGEST_VALUE - len(said)]
