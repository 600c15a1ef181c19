"""Fakes of docling-serve and MinerU on a loopback port, with the routes that a conversion uses."""

import io
import json
import threading
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MARKDOWN = "# Converted\n\n知识库\n"


@dataclass
class Service:
    """The next responses of the fake, and the requests it received."""

    url: str = ""
    states: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])  # the last one stays
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(
        default_factory=list[tuple[str, str, dict[str, str], bytes]]
    )
    fails: dict[str, int] = field(default_factory=dict[str, int])  # by prefix of the path: a status
    hangs_up: str = ""  # prefixes of paths without a response

    def state(self) -> dict[str, Any]:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def paths(self, method: str) -> list[str]:
        return [path for verb, path, _, _ in self.requests if verb == method]


def docling(service: Service, method: str, path: str) -> dict[str, Any] | bytes:
    if path == "/v1/convert/file/async":
        return {"task_id": "t 1", "task_status": "pending", "task_position": 1}
    if path == "/v1/status/poll/t%201":
        return {"task_id": "t 1", **service.state()}
    if path == "/v1/result/t%201":
        return {"document": {"filename": "a.pdf", "md_content": MARKDOWN}, "status": "success"}
    raise KeyError(path)


def mineru(service: Service, method: str, path: str) -> dict[str, Any] | bytes:
    if path == "/api/v4/file-urls/batch":
        return {"code": 0, "msg": "ok", "data": {"batch_id": "b 1", "file_urls": [service.url + "/upload/x"]}}
    if path == "/upload/x" and method == "PUT":
        return b""
    if path == "/api/v4/extract-results/batch/b%201":
        result = {"file_name": "a.pdf", "full_zip_url": service.url + "/result.zip", **service.state()}
        return {"code": 0, "data": {"batch_id": "b 1", "extract_result": [result]}}
    if path == "/result.zip":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("images/x.md", "no")
            archive.writestr("full.md", MARKDOWN)
        return file.getvalue()
    raise KeyError(path)


@contextmanager
def serve(answer: Any) -> Generator[Service]:
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def handle_one(self) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            service.requests.append((self.command, self.path, dict(self.headers.items()), body))
            if service.hangs_up and self.path.startswith(service.hangs_up):
                self.close_connection = True
                return
            status = next((code for path, code in service.fails.items() if self.path.startswith(path)), 200)
            response = answer(service, self.command, self.path) if status == 200 else {"detail": "no: k3y"}
            data = response if isinstance(response, bytes) else json.dumps(response).encode()
            self.send_response_only(status)
            self.send_header("Content-Length", str(len(data)))
            if status == 429:
                self.send_header("Retry-After", "7")
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = handle_one  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
