"""All outgoing HTTP: time-outs, size limits and a guard against private addresses.

A URL from a user must not give access to the server's internal network. With `allow_private=False`, the host is resolved
here and refused unless all its addresses are public, and the connection goes to the address that was checked, so that a
different answer of a second DNS lookup has no effect. Redirects go through the same transport and the same check.
"""

import asyncio
import contextlib
import functools
import ipaddress
import socket
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from gristmill import __version__, secret_references
from gristmill.errors import Permanent, Transient
from gristmill.telemetry import traces

_NO_SUCH_HOST = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
USER_AGENT = f"gristmill/{__version__}"
_CHUNK = 64 * 1024
_RESOLVE_TIMEOUT = 5.0  # seconds, for a check before anything is sent
# Everything that is not one host on the public internet. IPv6 has one block of public addresses, IPv4 has what is left over.
_PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")
_SPECIAL_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # between a provider and its customers
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local, with the metadata services of clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "2001::/23",  # protocol assignments, with Teredo, which carries an IPv4 address
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which carries an IPv4 address
        "3fff::/20",  # documentation
    )
)
# Both carry an IPv4 address, which is what is connected to: the first within this machine, the second through a translator
# (NAT64), by which networks without IPv4 reach all of it.
_CARRIERS = tuple(ipaddress.ip_network(network) for network in ("::ffff:0:0/96", "64:ff9b::/96"))
# A longer Retry-After is capped.
_MAX_RETRY_AFTER = timedelta(days=1)


class PrivateAddress(Permanent):
    """The address belongs to a private network and may not be fetched from."""

    code = "private_address"


class UnknownHost(Transient):
    """The DNS has no such name: most often a typing error, but it may be new."""

    code = "host_unknown"


def client(
    *, allow_private: bool, timeout: timedelta = timedelta(seconds=30), with_references: bool = False
) -> httpx.AsyncClient:
    """An HTTP client; `allow_private` permits addresses of private networks. With `with_references`, keys in its headers may be
    references to secrets, which are read when a request is sent."""
    plain = httpx.AsyncHTTPTransport(verify=_ssl_context(), retries=0)
    transport = plain if allow_private else _PublicOnlyTransport(plain)
    return httpx.AsyncClient(
        transport=_TracingTransport(transport) if traces.is_enabled() else transport,
        timeout=httpx.Timeout(timeout.total_seconds(), connect=min(10.0, timeout.total_seconds())),
        follow_redirects=True,
        max_redirects=10,
        headers={"User-Agent": USER_AGENT},
        trust_env=allow_private,
        event_hooks={"request": [_resolve_references]} if with_references else {},
    )


async def _resolve_references(request: httpx.Request) -> None:
    for name in ("Authorization", "X-Api-Key"):
        scheme, space, value = request.headers.get(name, "").rpartition(" ")
        if secret_references.is_reference(value):
            request.headers[name] = f"{scheme}{space}{await secret_references.resolve(value)}"


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
        if value.replace(".", "", 1).isdecimal():
            wait = timedelta(seconds=min(float(value), _MAX_RETRY_AFTER.total_seconds()))
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


def is_public(address: str) -> bool:
    """Whether an address is one host on the public internet."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if any(parsed in carrier for carrier in _CARRIERS):
            parsed = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        elif parsed not in _PUBLIC_IPV6:
            return False
    return not any(parsed in network for network in _SPECIAL_NETWORKS)


async def check_public(url: str) -> None:
    """Raise PrivateAddress if the host of a URL has an address that is not public. A host that can't be resolved now is
    accepted: it is checked again whenever something is sent to it."""
    parsed = httpx.URL(url)
    with contextlib.suppress(Transient, TimeoutError):
        async with asyncio.timeout(_RESOLVE_TIMEOUT):
            await _public_address(parsed.host, parsed.port or 443)


async def address_of(host: str, port: int, *, allow_private: bool) -> str:
    """An address of a host to connect to, for what is not HTTP; PrivateAddress unless all of its addresses are allowed."""
    if not allow_private:
        return await _public_address(host, port)
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise resolution_error(host, error) from error
    return str(entries[0][4][0])


def peer_address(response: httpx.Response) -> str | None:
    """The address that a response comes from, while it is open."""
    stream: Any = response.extensions.get("network_stream")
    address: Any = None if stream is None else stream.get_extra_info("server_addr")
    return str(address[0]) if address else None


def resolution_error(host: str, error: BaseException) -> Transient:
    """The error for a host whose address could not be found; UnknownHost, if it does not exist."""
    if isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_HOST:
        return UnknownHost(f"There is no host named {host}. Check the spelling of the address.")
    reason = getattr(error, "strerror", None) or type(error).__name__
    return Transient(f"The address of {host} can't be looked up: {reason}.", code="host_unresolved")


def lookup_failure(error: BaseException | None) -> socket.gaierror | None:
    """The failed look-up that caused an error of the HTTP client, if that is its cause."""
    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__ or error.__context__
    return error


async def _public_address(host: str, port: int) -> str:
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise resolution_error(host, error) from error
    addresses = [str(entry[4][0]) for entry in entries]
    for address in addresses:
        if not is_public(address):
            raise PrivateAddress(
                f"{host} has the address {address}, which is not public. Use a public address, or set"
                " `allow_private_addresses` if private networks may be reached."
            )
    return addresses[0]
