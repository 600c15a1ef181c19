"""Fetch one address of a web site for a crawl.

304 to a conditional request        unchanged
3xx with a Location                 a redirect: the crawl decides whether it goes there. One to the same address but for a session id, or
                                    the order of its parameters, is followed here
2xx of a page or document           its bytes, and for a page what it says to crawlers
2xx of anything else                no document: its body is not read
any other                           raises, as `fetch` does
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Literal
from urllib.parse import urljoin

import httpx

from gristmill import net
from gristmill.errors import Unreadable
from gristmill.sources import fetch, threads
from gristmill.sources.page import PAGE_TYPES
from gristmill.sources.site_links import PageDirectives, header_directives, page_directives
from gristmill.sources.site_rules import crawl_address
from gristmill.sources.source import Original
from gristmill.sources.url import conditional_headers, normalise, original_from

_TIMEOUT = timedelta(minutes=1)
_MAX_OWN_REDIRECTS = 3  # to other spellings of the same address
_DOCUMENT_TYPES = frozenset(
    {
        "text/plain",
        "text/markdown",
        "text/csv",
        "text/rtf",
        "application/pdf",
        "application/rtf",
        "application/msword",
        "application/epub+zip",
        "application/vnd.ms-excel",
        "application/vnd.ms-powerpoint",
    }
)
_DOCUMENT_PREFIXES = (
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
)


@dataclass(frozen=True)
class FetchedAddress:
    """What is at an address."""

    kind: Literal["unchanged", "redirect", "document", "other"]
    location: str | None = None  # of a redirect, in its normal form; None for what is no web address
    original: Original | None = None
    directives: PageDirectives = field(default_factory=PageDirectives)
    headers: Mapping[str, str] = field(default_factory=dict[str, str])  # of a page, with lower-case names


async def fetch_address(
    client: httpx.AsyncClient, url: str, validators: Mapping[str, str], limit: int
) -> FetchedAddress:
    """Fetch an address by a client that follows no redirects."""
    requested = url
    for _ in range(_MAX_OWN_REDIRECTS + 1):
        response, data = await _request(client, requested, validators, limit)
        if response.status_code == 304:  # an unconditional request never gets here with it
            return FetchedAddress("unchanged")
        if not response.has_redirect_location:
            break
        location = response.headers["location"]
        address = crawl_address(location, requested)
        if address != url:
            return FetchedAddress("redirect", location=address)
        requested = normalise(urljoin(requested, location.strip()))
    else:
        raise Unreadable(f"{fetch.display_url(url)} redirects in circles.", code="too_many_redirects")
    if data is None:
        return FetchedAddress("other")
    return await _read_document(response, *data, url)


async def _request(
    client: httpx.AsyncClient, url: str, validators: Mapping[str, str], limit: int
) -> tuple[httpx.Response, tuple[bytes, str | None] | None]:
    """A response, with the bytes of a document and the address of the peer that sent them."""
    conditions = conditional_headers(validators)
    data = bytearray()
    async with fetch.open_response(client, "GET", url, timeout=_TIMEOUT, headers=conditions) as response:
        if (conditions and response.status_code == 304) or response.has_redirect_location:
            return response, None
        fetch.expect_success(response)
        if not _is_document(response):
            return response, None
        peer = net.peer_address(response)
        async for block in fetch.read_body(response, limit):
            data += block
    return response, (bytes(data), peer)


async def _read_document(response: httpx.Response, data: bytes, peer: str | None, url: str) -> FetchedAddress:
    original = original_from(response, data, peer)
    headers = {name.lower(): value for name, value in response.headers.items()}
    if original.media_type not in PAGE_TYPES:
        words = header_directives(headers)
        directives = PageDirectives(must_not_index=bool(words & {"noindex", "none"}))
        return FetchedAddress("document", original=original, directives=directives)
    return await as_page(original, url, headers)


async def as_page(original: Original, url: str, headers: Mapping[str, str]) -> FetchedAddress:
    """The page at an address, with what it says to crawlers."""
    work = partial(page_directives, original.data, original.charset, url, headers)
    directives = await threads.run_blocking(work)
    return FetchedAddress("document", original=original, directives=directives, headers=headers)


def _is_document(response: httpx.Response) -> bool:
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return (
        media_type in PAGE_TYPES or media_type in _DOCUMENT_TYPES or media_type.startswith(_DOCUMENT_PREFIXES)
    )
