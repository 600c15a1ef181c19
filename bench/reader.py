"""The reader: the time from a hit to its marked place, and the memory of the page over many documents.

uv run --group dev python -m bench.reader [--pages 1000] [--page 300] [--documents 50]

    open      a hit on page 300 of a PDF of 1,000 pages is clicked; the time until its picture is loaded and the passage marked, median
              of 5 in fresh profiles (the server's cache of pictures is warm from the second on; the first is printed too)
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


def _open_hit(page: Page, url: str) -> float:
    page.goto(f"{url}?q=heron+millrace&mode=text")
    hit = page.locator(".hit a").first
    hit.wait_for()
    page.evaluate(_WATCH)
    hit.click()
    return float(page.wait_for_function("() => window.marked").json_value())


def _measure_opening(browser: Browser, url: str) -> list[float]:
    times: list[float] = []
    for _ in range(5):
        with profile(browser) as tabs:
            tabs.context.set_default_timeout(60_000)
            times.append(_open_hit(tabs.context.new_page(), url))
    return times


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
    with (
        server_setup(None, CACHE) as setup,
        run_serve(setup.env, log=setup.log) as server,
        chromium() as browser,
    ):
        with server.client() as client:
            api = ApiHelper(client)
            book = api.create_base("Book")
            _add(api, book, {"book.pdf": _book(arguments.pages, arguments.page)})
            shelf = api.create_base("Shelf")
            items = _add(api, shelf, {f"{number}.pdf": _book(3, 1) for number in range(10)})
        times = _measure_opening(browser, f"{server.url}/b/{book}")
        median = statistics.median(times)
        print(
            f"hit to mark on page {arguments.page} of {arguments.pages}: median {median:.0f} ms, first {times[0]:.0f} ms"
        )
        (nodes, heap), (last_nodes, last_heap) = _measure_memory(
            browser, f"{server.url}/b/{shelf}", items, arguments.documents
        )
        print(
            f"after 10 documents: {nodes:,} nodes, {heap:,} bytes; after {arguments.documents}: {last_nodes:,}, {last_heap:,}"
        )
    is_flat = last_nodes <= _MAX_GROWTH * nodes and last_heap <= _MAX_GROWTH * heap
    return 0 if median < _LIMIT and is_flat else 1


if __name__ == "__main__":
    sys.exit(main())
