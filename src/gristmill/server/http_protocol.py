"""HTTP connections with limits: what a client can cost us before we know who it is.

    the head (request line and headers) is larger       431 headers_too_large
    than `head_bytes`, or has more than `head_count` headers
    the head takes longer than `head_seconds`           408 request_too_slow
    it is not HTTP                                      400 request_refused
    a trailer or chunk header is that long              the connection is closed
    nothing is sent at all                              the connection is closed after `head_seconds`
    the response is sent, but the body still arrives    discarded, for at most `drain_seconds`

The parser collects a header until it is complete, and copies it with each piece that arrives, so a long one has to be refused
while it arrives. After a refusal, what the client is still sending is discarded for a moment: if the connection were closed at
once, the client would see a reset instead of the response. How slow a body may be is decided in `host_guard.py`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from gristmill.server.api.problems import problem

_DISCARD_BYTES = 4 << 20


@dataclass(frozen=True)
class HttpLimits:
    """The limits of a connection."""

    head_bytes: int = 64 << 10
    head_count: int = 100
    head_seconds: float = 20
    drain_seconds: float = 30
    linger_seconds: float = 2


class BoundedHttpProtocol(HttpToolsProtocol):
    """A connection of uvicorn, with limits."""

    limits = HttpLimits()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._is_in_head = True
        self._is_in_body = False
        self._is_refused = False
        self._head_bytes = 0  # of complete headers
        self._pending_bytes = 0  # received since the parser last reported something
        self._discarded_bytes = 0
        self._refusal: Response | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the clock of the first request."""
        super().connection_made(transport)
        self._start_timer(self.limits.head_seconds, self._head_timed_out)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, unless the request was refused."""
        if self._is_refused:
            self._discarded_bytes += len(data)
            if self._discarded_bytes > _DISCARD_BYTES:
                self.transport.abort()
            return
        self._pending_bytes += len(data)
        super().data_received(data)
        if not self._is_refused and self._pending_bytes > self.limits.head_bytes:
            self._refuse(_too_large(self.limits))

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser, or one of its callbacks below, did not accept."""
        self._refuse(
            self._refusal or problem(400, "request_refused", f"{msg} Send a valid HTTP/1.1 request.")
        )

    # ── callbacks of the parser ──────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._is_in_head, self._head_bytes, self._pending_bytes = True, 0, 0
        self._start_timer(self.limits.head_seconds, self._head_timed_out)

    def on_url(self, url: bytes) -> None:
        """A part of the request line."""
        super().on_url(url)
        self._head_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header. Trailers are dropped: the request is being served already."""
        if not self._is_in_head:
            return
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > self.limits.head_bytes or len(self.headers) >= self.limits.head_count:
            self._refusal = _too_large(self.limits)
            raise ValueError("the head of the request is too large")  # ends the parsing
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete: serve the request."""
        if self._head_bytes > self.limits.head_bytes:
            self._refusal = _too_large(self.limits)
            raise ValueError("the head of the request is too large")
        self._is_in_head, self._is_in_body, self._pending_bytes = False, True, 0
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._pending_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._is_in_body, self._pending_bytes = False, 0
        self._stop_timer()
        super().on_message_complete()

    # ── responses and time limits ────────────────────────────────────────────────────────────────────────

    def on_response_complete(self) -> None:
        """The response is sent. Give a client that is still sending the body some time to finish."""
        super().on_response_complete()
        if self._is_in_body and not self.transport.is_closing():
            self._start_timer(self.limits.drain_seconds, self.transport.close)

    def _is_responding(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _head_timed_out(self) -> None:
        if self._is_responding():
            # A pipelined request: while the one before is served, nothing more of it is read.
            self._start_timer(self.limits.head_seconds, self._head_timed_out)
        elif self._pending_bytes or self._head_bytes:
            self._refuse(
                problem(
                    408,
                    "request_too_slow",
                    f"The headers were not complete after {self.limits.head_seconds:g} seconds. Send the request again.",
                )
            )
        else:
            self.transport.close()

    def _refuse(self, response: Response) -> None:
        """Send the response, if it would not be mixed up with another one, and close the connection."""
        self._is_refused = True
        self._stop_timer()
        if self.transport.is_closing():
            return
        if self._is_responding():
            self.transport.abort()
            return
        lines = [STATUS_LINE[response.status_code]]
        lines += [name + b": " + value + b"\r\n" for name, value in response.raw_headers]
        self.transport.write(b"".join([*lines, b"connection: close\r\n\r\n", bytes(response.body)]))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._start_timer(self.limits.linger_seconds, self.transport.close)

    def _start_timer(self, seconds: float, action: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, action)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _too_large(limits: HttpLimits) -> Response:
    return problem(
        431,
        "headers_too_large",
        f"The request line and the headers may have {limits.head_bytes:,} bytes and {limits.head_count} headers. "
        "Send less, for example fewer cookies, and long values in the body.",
    )
