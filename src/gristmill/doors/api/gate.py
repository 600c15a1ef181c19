"""What a request must get past before any route: where it comes from, and how large it is.

The server on loopback needs no key, so that no other program's web page may speak for its user: a `Host` that
is not ours (a name that was made to point here) and an `Origin` that is not ours are both refused.
"""

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gristmill.doors.api.problems import problem


class Gate:
    """Refuses strangers and oversize bodies."""

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str], max_body: int) -> None:
        self._app, self._hosts, self._max = app, frozenset(hosts), max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
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
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._max:
            # Read what was sent first: a client that is still sending would see a broken pipe, not the answer.
            await self._drain(receive, int(length))
            await problem(413, "request_too_large", self._told())(scope, receive, send)
            return
        await self._app(scope, self._counting(receive), send)

    def _is_ours(self, host: str) -> bool:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        if name in self._hosts:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def _counting(self, receive: Receive) -> Receive:
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max:
                raise HTTPException(413, self._told())
            return message

        return counted

    async def _drain(self, receive: Receive, length: int) -> None:
        left = min(length, 8 * self._max)
        while left > 0:
            message = await receive()
            left -= len(message.get("body", b""))
            if message["type"] != "http.request" or not message.get("more_body", False):
                return

    def _told(self) -> str:
        return f"The body is larger than {self._max // 2**20} MiB, the most that one request may carry."
