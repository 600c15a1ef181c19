"""An OpenAI-compatible `/audio/transcriptions` in a thread: it takes forms apart as they were sent, and answers as a test says."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class TranscriptionRequest:
    """What was sent: the path, the key, the fields of the form, and the file."""

    path: str
    authorization: str | None
    fields: dict[str, str]
    file_name: str
    data: bytes


@dataclass
class TranscriptionEndpoint:
    """The endpoint's address, what it was sent, and what it answers."""

    url: str = ""
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    requests: list[TranscriptionRequest] = field(default_factory=list[TranscriptionRequest])


def spoken(*segments: tuple[float, float, str], language: str = "english") -> dict[str, Any]:
    """A response of `verbose_json`."""
    return {
        "text": " ".join(text for _, _, text in segments),
        "language": language,
        "duration": segments[-1][1],
        "segments": [
            {"id": n, "start": start, "end": end, "text": f" {text}"}
            for n, (start, end, text) in enumerate(segments)
        ],
    }


@contextmanager
def serve_transcriptions() -> Generator[TranscriptionEndpoint]:
    """Serve on a free port."""
    endpoint = TranscriptionEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            form = BytesParser(policy=HTTP).parsebytes(head + self.rfile.read(length))
            fields: dict[str, str] = {}
            file_name, data = "", b""
            for part in form.iter_parts():
                name = part.get_param("name", header="content-disposition")
                payload: Any = part.get_payload(decode=True)
                content = bytes(payload)
                if name == "file":
                    file_name, data = part.get_filename() or "", content
                else:
                    fields[str(name)] = content.decode()
            key = self.headers.get("Authorization")
            endpoint.requests.append(TranscriptionRequest(self.path, key, fields, file_name, data))
            body = json.dumps(endpoint.body).encode()
            self.send_response(endpoint.status)
            for header, value in endpoint.headers.items():
                self.send_header(header, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  -- its name in the standard library
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
