"""A real OpenAI-compatible chat endpoint on a loopback port: it records what it is sent, and a test chooses what it writes."""

import contextlib
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Messages = list[dict[str, str]]
USAGE = {"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42}


@dataclass
class ChatEndpoint:
    """`reply` makes the parts of an answer from the messages; `status` other than 200 refuses, with `error` as the body."""

    url: str
    reply: Callable[[Messages], list[str]] = lambda _: ["It is so [1]."]
    status: int = 200
    error: str = "{}"
    streams: bool = True
    breaks_off: bool = False  # the connection ends after the last part
    refuses_usage: bool = False  # answers 400 to whoever asks for the number of tokens
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    keys: list[str | None] = field(default_factory=list[str | None])
    may_go_on: threading.Event = field(default_factory=threading.Event)  # after the first part
    has_lost_client: threading.Event = field(default_factory=threading.Event)

    @property
    def messages(self) -> Messages:
        """Those of the last request."""
        return self.requests[-1]["messages"]


@contextmanager
def serve_chat() -> Generator[ChatEndpoint]:
    """Serve on a free port until the test is over."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.requests.append(body)
            endpoint.keys.append(self.headers.get("Authorization"))
            self.close_connection = True
            parts = endpoint.reply(body["messages"])
            if endpoint.refuses_usage and "stream_options" in body:
                self._send(400, "application/json", '{"error": "extra fields are not permitted"}')
            elif endpoint.status != 200:
                self._send(endpoint.status, "application/json", endpoint.error)
            elif not endpoint.streams:
                choice = {"message": {"role": "assistant", "content": "".join(parts)}}
                message = {"choices": [choice], "usage": USAGE}
                self._send(200, "application/json", json.dumps(message))
            else:
                self._stream(parts, USAGE if "stream_options" in body else None)

        def _send(self, status: int, media_type: str, body: str) -> None:
            self.send_response_only(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def _stream(self, parts: list[str], usage: dict[str, int] | None) -> None:
            self.send_response_only(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            try:
                for place, part in enumerate(parts):
                    delta = {"choices": [{"index": 0, "delta": {"content": part}}]}
                    self.wfile.write(f"data: {json.dumps(delta)}\n\n".encode())
                    self.wfile.flush()
                    if place == 0 and not endpoint.may_go_on.is_set() and len(parts) > 1:
                        self._wait_for_client_or_permission()
                if endpoint.breaks_off:
                    return
                if usage is not None:
                    self.wfile.write(f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")
            except OSError:
                endpoint.has_lost_client.set()

        def _wait_for_client_or_permission(self) -> None:
            self.connection.settimeout(0.05)
            while not endpoint.may_go_on.is_set():
                with contextlib.suppress(TimeoutError):
                    if not self.connection.recv(1):
                        raise ConnectionResetError

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint = ChatEndpoint(f"http://127.0.0.1:{server.server_port}/v1")
    endpoint.may_go_on.set()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.may_go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
