"""Answer the requests of a page that is being rendered, so that Chromium needs no network.

    the page itself                       its bytes, which were fetched before: it is not fetched a second time
    another page in its place             not followed: the caller decides about redirects by script
    a page in a frame                     refused: text in frames belongs to other pages
    a style sheet                         empty: scripts often wait for it
    scripts, data (XHR, fetch)            fetched, within the limits, by the guarded client of `net`
    images, fonts, media, anything else   refused

A page at a public address gets nothing from private networks, even if those may be read. A redirect is handed to Chromium, which
then sends the next request here. Cookies are neither sent nor kept. In crawls, the robots.txt of the page's own site is obeyed.
"""

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

from gristmill import net
from gristmill.errors import GristmillError
from gristmill.sources import fetch
from gristmill.sources.source import Original

MAX_REQUESTS = 200
MAX_TOTAL_BYTES = 32 << 20
_TOGETHER = 8  # at the same time, of one page
_MAX_BODY = 1 << 20  # of a request
_FETCHED_TYPES = frozenset({"Script", "XHR", "Fetch", "Preflight"})
_METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS"})
_DROPPED_REQUEST_HEADERS = frozenset(
    {
        "host",
        "user-agent",
        "accept-encoding",
        "connection",
        "content-length",
        "cookie",
        "upgrade-insecure-requests",
    }
)
_DROPPED_RESPONSE_HEADERS = frozenset(
    {"connection", "content-encoding", "content-length", "set-cookie", "transfer-encoding", "refresh"}
)
Allows = Callable[[str], bool]


@dataclass(frozen=True)
class PausedRequest:
    """A request that Chromium waits to be answered."""

    id: str
    url: str
    method: str
    type: str
    is_main_frame: bool
    headers: Mapping[str, str]
    body: bytes | None

    @classmethod
    def of(cls, event: Mapping[str, Any], main_frame: str) -> "PausedRequest":
        """The request of an event `Fetch.requestPaused`."""
        request = event["request"]
        entries = request.get("postDataEntries", [])
        body = b"".join(base64.b64decode(entry.get("bytes", "")) for entry in entries)
        if not body and "postData" in request:
            body = str(request["postData"]).encode()
        return cls(
            event["requestId"],
            request["url"],
            request["method"],
            event["resourceType"],
            event.get("frameId") == main_frame,
            request["headers"],
            body or None,
        )


@dataclass(frozen=True)
class PageAnswer:
    """What Chromium gets for a request: a response, or the reason why there is none."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    refused: Literal["", "BlockedByClient", "Aborted", "ConnectionFailed"] = ""

    def to_call(self, request_id: str) -> tuple[str, dict[str, Any]]:
        """The method and parameters of the answer."""
        if self.refused:
            return "Fetch.failRequest", {"requestId": request_id, "errorReason": self.refused}
        return "Fetch.fulfillRequest", {
            "requestId": request_id,
            "responseCode": self.status,
            "responseHeaders": [{"name": name, "value": value} for name, value in self.headers],
            "body": base64.b64encode(self.body).decode(),
        }


@dataclass
class PageRequests:
    """Answers the requests of one page. `client` follows no redirects."""

    url: str
    page: bytes  # in UTF-8
    client: httpx.AsyncClient
    allows: Allows = lambda _: True
    seconds: float = 10.0  # that one request may take
    location: str | None = None  # where the page's scripts want to go
    count: int = 0
    bytes_left: int = MAX_TOTAL_BYTES
    is_served: bool = False
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_TOGETHER))

    async def answer(self, request: PausedRequest) -> PageAnswer:
        """What to answer."""
        if request.type == "Document":
            return self._document(request)
        if request.type == "Stylesheet":
            return PageAnswer(headers=(("Content-Type", "text/css"), ("Access-Control-Allow-Origin", "*")))
        if request.type not in _FETCHED_TYPES or not self._is_allowed(request):
            return PageAnswer(refused="BlockedByClient")
        self.count += 1
        try:
            async with self.gate, asyncio.timeout(self.seconds):
                return await self._fetch(request)
        except (GristmillError, httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError):
            return PageAnswer(refused="ConnectionFailed")

    def _document(self, request: PausedRequest) -> PageAnswer:
        if not request.is_main_frame:
            return PageAnswer(refused="BlockedByClient")
        is_same = request.url.partition("#")[0] == self.url
        if is_same and not self.is_served and request.method == "GET":
            self.is_served = True
            return PageAnswer(headers=(("Content-Type", "text/html; charset=utf-8"),), body=self.page)
        if not is_same and request.method == "GET" and urlsplit(request.url).scheme in ("http", "https"):
            self.location = self.location or request.url
        return PageAnswer(refused="Aborted")

    def _is_allowed(self, request: PausedRequest) -> bool:
        parts = urlsplit(request.url)
        is_own = parts.netloc == urlsplit(self.url).netloc
        return (
            parts.scheme in ("http", "https")
            and request.method in _METHODS
            and len(request.body or b"") <= _MAX_BODY
            and self.count < MAX_REQUESTS
            and self.bytes_left > 0
            and (not is_own or self.allows(request.url))
        )

    async def _fetch(self, request: PausedRequest) -> PageAnswer:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _DROPPED_REQUEST_HEADERS
            and not name.lower().startswith(("sec-", "proxy-", ":"))
        }
        body = bytearray()
        async with self.client.stream(
            request.method, request.url, headers={**headers, "Accept-Encoding": "gzip"}, content=request.body
        ) as response:
            if request.method != "HEAD" and not response.is_redirect:
                async for block in fetch.read_body(response, self.bytes_left):
                    body += block
                    self.bytes_left -= len(block)
        return PageAnswer(response.status_code, tuple(_response_headers(response)), bytes(body))


def _response_headers(response: httpx.Response) -> list[tuple[str, str]]:
    return [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in _DROPPED_RESPONSE_HEADERS
    ]


def may_use_private(original: Original, *, allow_private: bool) -> bool:
    """Whether what a page requests may come from private networks: if they may be read, and the page itself came from one. The
    address that it did come from counts: a second look-up of its name could give another one."""
    return allow_private and original.peer is not None and not net.is_public(original.peer)
