"""A real web site on a loopback port, whose pages a test writes."""

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class SiteRequest:
    """A request that the site received."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class SiteResponse:
    """A response. A Content-Length in the headers replaces the true one; an empty header is not sent."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


SitePage = SiteResponse | Callable[[SiteRequest], SiteResponse]


class Site:
    """Serves `pages` by path, or `fallback` for all paths; `requests` records what it received, in order."""

    def __init__(self, port: int) -> None:
        self.host = f"127.0.0.1:{port}"
        self.url = f"http://{self.host}"
        self.elsewhere = f"http://localhost:{port}"  # the same server under another name
        self.requests: list[SiteRequest] = []
        self.pages: dict[str, SitePage] = {}
        self.fallback: Callable[[SiteRequest], SiteResponse] | None = None
        self.closing = threading.Event()

    def add_page(self, path: str, body: str | bytes, status: int = 200, **headers: str) -> str:
        """Add a page; the header `Content_Type` becomes `Content-Type`. Returns its address."""
        header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = SiteResponse(
            status, body.encode() if isinstance(body, str) else body, header_fields
        )
        return self.url + path

    def respond(self, request: SiteRequest) -> SiteResponse:
        """The response to a request."""
        self.requests.append(request)
        if self.fallback is not None:
            return self.fallback(request)
        page = self.pages.get(request.path, SiteResponse(404))
        return page(request) if callable(page) else page

    def requested_paths(self) -> list[str]:
        """The paths of all requests."""
        return [request.path for request in self.requests]


@contextmanager
def serve() -> Generator[Site]:
    """Serve on a free port until the test is over."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body in one packet, else each response waits 40 ms for the client's ACK

        def handle_any(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(size)
            if len(body) < size:  # the client hung up half-way: no request that a server would answer
                self.close_connection = True
                return
            answer = site.respond(SiteRequest(self.command, self.path, dict(self.headers.items()), body))
            self.send_response_only(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                if value:
                    self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PROPFIND = handle_any  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that hangs up is what some tests are about

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site = Site(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        site.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
