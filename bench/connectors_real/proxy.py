"""A proxy between a connector and its server, which counts requests and injects faults.

    limit     a request is answered with 429 and Retry-After
    error     a request is answered with 503
    cut       the connection is closed in the middle of a response
    hold      a request waits until it is released: meanwhile a process can be killed, or the server go down
    refuse    connections are refused, and open ones are closed

The HTTP proxy forwards each request with the headers that it came with, so that signatures over the host stay valid. The TCP proxy
forwards bytes as they are; each piece from the client counts as a request, and it has no limits.
"""

import contextlib
import http.client
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from bench.connectors_real.tool import ServerAddress
from tests.free_port import free_port

_TIMEOUT = 60.0
_HELD_SECONDS = 120.0
_PIECE = 1 << 16
_OWN_HEADERS = frozenset({"connection", "transfer-encoding", "keep-alive", "content-length"})
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "REPORT")

FaultAction = Literal["limit", "error", "cut", "hold"]


@dataclass
class _Rule:
    """What happens to requests number `first` to `last`."""

    first: int
    last: int
    action: FaultAction
    retry_after: int = 0


class FaultProxy(ABC):
    """Counts requests, and says what happens to each. Its port stays the same through outages."""

    def __init__(self, upstream: ServerAddress) -> None:
        self.upstream, self.port = upstream, free_port()
        self.reached = threading.Event()  # a fault that was planned hit its first request
        self._released = threading.Event()
        self._lock = threading.Lock()
        self._rules: list[_Rule] = []
        self._count = 0
        self._connections: set[socket.socket] = set()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def count(self) -> int:
        """The requests since the last reset."""
        return self._count

    def reset(self) -> None:
        """Count from zero again, without faults."""
        with self._lock:
            self._count = 0
            self._rules.clear()
        self._released.set()
        self.reached.clear()

    def plan(self, action: FaultAction, *, after: int = 0, times: int = 1, retry_after: int = 0) -> None:
        """Let something happen to requests from now on, after so many others."""
        with self._lock:
            first = self._count + after + 1
            self._rules.append(_Rule(first, first + times - 1, action, retry_after))
        if action == "hold":
            self._released.clear()

    def release(self) -> None:
        """Let held requests go on."""
        self._released.set()

    def next_rule(self) -> _Rule | None:
        """Count a request; what happens to it. One that is held returns once it is released."""
        with self._lock:
            self._count += 1
            rule = next((rule for rule in self._rules if rule.first <= self._count <= rule.last), None)
        if rule is not None:
            self.reached.set()
        if rule is None or rule.action != "hold":
            return rule
        self._released.wait(_HELD_SECONDS)
        return None

    @abstractmethod
    def open(self) -> None:
        """Accept connections."""

    @abstractmethod
    def refuse(self) -> None:
        """Refuse connections and close those that are open: an outage."""

    def track(self, connection: socket.socket) -> None:
        """Remember an open connection."""
        with self._lock:
            self._connections.add(connection)

    def forget(self, connection: socket.socket) -> None:
        """A connection was closed."""
        with self._lock:
            self._connections.discard(connection)

    def close_connections(self) -> None:
        """Close every open connection."""
        with self._lock:
            connections, self._connections = self._connections, set()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class HttpProxy(FaultProxy):
    """Forwards HTTP requests."""

    _server: ThreadingHTTPServer | None = None

    def open(self) -> None:
        handler = type("Handler", (_HttpHandler,), {"proxy": self})
        self._server = _Server(("127.0.0.1", self.port), handler)
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()

    def refuse(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
        self.close_connections()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # held requests would be waited for

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that was killed


class _HttpHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    proxy: HttpProxy

    def setup(self) -> None:
        super().setup()
        self.proxy.track(self.connection)

    def finish(self) -> None:
        self.proxy.forget(self.connection)
        super().finish()

    def forward(self) -> None:
        """Send the request on, unless a fault is planned for it."""
        body = self._read_body()
        rule = self.proxy.next_rule()
        if rule is not None and rule.action == "limit":
            self._respond(429, {"Retry-After": str(rule.retry_after)}, b"slow down")
            return
        if rule is not None and rule.action == "error":
            self._respond(503, {}, b"down")
            return
        status, headers, data = self._fetch(body)
        if rule is not None:  # the connection is closed in the middle of the response
            self._respond(status, headers, data, cut=len(data) // 2)
            self.close_connection = True
            return
        self._respond(status, headers, data)

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            pieces: list[bytes] = []
            while size := int(self.rfile.readline().partition(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _fetch(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        upstream = self.proxy.upstream
        connection = http.client.HTTPConnection(upstream.host, upstream.port, timeout=_TIMEOUT)
        with contextlib.closing(connection):
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OWN_HEADERS:
                    connection.putheader(name, value)
            if body or "Content-Length" in self.headers:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            response = connection.getresponse()
            data = response.read()
            headers = {
                name: value for name, value in response.getheaders() if name.lower() not in _OWN_HEADERS
            }
            if self.command == "HEAD" and (length := response.getheader("Content-Length")) is not None:
                headers["Content-Length"] = length
            return response.status, headers, data

    def _respond(self, status: int, headers: dict[str, str], data: bytes, *, cut: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.command != "HEAD" and status not in (204, 304):
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[:cut])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


for _method in _METHODS:
    setattr(_HttpHandler, f"do_{_method}", _HttpHandler.forward)


class TcpProxy(FaultProxy):
    """Forwards bytes."""

    _listener: socket.socket | None = None

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            listener.close()
        self.close_connections()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((self.upstream.host, self.upstream.port), _TIMEOUT)
            except OSError:
                client.close()
                continue
            for source, sink, counts in ((client, server, True), (server, client, False)):
                self.track(source)
                threading.Thread(target=self._pump, args=(source, sink, counts), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                rule = self.next_rule() if counts else None
                if rule is not None:  # a cut
                    break
                sink.sendall(piece)
        for connection in (source, sink):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.forget(source)
        source.close()


@contextmanager
def run_proxy(upstream: ServerAddress) -> Generator[FaultProxy]:
    """A proxy in front of a server until the block ends."""
    proxy: FaultProxy = HttpProxy(upstream) if upstream.protocol == "http" else TcpProxy(upstream)
    proxy.open()
    try:
        yield proxy
    finally:
        proxy.release()
        proxy.refuse()
