"""Pages under load: the delay from a write to its paint, the first row with a cold cache, and a base of 100,000 items.

uv run --group dev python -m bench.ui [--only changes,cold,large] [--seconds 10] [--items 100000]

    changes   200 rows of a base change a second; the time from each commit until the frame that shows it
    cold      a browser with an empty cache opens a base; the time until its first row is painted, median of 5
    large     a base of many items is opened and scrolled; the longest task meanwhile

The exit code is 1 when a requirement does not hold. Writer and page use the same clock.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import psycopg
from playwright.sync_api import Browser, Page

from bench.sample import CACHE
from gristmill.db import local_server
from tests.gristmill_process import run_serve
from tests.ui.harness import ApiHelper, chromium, profile, server_setup

# A row's title is `change <time>`; it counts as painted in the frame after its text changed.
_WATCH = """() => {
  window.painted = [];
  const seen = new WeakMap();
  const check = (row) => {
    const match = (row.textContent ?? "").match(/change (\\d+\\.\\d+)/);
    if (!match || seen.get(row) === match[1]) return;
    seen.set(row, match[1]);
    const written = Number(match[1]);
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => window.painted.push(Date.now() - written);
      channel.port2.postMessage(0);
    });
  };
  const observer = new MutationObserver((mutations) => {
    for (const { target } of mutations) {
      const element = target.nodeType === 1 ? target : target.parentElement;
      const row = element?.closest("[role=row]");
      if (row) check(row);
    }
  });
  observer.observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true });
}"""
# The time from navigation to the first painted row, measured in the page: polling from outside would be too coarse.
_FIRST = """() => {
  const observer = new MutationObserver(() => {
    if (!document.querySelector("[role=row] [role=gridcell] .title, [role=row][aria-level]")) return;
    observer.disconnect();
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => {
        window.firstRow = performance.now();
      };
      channel.port2.postMessage(0);
    });
  });
  observer.observe(document, { subtree: true, childList: true });
}"""
_LONG = """() => {
  window.longest = 0;
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
  });
  observer.observe({ entryTypes: ["longtask"] });
}"""


@dataclass(frozen=True)
class Figure:
    """A measurement and its limit."""

    name: str
    value: float
    limit: float
    unit: str = "ms"

    @property
    def holds(self) -> bool:
        return self.value <= self.limit


def insert_rows(url: str, base: str, count: int, title: str = "row") -> list[str]:
    """Insert finished items by SQL, because only the page is measured."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows_inserted = connection.execute(
            """insert into item (base_id, type, title, source_key, body, status, live_version)
               select %s, 'note', %s || ' ' || n, n::text, 'rye', 'completed', 1 from generate_series(1, %s) n
               returning id""",
            [base, title, count],
        ).fetchall()
        connection.execute("analyze item")
    return [str(row[0]) for row in rows_inserted]


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure_changes(url: str, api: ApiHelper, page: Page, server: str, seconds: float) -> Iterator[Figure]:
    base = api.create_base("changes")
    ids = insert_rows(url, base, 20)  # all of them visible
    page.goto(f"{server}/b/{base}")
    page.get_by_text("row 20", exact=True).wait_for()
    page.evaluate(_WATCH)
    stop = threading.Event()
    writer = threading.Thread(target=write_changes, args=(url, ids, stop))
    writer.start()
    page.wait_for_timeout(1000 * seconds)
    stop.set()
    writer.join()
    page.wait_for_timeout(500)
    paint_times: list[float] = page.evaluate("window.painted")
    print(f"    {len(paint_times)} paints of rows in {seconds} s")
    yield Figure("200 changes/s, write to paint, median", statistics.median(paint_times), 150)
    yield Figure("200 changes/s, write to paint, 95th percentile", percentile(paint_times, 0.95), 150)


def write_changes(url: str, ids: list[str], stop: threading.Event) -> None:
    """Write 200 changes a second, each in its own transaction; the title is the time of the write."""
    with psycopg.connect(url, autocommit=True) as connection:
        started, n = time.monotonic(), 0
        while not stop.is_set():
            connection.execute(
                "update item set title = %s, updated_at = clock_now() where id = %s",
                [f"change {1000 * time.time():.1f}", ids[n % len(ids)]],
            )
            n += 1
            time.sleep(max(0.0, started + n / 200 - time.monotonic()))
        print(f"    {n} changes were written, {n / (time.monotonic() - started):.0f} a second")


def measure_cold(url: str, api: ApiHelper, browser: Browser, server: str) -> Iterator[Figure]:
    base = api.create_base("cold")
    insert_rows(url, base, 200, "cold")
    durations: list[float] = []
    for _ in range(5):
        with profile(browser) as tabs:
            page = tabs.context.new_page()
            page.add_init_script(f"({_FIRST})()")
            page.goto(f"{server}/b/{base}")
            page.get_by_text("cold 1", exact=True).wait_for()
            durations.append(page.evaluate("window.firstRow"))
    yield Figure("first row, cold, median of 5", statistics.median(durations), 500)


def measure_large(url: str, api: ApiHelper, page: Page, server: str, items: int) -> Iterator[Figure]:
    base = api.create_base("large")
    insert_rows(url, base, items, "large")
    page.goto(server)
    page.get_by_role("link", name="large").first.wait_for()
    page.add_init_script(f"({_FIRST})()")
    page.goto(f"{server}/b/{base}")
    page.get_by_text("large 1", exact=True).wait_for()
    yield Figure(f"a base of {items:,} items opens", page.evaluate("window.firstRow"), 1500)
    page.evaluate(_LONG)
    tree = page.get_by_role("treegrid")
    tree.hover()
    for step in range(60):
        page.mouse.wheel(0, 400 + 4000 * (step % 7))
        page.wait_for_timeout(30)
    page.wait_for_timeout(500)
    yield Figure("longest task while scrolling", page.evaluate("window.longest"), 100)


@contextmanager
def server_and_browser() -> Generator[tuple[str, str, ApiHelper, Browser]]:
    """A server with a local database, and a browser."""
    with (
        server_setup(None, CACHE) as setup,
        run_serve(setup.env, log=setup.log) as server,
        server.client() as http,
        closing(local_server.start(setup.folder / "data")) as database,
        chromium() as browser,
    ):
        yield database.url, server.url, ApiHelper(http), browser


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="changes,cold,large")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--items", type=int, default=100_000)
    options = parser.parse_args()
    figures: list[Figure] = []
    with server_and_browser() as (url, server, api, browser):
        for name in options.only.split(","):
            print(name)
            with profile(browser) as tabs:
                for figure in run_measurement(
                    name, url, server, api, browser, tabs.context.new_page(), options
                ):
                    figures.append(figure)
                    print(f"  {figure.name}: {figure.value:.0f} {figure.unit} (at most {figure.limit:.0f})")
    sys.exit(0 if all(figure.holds for figure in figures) else 1)


def run_measurement(
    name: str,
    url: str,
    server: str,
    api: ApiHelper,
    browser: Browser,
    page: Page,
    options: argparse.Namespace,
) -> Iterator[Figure]:
    if name == "changes":
        return measure_changes(url, api, page, server, options.seconds)
    if name == "cold":
        return measure_cold(url, api, browser, server)
    return measure_large(url, api, page, server, options.items)


if __name__ == "__main__":
    main()
