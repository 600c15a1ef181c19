"""fetch: one response of a web server, streamed and limited, with errors translated to ours.

    2xx                          accepted
    404 410                      SourceGone  source_gone
    401 403                      Unreadable  forbidden_by_source
    429 503                      Transient   source_busy, with Retry-After
    408 425, any other 5xx       Transient   source_unavailable
    any other                    Unreadable  refused_by_source
    no such host                 Transient   host_unknown, given up early, by `net`
    no connection                Transient   source_unreachable
    no response in time          Transient   source_timeout
    longer than the limit        Permanent   document_too_large
    a private address            Permanent   private_address, by `net`

It requests and accepts only gzip, and decompresses it here: httpx would decompress everything, nested as often as the
server likes, before anything can be counted. Messages show addresses without their query, which may contain a key.
"""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx

from gristmill import net
from gristmill.errors import Permanent, SourceGone, Transient, Unreadable
from gristmill.sources.gunzip import Gunzip

_CHUNK = 64 * 1024
UNKNOWN_HOST_ATTEMPTS = 6


@asynccontextmanager
async def open_response(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    timeout: timedelta,
    headers: Mapping[str, str] | None = None,
    follow_redirects: bool | None = None,
) -> AsyncGenerator[httpx.Response]:
    """Send one request and yield its response, of any status; the block that reads the body counts against `timeout`. Whether redirects
    are followed is the client's choice, unless it is given."""
    headers = {"Accept-Encoding": "gzip", **(headers or {})}
    follows = httpx.USE_CLIENT_DEFAULT if follow_redirects is None else follow_redirects
    try:
        # The timeouts of httpx limit each read; a server that sends a byte at a time would never reach them.
        async with (
            asyncio.timeout(timeout.total_seconds()),
            client.stream(method, url, headers=headers, follow_redirects=follows) as response,
        ):
            yield response
    except net.UnknownHost as error:
        raise _give_up_early(error) from error
    except (TimeoutError, httpx.TimeoutException) as error:
        message = f"{display_url(url)} did not respond within {timeout.total_seconds():g} seconds."
        raise Transient(message, code="source_timeout") from error
    except httpx.TooManyRedirects as error:
        raise Unreadable(f"{display_url(url)} redirects in circles.", code="too_many_redirects") from error
    except httpx.UnsupportedProtocol as error:
        message = f"{display_url(url)} redirects to an address that is neither http nor https."
        raise Unreadable(message, code="refused_by_source") from error
    except httpx.HTTPError as error:
        requested = error.request.url  # of the last redirect
        if (failure := net.lookup_failure(error)) is not None:
            raise _give_up_early(net.resolution_error(requested.host, failure)) from error
        message = f"{display_url(str(requested))} can't be reached: {str(error) or type(error).__name__}."
        raise Transient(message, code="source_unreachable") from error


def _give_up_early(error: Transient) -> Transient:
    """A host that does not exist is most often a typing error: its document fails after about a minute."""
    limit = UNKNOWN_HOST_ATTEMPTS if isinstance(error, net.UnknownHost) else None
    return Transient(error.message, code=error.code, max_attempts=limit)


def expect_success(response: httpx.Response) -> None:
    """Raise the error of any status that is not 2xx."""
    status, where = response.status_code, display_url(str(response.url))
    match status:
        case _ if response.is_success:
            return
        case 404 | 410:
            raise SourceGone(f"{where} does not exist (status {status}).")
        case 401 | 403:
            message = f"{where} needs a login, or forbids access (status {status})."
            raise Unreadable(message, code="forbidden_by_source")
        case 429 | 503:
            message = f"{where} is busy (status {status}); it is tried again later."
            wait = net.retry_after(response.headers) or None  # some say 0, which is no wait
            raise Transient(message, code="source_busy", retry_after=wait, is_crowded=True)
        case _ if status in (408, 425) or status >= 500:
            raise Transient(f"{where} responded with status {status}.", code="source_unavailable")
        case _:
            raise Unreadable(f"{where} responded with status {status}.", code="refused_by_source")


async def read_body(response: httpx.Response, limit: int) -> AsyncGenerator[bytes]:
    """The decompressed body; Permanent once it is longer than `limit` bytes."""
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip"):
        message = f"{display_url(str(response.url))} is encoded as {coding[:40]!r}, which was not requested."
        raise Unreadable(message, code="unknown_content_encoding")
    size = 0
    pieces = _gunzip_body(response) if coding.endswith("gzip") else response.aiter_raw(_CHUNK)
    async for piece in pieces:
        size += len(piece)
        if size > limit:
            message = f"{display_url(str(response.url))} is larger than the limit of {limit:,} bytes."
            raise Permanent(message, code="document_too_large")
        yield piece


async def _gunzip_body(response: httpx.Response) -> AsyncGenerator[bytes]:
    gunzip = Gunzip()
    empty = True
    try:
        async for raw in response.aiter_raw(_CHUNK):
            empty = False
            for piece in gunzip.feed(raw):
                yield piece
                await asyncio.sleep(0)  # one chunk of a bomb is a thousand pieces: let other tasks run
    except zlib.error as error:
        raise _damage_error(response) from error
    if not empty and not gunzip.is_complete:
        raise _damage_error(response)


def _damage_error(response: httpx.Response) -> Transient:
    message = f"{display_url(str(response.url))} arrived damaged: its gzip stream is broken."
    return Transient(message, code="source_unavailable")


def display_url(url: str) -> str:
    """An address to show in messages: without query, fragment and user info."""
    parsed = httpx.URL(url)
    path = parsed.raw_path.decode("ascii").partition("?")[0]
    return f"{parsed.scheme}://{parsed.netloc.decode('ascii')}{path}"
