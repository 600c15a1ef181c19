"""Reject requests with a foreign `Host` or `Origin`, and bodies that are too large.

A server on loopback needs no key, so pages of other sites must not be able to send requests through the user's browser. A
foreign `Host` (DNS rebinding) and a foreign `Origin` are both rejected. Responses instruct browsers not to guess media types,
not to embed pages in frames and not to cache.
"""

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gristmill.server.api.problems import problem

# Defaults: a route may set its own values.
_SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}


_FOREIGN_HOST = (
    "This server does not accept the host name of the request. Use the address that `gristmill serve` printed, "
    "or ask the operator to add the name to allowed_hosts."
)
_FOREIGN_ORIGIN = (
    "Requests from pages of other sites are rejected. Use the web UI of this server, or an API key."
)


class HostGuard:
    """Middleware that rejects foreign hosts, foreign origins and oversized bodies."""

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str] | None, max_body: int, max_upload: int) -> None:
        self._app, self._max_body, self._max_upload = app, max_body, max_upload
        self._hosts = None if hosts is None else frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with a problem document."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_security_headers(send)
        headers = Headers(scope=scope)
        if not self._is_allowed_host(headers.get("host", "")):
            await problem(403, "foreign_host", _FOREIGN_HOST)(scope, receive, send)
            return
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            await problem(403, "foreign_origin", _FOREIGN_ORIGIN)(scope, receive, send)
            return
        limit = self._max_upload if scope["path"].endswith("/files") else self._max_body
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > limit:
            # Read the body first: a client that is still sending would see a broken pipe instead of the response.
            await _drain(receive, min(int(length), 8 * self._max_body))
            await problem(413, "request_too_large", _too_large_message(limit))(scope, receive, send)
            return
        await self._app(scope, _with_size_limit(receive, limit), send)

    def _is_allowed_host(self, host: str) -> bool:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        if self._hosts is None or name in self._hosts:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def _with_security_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


def _with_size_limit(receive: Receive, limit: int) -> Receive:
    received = 0

    async def receive_within_limit() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise HTTPException(413, _too_large_message(limit))
        return message

    return receive_within_limit


async def _drain(receive: Receive, remaining: int) -> None:
    while remaining > 0:
        message = await receive()
        remaining -= len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


def _too_large_message(limit: int) -> str:
    return (
        f"The body is larger than {limit // 2**20} MiB. Send less in one request, or ask the operator to raise "
        "max_request_mb or max_upload_mb."
    )
