"""Reject requests that no route should see: foreign hosts and origins, control characters, bodies that are too large or slow.

    `Host` or `Origin` that is not ours           403 foreign_host, foreign_origin
    a `Host` that is no host                      400 bad_characters
    control characters in path, query, headers    400 bad_characters
    body too large                                413 request_too_large, by its announced length or while it arrives
    body too slow                                 408 request_too_slow

A server on loopback needs no key, so pages of other sites must not be able to send requests through the user's browser. A
foreign `Host` (DNS rebinding) and a foreign `Origin` are both rejected. Responses instruct browsers not to guess media types,
not to embed pages in frames and not to cache.

PostgreSQL stores no NUL, and no path, query or header of ours has a use for another control character. Strings in bodies are
checked where they are parsed (`schemas/common.py`).
"""

import asyncio
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gristmill.server.api.access_rules import find_rule
from gristmill.server.api.caller import host_name
from gristmill.server.api.problems import problem

# Defaults: a route may set its own values.
_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROL_BYTES = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # a tab is allowed in headers
_ENCODED_CONTROL_BYTES = re.compile(rb"[\x00-\x1f\x7f]|%(?:[01][0-9A-Fa-f]|7[Ff])")
_MAX_ACCEPTED_HOSTS = 100
_OPEN_BODY = 64 << 10  # bytes of a body that anyone may send, without a key
_PUSH_BODY = 1 << 20  # the same of a tool that reports a change: it sends what has changed

_FOREIGN_HOST = (
    "This server does not accept the host name of the request. Use the address that `gristmill serve` printed, "
    "or ask the operator to add the name to allowed_hosts."
)
_FOREIGN_ORIGIN = (
    "Requests from pages of other sites are rejected. Use the web UI of this server, or an API key."
)
_BAD_HOST = "The Host header is not a host name or address. Use the address that `gristmill serve` printed."

_UPLOAD_PATHS = ("/files", "/api/knowledge-bases/import")


@dataclass(frozen=True)
class BodyLimits:
    """How large and how slow a body may be. Only the time that we wait for the client counts."""

    json_bytes: int
    upload_bytes: int
    grace_seconds: float = 30
    bytes_per_second: float = 1024  # on average, after the grace period


class HostGuard:
    """Middleware that rejects foreign hosts and origins, control characters, and oversized or slow bodies."""

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str] | None, limits: BodyLimits) -> None:
        self._app, self._limits = app, limits
        self._hosts = None if hosts is None else frozenset(hosts)
        self._accepted_hosts = set[str]()  # values of the Host header that were checked before

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with a problem document."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_security_headers(send)
        headers = Headers(scope=scope)
        if (refusal := self._find_refusal(scope, headers)) is not None:
            await refusal(scope, receive, send)
            return
        if not _has_body(scope):
            await self._app(scope, receive, send)
            return
        limit = self._body_limit(scope, headers)
        length = headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length[:20]) > limit:
            await problem(413, "request_too_large", _too_large_message(limit))(scope, receive, send)
            return
        await self._app(scope, _with_limits(receive, limit, self._limits), send)

    def _find_refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The response, if the request is to be refused."""
        if (place := _place_of_control_characters(scope)) is not None:
            message = f"The {place} contains control characters. Send the request without them."
            return problem(400, "bad_characters", message)
        host = headers.get("host", "")
        if host not in self._accepted_hosts:
            if host and not host_name(host):
                return problem(400, "bad_characters", _BAD_HOST)
            if not self._is_allowed_host(host_name(host)):
                return problem(403, "foreign_host", _FOREIGN_HOST)
            if len(self._accepted_hosts) < _MAX_ACCEPTED_HOSTS:
                self._accepted_hosts.add(host)
        origin = headers.get("origin")
        if origin is not None and _network_location(origin) != host:
            return problem(403, "foreign_origin", _FOREIGN_ORIGIN)
        return None

    def _is_allowed_host(self, name: str) -> bool:
        if self._hosts is None or name in self._hosts:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def _body_limit(self, scope: Scope, headers: Headers) -> int:
        """How many bytes the body may have: many for an upload, few where no key is needed."""
        if scope["path"].endswith(_UPLOAD_PATHS) and headers.get("content-type", "").startswith("multipart/"):
            return self._limits.upload_bytes
        match = find_rule(scope["method"], scope["path"])
        if match is None or match.rule.audience != "anyone":
            return self._limits.json_bytes
        return min(_PUSH_BODY if match.template.endswith("/push") else _OPEN_BODY, self._limits.json_bytes)


def _place_of_control_characters(scope: Scope) -> str | None:
    if _CONTROL_CHARACTERS.search(scope["path"]):
        return "path"
    if _ENCODED_CONTROL_BYTES.search(scope["query_string"]):
        return "query"
    if _CONTROL_BYTES.search(b"".join([value for _, value in scope["headers"]])):
        name = next(name for name, value in scope["headers"] if _CONTROL_BYTES.search(value))
        return f"header {name.decode('latin-1')[:100]}"
    return None


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


def _network_location(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _with_security_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            names = {name.lower() for name, _ in headers}
            message["headers"] = headers + [entry for entry in _SECURITY_HEADERS if entry[0] not in names]
        await send(message)

    return send_with_headers


def _with_limits(receive: Receive, size_limit: int, limits: BodyLimits) -> Receive:
    received, waited, is_complete = 0, 0.0, False

    async def receive_within_limits() -> Message:
        nonlocal received, waited, is_complete
        if is_complete:
            return await receive()  # waits for the client to leave
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(limits.grace_seconds + received / limits.bytes_per_second - waited):
                message = await receive()
        except TimeoutError:
            # What still arrives would look like the next request, so the connection ends here.
            raise HTTPException(408, _TOO_SLOW, headers={"Connection": "close"}) from None
        waited += loop.time() - began
        received += len(message.get("body", b""))
        is_complete = not message.get("more_body", False)
        if received > size_limit:
            raise HTTPException(413, _too_large_message(size_limit))
        return message

    return receive_within_limits


_TOO_SLOW = "The body arrived too slowly. Send it again over a faster connection, or in smaller parts."


def _too_large_message(limit: int) -> str:
    size = f"{limit // 2**20} MiB" if limit >= 2**20 else f"{limit // 2**10} KiB"
    return (
        f"The body is larger than {size}. Send less in one request, or ask the operator to raise "
        "max_request_mb or max_upload_mb."
    )
