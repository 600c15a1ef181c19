"""A base of 100,000 items in the browser: the time to its first row, and the cost of scrolling.

uv run --group dev python -m bench.tree [--items 100000] [--opens 5]
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from typing import Any

import psycopg
from playwright.sync_api import Browser

from bench.sample import CACHE
from gristmill.db import local_server
from tests.gristmill_process import run_serve
from tests.ui.harness import ApiHelper, chromium, profile, server_setup

# One item in 97 has failed, so that rows differ in height.
_FILL = """
insert into item (base_id, type, title, status, source, source_key, live_version, expanded_version, chunk_count,
                  error_code, error_message)
select %s, 'file', 'sheaf-' || lpad(n::text, 6, '0') || '.md', case when n %% 97 = 0 then 'failed' else 'completed' end,
       '{"name": "x"}', 'upload:' || n, case when n %% 97 = 0 then null else 1 end, 1, n %% 40,
       case when n %% 97 = 0 then 'unreadable' end, case when n %% 97 = 0 then 'It needs a password to be opened.' end
  from generate_series(1, %s) n
"""
_OBSERVE = """
window.long = [];
new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.long.push(entry.duration); })
  .observe({ type: "longtask", buffered: true });
"""
# Slow scrolling, then fast, then dragging the scrollbar through everything.
_SCROLL = """async () => {
  const box = document.querySelector("[role=treegrid]");
  window.long.length = 0;
  const frames = [];
  let last = performance.now();
  for (let i = 0; i < 300; i++) {
    box.scrollTop += i < 120 ? 120 : i < 200 ? 4000 : box.scrollHeight / 100;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    frames.push(now - last);
    last = now;
  }
  return { frames, long: window.long, rows: document.querySelectorAll("[role=row]").length };
}"""


@dataclass(frozen=True)
class ScrollSample:
    frames: list[float]
    long: list[float]
    rows: int
    cpu: float  # processor time of the longest task; wall time includes other load on the machine


def measure_opening(browser: Browser, url: str) -> tuple[float, ScrollSample]:
    """Seconds to the first row in a fresh profile, and the cost of scrolling."""
    with profile(browser) as tabs:
        page = tabs.context.new_page()
        page.add_init_script(_OBSERVE)
        started = time.monotonic()
        page.goto(url, wait_until="commit")
        page.locator("[role=row][id]").first.wait_for()
        seconds = time.monotonic() - started
        page.wait_for_timeout(500)  # until the page has loaded its other data
        browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
        raw = page.evaluate(_SCROLL)
        return seconds, ScrollSample(
            **raw, cpu=_longest_task_ms(json.loads(browser.stop_tracing())["traceEvents"])
        )


def _longest_task_ms(events: list[dict[str, Any]]) -> float:
    """Milliseconds of processor time of the longest task of the page's main thread."""
    threads = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("args", {}).get("name") == "CrRendererMain"
    }
    tasks = [
        event
        for event in events
        if event["name"].endswith("RunTask") and (event["pid"], event["tid"]) in threads
    ]
    return max((task.get("tdur", 0) for task in tasks), default=0) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--opens", type=int, default=5)
    options = parser.parse_args()
    with (
        server_setup(None, CACHE) as setup,
        run_serve(setup.env, log=setup.log) as server,
        server.client() as http,
    ):
        base = ApiHelper(http).create_base("Large")
        database = local_server.start(setup.folder / "data")  # the server's own PostgreSQL
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute(_FILL, (base, options.items))
            connection.execute("analyze item")
        with chromium() as browser:
            samples = [measure_opening(browser, f"{server.url}/b/{base}") for _ in range(options.opens)]
        database.close()
    seconds = [opening_seconds for opening_seconds, _ in samples]
    frames = sorted(frame for _, scrolled in samples for frame in scrolled.frames)
    longest = [max(scrolled.long, default=0.0) for _, scrolled in samples]
    print(f"{options.items:,} items, {options.opens} cold openings")
    print(f"first row: median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s")
    print(f"frames: median {frames[len(frames) // 2]:.0f} ms, p95 {frames[int(len(frames) * 0.95)]:.0f} ms")
    cpu = max(scrolled.cpu for _, scrolled in samples)
    print(
        f"longest task while scrolling: {max(longest):.0f} ms, {cpu:.0f} ms of them processor time; rows in the document: {samples[0][1].rows}"
    )


if __name__ == "__main__":
    main()
