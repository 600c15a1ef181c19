"""A page or file on the web, fetched when it is indexed.

    probe   HEAD; where it is refused (403, 405, 501), a GET of one byte whose body is not read
    read    GET of at most `limit` bytes; redirects are followed, each through the guard of `net`; with the `validators`
            of the last reading, the server may respond that nothing has changed (304)

Only http and https, and no user name in the address: it would be stored, shown and logged. The character set is that of
the byte order mark, else of the header, else of the page itself, as in browsers.
"""

import codecs
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from email.message import Message
from pathlib import PurePosixPath
from urllib.parse import unquote

import httpx

from gristmill import net
from gristmill.errors import Permanent
from gristmill.sources import fetch
from gristmill.sources.source import Original
from gristmill.validation import is_printable

_PORTS = {"http": 80, "https": 443}
_REFUSES_HEAD = (403, 405, 501)
# Long enough for 64 MiB over a slow line; short enough that a slow server does not block a worker.
_TIMEOUT = timedelta(minutes=2)
_MAX_URL_LENGTH = 8192
_CONDITIONAL_HEADERS = {"etag": "If-None-Match", "last_modified": "If-Modified-Since"}
_MAX_NAME_LENGTH = 255
# Where browsers look for <meta charset>.
_META_BYTES = 1024
_META_CHARSET = re.compile(
    rb"""<meta[^>]{0,512}?charset\s{0,8}=\s{0,8}["']?\s{0,8}([\w.:-]{1,40})""", re.IGNORECASE
)
_HOST = re.compile(r"[a-z0-9._:-]+")
_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Pages that name a smaller set mean the larger one: https://encoding.spec.whatwg.org
_WHATWG_ALIASES = {
    "ascii": "windows-1252",
    "iso8859-1": "windows-1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}


def normalise(url: str) -> str:
    """The normal form of an address, equal for all addresses of one page; Permanent for an invalid one.

    Scheme and host in lower case, no default port, `/` for an empty path, dots in paths resolved, no fragment; the
    query stays.
    """
    try:
        parsed = httpx.URL(url.strip()) if len(url) <= _MAX_URL_LENGTH else None
    except (httpx.InvalidURL, ValueError):  # ValueError: a lone surrogate, which UTF-8 can't encode
        parsed = None
    if parsed is None or parsed.scheme not in _PORTS or not _has_valid_host(parsed):
        raise Permanent(f"{url[:200]!a} is not an http or https address.", code="invalid_url")
    if parsed.userinfo:
        message = (
            f"The address of {parsed.host} contains a user name. Remove it: sources are fetched without one."
        )
        raise Permanent(message, code="url_with_credentials")
    return f"{parsed.scheme}://{_netloc(parsed)}{parsed.raw_path.decode('ascii')}"


def _has_valid_host(url: httpx.URL) -> bool:
    host = url.raw_host.decode("ascii")
    return _HOST.fullmatch(host) is not None and (url.port is None or 0 < url.port <= 65_535)


def _netloc(url: httpx.URL) -> str:
    # httpx also drops a default port, but not after a scheme in capitals.
    host = url.raw_host.decode("ascii")
    host = f"[{host}]" if ":" in host else host
    return host if url.port in (None, _PORTS[url.scheme]) else f"{host}:{url.port}"


@dataclass(frozen=True)
class UrlSource:
    """The resource at `url`, if it has at most `limit` bytes; `private` allows private networks. `wait_turn` waits until the
    next request to its host may be sent."""

    url: str
    limit: int
    private: bool
    timeout: timedelta = _TIMEOUT
    validators: Mapping[str, str] = field(
        default_factory=dict[str, str]
    )  # `metadata` of what was read the last time
    wait_turn: Callable[[str], Awaitable[None]] | None = None

    async def probe(self) -> int:
        """Its size, or 0 when the server doesn't report it."""
        url = normalise(self.url)
        async with net.client(allow_private=self.private) as client:
            # Not compressed, so that the reported length is that of the content.
            headers = {"Accept-Encoding": "identity"}
            async with fetch.open_response(
                client, "HEAD", url, timeout=self.timeout, headers=headers
            ) as head:
                if head.status_code not in _REFUSES_HEAD:
                    return self._size(head)
            headers["Range"] = "bytes=0-0"
            async with fetch.open_response(
                client, "GET", url, timeout=self.timeout, headers=headers
            ) as first:
                return 0 if first.status_code == 416 else self._size(first)

    async def read(self) -> Original:
        """Its bytes, with what the server declares about them."""
        url = normalise(self.url)
        data = bytearray()
        conditions = conditional_headers(self.validators)
        if self.wait_turn is not None:
            await self.wait_turn(url)
        async with (
            net.client(allow_private=self.private) as client,
            fetch.open_response(client, "GET", url, timeout=self.timeout, headers=conditions) as response,
        ):
            if conditions and response.status_code == 304:
                return Original(b"", _file_name(Message(), response.url), unchanged=True)
            fetch.expect_success(response)
            peer = net.peer_address(response)
            async for block in fetch.read_body(response, self.limit):
                data += block
        return original_from(response, bytes(data), peer)

    def _size(self, response: httpx.Response) -> int:
        fetch.expect_success(response)
        size = _content_length(response)
        if size > self.limit:
            message = (
                f"{fetch.display_url(self.url)} has {size:,} bytes, more than the limit of {self.limit:,}."
            )
            raise Permanent(message, code="document_too_large")
        return size


def _content_length(response: httpx.Response) -> int:
    declared = response.headers.get("content-length", "")
    if response.status_code == 206:  # the total is after the slash
        declared = response.headers.get("content-range", "").rpartition("/")[2]
    return int(declared) if declared.isdecimal() and len(declared) < 19 else 0


def conditional_headers(validators: Mapping[str, str]) -> dict[str, str]:
    """The headers that let a server answer that nothing has changed."""
    return {
        _CONDITIONAL_HEADERS[name]: value
        for name, value in validators.items()
        if name in _CONDITIONAL_HEADERS
    }


def original_from(response: httpx.Response, data: bytes, peer: str | None = None) -> Original:
    """The bytes of a response, with what the server declares about them."""
    headers = Message()
    for name in ("content-type", "content-disposition"):
        if name in response.headers:
            headers[name] = response.headers[name]
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    validators = {"etag": "etag", "last-modified": "last_modified"}
    return Original(
        data,
        _file_name(headers, response.url),
        media_type if "/" in media_type else None,
        charset(data, headers.get_content_charset()),
        normalise(str(response.url.copy_with(userinfo=b""))),
        {name: response.headers[header] for header, name in validators.items() if header in response.headers},
        peer=peer,
    )


def _file_name(headers: Message, url: httpx.URL) -> str:
    """The file name that the server declares, else the last part of the path, else the host."""
    path = headers.get_filename() or unquote(url.path)
    name = PurePosixPath(path.replace("\\", "/")).name
    printable = "".join(letter for letter in name if is_printable(letter)).strip()
    return printable[:_MAX_NAME_LENGTH] or url.host


def charset(data: bytes, header: str | None) -> str | None:
    """The character set of a text by its bytes and its header, as a Python codec; None when nothing declares it."""
    for bom, encoding in _BOMS.items():
        if data.startswith(bom):
            return encoding
    meta = _META_CHARSET.search(data[:_META_BYTES])
    if header is not None and (codec := _codec(header)) is not None:
        return codec
    codec = _codec(meta[1].decode("ascii", "replace")) if meta else None
    # A tag that is readable as ASCII is not in UTF-16, whatever it declares.
    return "utf-8" if codec is not None and codec.startswith("utf-16") else codec


def _codec(label: str) -> str | None:
    try:
        codec = codecs.lookup(label.strip(" \"'"))
        b"x".decode(
            codec.name, "replace"
        )  # refuses base64 and the like, which are codecs but no character sets
    except (LookupError, ValueError):
        return None
    return _WHATWG_ALIASES.get(codec.name, codec.name)
