"""What keeps base A busy: each function adds a load through the API, and its servers run until the block ends."""

import io
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from PIL import Image, ImageDraw, ImageFont

from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import serve_fake
from tests.sources.site import SiteRequest, SiteResponse, serve

PAGE_SECONDS, PAGES = 30.0, 60
SCANS, PAGES_PER_SCAN = 50, 2
FILES = 10_000
WEBHOOKS = 120
_NEVER = "0 0 29 2 *"
_UPLOAD_BATCH = 10

Load = Callable[[httpx.Client, str, Path, float], Generator[None]]


def post(client: httpx.Client, path: str, body: object) -> dict[str, Any]:
    """Send a request, which must succeed; its response."""
    response = client.post(f"/api{path}", json=body)
    assert response.is_success, response.text
    return response.json()


def slow_pages(client: httpx.Client, base: str, folder: Path, scale: float) -> Generator[None]:
    """Web pages whose server answers after half a minute."""
    del folder
    closing = threading.Event()

    def respond(request: SiteRequest) -> SiteResponse:
        if request.method == "GET":
            closing.wait(PAGE_SECONDS)
        return SiteResponse(200, f"<p>Slow {request.path}</p>".encode(), {"Content-Type": "text/html"})

    with serve() as site:
        site.fallback = respond
        urls = [{"type": "url", "url": f"{site.url}/{n}"} for n in range(round(PAGES * scale))]
        post(client, f"/knowledge-bases/{base}/items", {"items": urls})
        yield
        closing.set()


def scans(client: httpx.Client, base: str, folder: Path, scale: float) -> Generator[None]:
    """PDFs that consist of images."""
    del folder
    count = max(1, round(SCANS * scale))
    for first in range(0, count, _UPLOAD_BATCH):
        numbers = range(first, min(first + _UPLOAD_BATCH, count))
        files = [("files", (f"scan{n}.pdf", _scan(n), "application/pdf")) for n in numbers]
        response = client.post(f"/api/knowledge-bases/{base}/files", files=files)
        assert response.is_success, response.text
    yield


def _scan(number: int) -> bytes:
    pages: list[Image.Image] = []
    for page in range(PAGES_PER_SCAN):
        picture = Image.new("L", (1000, 1400), "white")
        draw = ImageDraw.Draw(picture)
        for line in range(30):
            text = f"Scan {number}, page {page}, line {line}: wheat and rye"
            draw.text((60, 40 + 44 * line), text, fill="black", font=ImageFont.load_default(28))
        pages.append(picture)
    file = io.BytesIO()
    pages[0].save(file, "PDF", save_all=True, append_images=pages[1:])
    return file.getvalue()


def many_files(client: httpx.Client, base: str, folder: Path, scale: float) -> Generator[None]:
    """A folder of text files."""
    documents = folder / "documents"
    documents.mkdir()
    for n in range(max(1, round(FILES * scale))):
        (documents / f"{n}.txt").write_text(
            f"File {n} is about barley and oats, lot {n * 7}.", encoding="utf-8"
        )
    post(client, f"/knowledge-bases/{base}/items", {"items": [{"type": "directory", "path": str(documents)}]})
    yield


def hanging_webhooks(client: httpx.Client, base: str, folder: Path, scale: float) -> Generator[None]:
    """Webhooks whose receiver never answers, and events for them."""
    del folder
    closing = threading.Event()

    def respond(request: SiteRequest) -> SiteResponse:
        del request
        closing.wait(120)
        return SiteResponse(200)

    with serve() as site:
        site.fallback = respond
        for n in range(max(1, round(WEBHOOKS * scale))):
            post(client, "/webhooks", {"url": f"{site.url}/{n}"})
        note = {"type": "note", "title": "event", "content": "An event for every webhook."}
        post(client, f"/knowledge-bases/{base}/items", {"items": [note]})
        yield
        closing.set()


class _SlowGitHub(FakeGitHub):
    """Answers one request a second."""

    def answer(self, request: SiteRequest) -> SiteResponse:
        time.sleep(1)
        return super().answer(request)


def slow_connector(client: httpx.Client, base: str, folder: Path, scale: float) -> Generator[None]:
    """A connector whose tool gives a document a second."""
    del folder
    tool = _SlowGitHub()
    for _ in range(max(1, round(200 * scale))):
        tool.add()
    with serve_fake(tool):
        connector = post(
            client,
            "/connectors",
            {
                "name": "slow",
                "type": tool.kind,
                "config": tool.config(),
                "credentials": tool.credentials(),
                "knowledgeBaseIds": [base],
                "schedule": _NEVER,
                "aclSchedule": _NEVER,
            },
        )
        post(client, f"/connectors/{connector['id']}/sync", {})
        yield


def idle(client: httpx.Client, base: str, folder: Path, scale: float) -> Generator[None]:
    """Nothing."""
    del client, base, folder, scale
    yield


LOADS: dict[str, Load] = {
    "pages": slow_pages,
    "scans": scans,
    "files": many_files,
    "webhooks": hanging_webhooks,
    "connector": slow_connector,
}


@contextmanager
def running(load: Load, client: httpx.Client, base: str, folder: Path, scale: float) -> Generator[None]:
    """A load on a base, until the block ends."""
    steps = load(client, base, folder, scale)
    next(steps)
    try:
        yield
    finally:
        next(steps, None)
