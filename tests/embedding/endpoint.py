"""A real OpenAI-compatible endpoint on a loopback port, whose answers a test can choose."""

import contextlib
import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.embedding.hashed import HashedEmbedder


@dataclass(frozen=True)
class EmbeddingRequest:
    """A request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class CannedResponse:
    """What goes back: a status, a body (bytes as they are, anything else as JSON), headers.

    After `cut` bytes of the body the connection is closed.
    """

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cut: int | None = None


def hashed_vectors(request: EmbeddingRequest) -> CannedResponse:
    """What a proper server says, entries in reverse, as the protocol allows."""
    model = HashedEmbedder()
    entries = [
        # Twice as long: the client must normalise.
        {"object": "embedding", "index": index, "embedding": (2 * model.vector(text)).tolist()}
        for index, text in enumerate(request.body["input"])
    ]
    return CannedResponse(200, {"object": "list", "data": entries[::-1], "model": request.body["model"]})


def embedder_settings(url: str) -> dict[str, str]:
    """Settings of a process whose default embedder is the endpoint at `url`."""
    dimensions = HashedEmbedder().dimensions
    quick = {"url": url, "model": "hashed", "dimensions": dimensions, "concurrency": 8}
    return {
        "embedder": "quick",
        "embedders": json.dumps({"quick": quick}),
        "allow_private_addresses": "true",
    }


class Endpoint:
    """The server: `respond` chooses the response, or None to keep silent; `requests` are those it received.

    `disconnects` counts the clients that hung up without a response.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[EmbeddingRequest] = []
        self.respond: Callable[[EmbeddingRequest], CannedResponse | None] = hashed_vectors
        self.disconnects = threading.Semaphore(0)

    def always_respond(self, status: int, body: Any, **headers: str) -> None:
        """Say this to everyone; `Retry_After` becomes `Retry-After`."""
        header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
        self.respond = lambda _: CannedResponse(status, body, header_fields)


@contextmanager
def serve() -> Generator[Endpoint]:
    """Serve on a free port until the test is over."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body in one packet, else each answer waits 40 ms for the client's ACK

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = EmbeddingRequest(self.path, dict(self.headers.items()), body)
            endpoint.requests.append(request)
            response = endpoint.respond(request)
            if response is None:
                with contextlib.suppress(OSError):
                    self.connection.recv(1)  # returns once the client hangs up
                endpoint.disconnects.release()
                self.close_connection = True
                return
            data = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
            self.send_response_only(response.status)
            for name, value in {"Content-Length": str(len(data)), **response.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[: response.cut])
            self.close_connection = self.close_connection or response.cut is not None

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that hangs up is what some tests are about

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint = Endpoint(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
