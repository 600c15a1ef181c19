"""All outgoing HTTP: time-outs, size limits and a guard against private addresses.

A URL from a user must not give access to the server's internal network. With `allow_private=False`, the host is resolved
here and refused unless all its addresses are public, and the connection goes to the address that was checked, so that a
different answer of a second DNS lookup has no effect. Redirects go through the same transport and the same check.
"""

import asyncio
import functools
import ipaddress
import socket
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx

from gristmill import __version__
from gristmill.errors import Permanent, Transient
from gristmill.telemetry import traces

USER_AGENT = f"gristmill/{__version__}"
_CHUNK = 64 * 1024
# A longer Retry-After is capped.
_MAX_RETRY_AFTER = timedelta(days=1)


class PrivateAddress(Permanent):
    """The address belongs to a private network and may not be fetched from."""

    code = "private_address"


def client(*, allow_private: bool, timeout: timedelta = timedelta(seconds=30)) -> httpx.AsyncClient:
    """An HTTP client; `allow_private` permits addresses of private networks."""
    plain = httpx.AsyncHTTPTransport(verify=_ssl_context(), retries=0)
    transport = plain if allow_private else _PublicOnlyTransport(plain)
    return httpx.AsyncClient(
        transport=_TracingTransport(transport) if traces.is_enabled() else transport,
        timeout=httpx.Timeout(timeout.total_seconds(), connect=min(10.0, timeout.total_seconds())),
        follow_redirects=True,
        max_redirects=10,
        headers={"User-Agent": USER_AGENT},
        trust_env=allow_private,
    )


async def read_limited(response: httpx.Response, limit: int) -> bytes:
    """The body of a streamed response, or Permanent once it is longer than `limit` bytes."""
    body = bytearray()
    async for chunk in response.aiter_bytes(_CHUNK):
        body += chunk
        if len(body) > limit:
            raise Permanent(f"The response is larger than {limit:,} bytes.", code="response_too_large")
    return bytes(body)


def retry_after(headers: httpx.Headers) -> timedelta | None:
    """The wait that a Retry-After header asks for, in seconds or as a date; a date is compared with the server's
    clock."""
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    try:
        if value.isdecimal():
            wait = timedelta(seconds=min(int(value), _MAX_RETRY_AFTER.total_seconds()))
        else:
            now = parsedate_to_datetime(headers["Date"]) if "Date" in headers else datetime.now(UTC)
            wait = parsedate_to_datetime(value) - now
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(wait, timedelta(0)), _MAX_RETRY_AFTER)


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    """Created once: loading the certificates blocks the event loop for 20 ms."""
    return httpx.create_ssl_context()


class _TracingTransport(httpx.AsyncBaseTransport):
    """Traces each request by method and host; the path and query may contain secrets."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        method, host = request.method, request.url.host
        attributes = {"http.request.method": method, "server.address": host}
        with traces.span(f"{method} {host}", attributes, kind="client") as set_attributes:
            response = await self._inner.handle_async_request(request)
            set_attributes({"http.response.status_code": response.status_code})
            return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _PublicOnlyTransport(httpx.AsyncBaseTransport):
    """Resolves the host, checks its addresses, and connects to a checked one."""

    def __init__(self, inner: httpx.AsyncHTTPTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        address = await _public_address(
            host, request.url.port or (443 if request.url.scheme == "https" else 80)
        )
        # A copy, because the client resolves relative redirects against the original request, by host name.
        checked = httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )
        return await self._inner.handle_async_request(checked)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _public_address(host: str, port: int) -> str:
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Transient(
            f"{host} can't be resolved: {error.strerror or error}", code="host_unknown"
        ) from error
    addresses = [str(entry[4][0]) for entry in entries]
    for address in addresses:
        if not ipaddress.ip_address(address.partition("%")[0]).is_global:
            raise PrivateAddress(f"{host} resolves to {address}, an address of a private network.")
    return addresses[0]
