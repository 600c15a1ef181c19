"""What a request must get past before any route: where it comes from, and how large it is.

The server on loopback needs no key, so that no other program's web page may speak for its user: a `Host` that
is not ours (a name that was made to point here) and an `Origin` that is not ours are both refused. Answers tell browsers
to guess nothing, to frame nothing and to keep nothing.
"""

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gristmill.doors.api.problems import problem

# Unless an answer says otherwise itself.
_SAFE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}


class Gate:
    """Refuses strangers and oversize bodies."""

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str] | None, max_body: int, max_upload: int) -> None:
        self._app, self._max, self._max_upload = app, max_body, max_upload
        self._hosts = None if hosts is None else frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _guarded(send)
        headers = Headers(scope=scope)
        if not self._is_ours(headers.get("host", "")):
            await problem(403, "foreign_host", "This server does not answer under that host name.")(
                scope, receive, send
            )
            return
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            await problem(403, "foreign_origin", "Requests of other sites' pages are refused.")(
                scope, receive, send
            )
            return
        most = self._max_upload if scope["path"].endswith("/files") else self._max
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > most:
            # Read what was sent first: a client that is still sending would see a broken pipe, not the answer.
            await _drain(receive, min(int(length), 8 * self._max))
            await problem(413, "request_too_large", _told(most))(scope, receive, send)
            return
        await self._app(scope, _counting(receive, most), send)

    def _is_ours(self, host: str) -> bool:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        if self._hosts is None or name in self._hosts:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def _guarded(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SAFE.items():
                headers.setdefault(name, value)
        await send(message)

    return guarded


def _counting(receive: Receive, most: int) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise HTTPException(413, _told(most))
        return message

    return counted


async def _drain(receive: Receive, left: int) -> None:
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return


def _told(most: int) -> str:
    return f"The body is larger than {most // 2**20} MiB, the most that one request may carry."
