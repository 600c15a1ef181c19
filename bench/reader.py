"""The reader: the time from a hit to its marked place, and the memory of the page over many documents.

uv run --group dev python -m bench.reader [--pages 1000] [--page 300] [--documents 50]

    first     on a server that has drawn no page yet, a hit on page 300 of a PDF of 1,000 pages is clicked, a second after it is shown; the
              time until its picture is loaded and the passage marked. Then the same on another server, clicked as soon as it is shown
    open      the same in fresh profiles, median of 5 (the server's cache of pictures is warm)
    memory    so many documents are opened one after the other; nodes and heap after the first ten and at the end

The exit code is 1 when a requirement does not hold.
"""

import argparse
import statistics
import sys
import time
from typing import Any

from playwright.sync_api import Browser, Page

from bench.sample import CACHE
from tests.gristmill_process import run_serve
from tests.readers import samples
from tests.ui.harness import ApiHelper, chromium, profile, server_setup

_LIMIT = 500  # milliseconds
_READING = 1000  # milliseconds that a person looks at the hits
_MAX_GROWTH = 1.2
_WATCH = """() => {
  window.clicked = performance.now();
  const check = () => {
    const mark = document.querySelector(".page-mark-box");
    const image = mark?.closest(".page-image").querySelector("img");
    if (mark && image.complete && image.naturalWidth) window.marked = performance.now() - window.clicked;
    else requestAnimationFrame(check);
  };
  check();
}"""


def _book(pages: int, page: int) -> bytes:
    texts = [
        "\n".join(f"Line {line} of folio {number}: so much grain, so much flour." for line in range(40))
        for number in range(1, pages + 1)
    ]
    texts[page - 1] += "\nThe heron stands beside the millrace at dusk."
    return samples.pdf(texts)


def _add(api: ApiHelper, base: str, files: dict[str, bytes]) -> list[str]:
    form = [("files", (name, data)) for name, data in files.items()]
    api.http.post(f"/api/knowledge-bases/{base}/files", files=form).raise_for_status()
    while True:
        items = api.http.get(f"/api/knowledge-bases/{base}/items", params={"limit": 500}).json()["items"]
        if items and all(item["status"] in ("completed", "failed") for item in items):
            return [item["id"] for item in items if item["status"] == "completed"]
        time.sleep(0.5)


def _open_hit(page: Page, url: str, pause: float = 0) -> float:
    page.goto(f"{url}?q=heron+millrace&mode=text")
    hit = page.locator(".hit a").first
    hit.wait_for()
    page.wait_for_timeout(pause)
    page.evaluate(_WATCH)
    hit.click()
    return float(page.wait_for_function("() => window.marked").json_value())


def _measure_opening(browser: Browser, url: str, pause: float = 0) -> float:
    with profile(browser) as tabs:
        tabs.context.set_default_timeout(60_000)
        return _open_hit(tabs.context.new_page(), url, pause)


def _memory(page: Page) -> tuple[int, int]:
    session: Any = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    counters = session.send("Memory.getDOMCounters")
    heap = session.send("Runtime.getHeapUsage")
    session.detach()
    return int(counters["nodes"]), int(heap["usedSize"])


def _measure_memory(browser: Browser, url: str, items: list[str], count: int) -> list[tuple[int, int]]:
    figures: list[tuple[int, int]] = []
    with profile(browser) as tabs:
        page = tabs.open(url)
        for number in range(count):
            path = f"{url}/i/{items[number % len(items)]}/read"
            page.evaluate(
                "path => { history.pushState(null, '', path); dispatchEvent(new Event('popstate')) }", path
            )
            page.locator(".page-image img").first.wait_for()
            if number in (9, count - 1):
                figures.append(_memory(page))
    return figures


def main() -> int:
    """Measure, print, and compare with the requirements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--page", type=int, default=300)
    parser.add_argument("--documents", type=int, default=50)
    arguments = parser.parse_args()
    book_file = _book(arguments.pages, arguments.page)
    with (
        server_setup(None, CACHE) as setup,
        run_serve(setup.env, log=setup.log) as server,
        chromium() as browser,
    ):
        with server.client() as client:
            api = ApiHelper(client)
            book = api.create_base("Book")
            _add(api, book, {"book.pdf": book_file})
            shelf = api.create_base("Shelf")
            items = _add(api, shelf, {f"{number}.pdf": _book(3, 1) for number in range(10)})
        first = _measure_opening(browser, f"{server.url}/b/{book}", _READING)
        median = statistics.median(_measure_opening(browser, f"{server.url}/b/{book}") for _ in range(5))
        print(
            f"hit to mark on page {arguments.page} of {arguments.pages}: first {first:.0f} ms, median {median:.0f} ms"
        )
        (nodes, heap), (last_nodes, last_heap) = _measure_memory(
            browser, f"{server.url}/b/{shelf}", items, arguments.documents
        )
        print(
            f"after 10 documents: {nodes:,} nodes, {heap:,} bytes; after {arguments.documents}: {last_nodes:,}, {last_heap:,}"
        )
    with (
        server_setup(None, CACHE) as setup,
        run_serve(setup.env, log=setup.log) as server,
        chromium() as browser,
    ):
        with server.client() as client:
            api = ApiHelper(client)
            book = api.create_base("Book")
            _add(api, book, {"book.pdf": book_file})
        at_once = _measure_opening(browser, f"{server.url}/b/{book}")
        print(f"first, clicked as soon as it is shown: {at_once:.0f} ms")
    is_flat = last_nodes <= _MAX_GROWTH * nodes and last_heap <= _MAX_GROWTH * heap
    return 0 if max(first, median) < _LIMIT and is_flat else 1


if __name__ == "__main__":
    sys.exit(main())
