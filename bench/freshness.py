"""How soon and at which cost sources are followed: `uv run python -m bench.freshness`.

    saves       files that are saved in a watched folder, one after the other: seconds until a search finds each. Wanted: a median below 2
    changes     files that are written at once in a watched folder: comparisons of the whole folder until all of them are indexed.
                Wanted: a few, not one for each
    schedule    pages that are checked once a week: jobs that wait in the queue meanwhile, and the CPU time of one look for what is due.
                Wanted: no job

A real `gristmill serve` with the default embedder. The seconds mean something only on a machine that does nothing else.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg

from gristmill.db import local_server
from tests.gristmill_process import ServeProcess, environment, run_serve

_LOOK_EVERY = 0.02
_PAGES = """
with page as (
    insert into item (base_id, type, title, status, source, source_key)
    select %(base)s, 'url', u, 'completed', jsonb_build_object('url', u), u
      from (select 'https://example.org/' || n as u from generate_series(1, %(pages)s) n) p
    returning id, base_id)
insert into item_refresh (item_id, base_id, rule, origin, next_at)
select id, base_id, '{"every": "1w"}', 'base', clock_now() + interval '1 week' * random() from page
"""


def _wait(condition: Callable[[], Any], limit: float = 600) -> float:
    """Wait for a condition; the seconds that it took."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > limit:
            raise TimeoutError("It did not become true.")
        time.sleep(_LOOK_EVERY)
    return time.monotonic() - started


def _add_folder(http: httpx.Client, folder: Path) -> str:
    """Add a folder to a new base and wait until it is watched and compared."""
    base = http.post("/api/knowledge-bases", json={"name": folder.name}).json()["id"]
    body = {"items": [{"type": "directory", "path": str(folder)}]}
    item = http.post(f"/api/knowledge-bases/{base}/items", json=body).json()["created"][0]["id"]

    def is_watched() -> bool:
        freshness = http.get(f"/api/knowledge-items/{item}").json()["freshness"]
        return freshness is not None and freshness["watch"]["state"] == "watching" and freshness["checkedAt"]

    _wait(is_watched)
    return base


def _completed(http: httpx.Client, base: str) -> int:
    return http.get(f"/api/knowledge-bases/{base}").json()["itemCounts"].get("completed", 0)


def measure_saves(http: httpx.Client, folder: Path, count: int) -> list[float]:
    """Seconds until each saved file is found."""
    folder.mkdir()
    (folder / "first.md").write_text("The first file.")
    base = _add_folder(http, folder)
    seconds: list[float] = []
    for number in range(count + 1):
        word = f"zyx{number:04d}"
        (folder / f"{word}.md").write_text(f"# {word}\n\nThis file is about {word}.")
        request = {"baseIds": [base], "query": word, "mode": "text", "limit": 1}

        def is_hit(request: dict[str, Any] = request, word: str = word) -> bool:
            hits = http.post("/api/search", json=request).json()["hits"]
            return bool(hits) and word in hits[0]["text"]

        seconds.append(_wait(is_hit))
    return seconds[1:]  # the first one loads the embedder


def measure_changes(http: httpx.Client, database: str, folder: Path, count: int) -> tuple[int, float]:
    """Comparisons of a folder in which so many files are written at once, and seconds until all are indexed."""
    folder.mkdir()
    base = _add_folder(http, folder)
    before = _comparisons(database)
    for number in range(count):
        (folder / f"{number}.md").write_text(f"Change number {number}.")
    seconds = _wait(lambda: _completed(http, base) >= count, limit=3600)
    return _comparisons(database) - before, seconds


def _comparisons(database: str) -> int:
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "select (select count(*) from job where kind = 'refresh_container')"
            "     + (select count(*) from job_history where kind = 'refresh_container')"
        ).fetchone()
    return int(row[0]) if row else 0


def measure_schedule(http: httpx.Client, database: str, pages: int) -> tuple[int, float]:
    """Jobs of a base whose pages are checked once a week, and milliseconds of one look for what is due."""
    base = http.post("/api/knowledge-bases", json={"name": "pages"}).json()["id"]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(_PAGES, {"base": base, "pages": pages})
        connection.execute("analyze item_refresh")
        started = time.monotonic()
        connection.execute(
            "select b.id from base b where exists (select from item_refresh r where r.base_id = b.id and r.next_at <= clock_now())"
        ).fetchall()
        milliseconds = 1000 * (time.monotonic() - started)
        row = connection.execute("select count(*) from job where lane = %s", [base]).fetchone()
    return (int(row[0]) if row else 0), milliseconds


def _measure(server: ServeProcess, data_dir: Path, folder: Path, arguments: argparse.Namespace) -> None:
    database = local_server.start(data_dir)
    try:
        with server.client() as http:
            if arguments.saves:
                seconds = measure_saves(http, folder / "saves", arguments.saves)
                print(
                    f"saves     {len(seconds)} files: median {statistics.median(seconds):.2f} s, slowest {max(seconds):.2f} s"
                )
            if arguments.pages:
                jobs, milliseconds = measure_schedule(http, database.url, arguments.pages)
                print(f"schedule  {arguments.pages:,} pages: {jobs} jobs, one look {milliseconds:.1f} ms")
            if arguments.changes:
                listings, total = measure_changes(http, database.url, folder / "changes", arguments.changes)
                print(
                    f"changes   {arguments.changes:,} files: {listings} comparisons, indexed after {total:.0f} s"
                )
    finally:
        database.close()


def main() -> None:
    """Measure, and print one line each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--saves", type=int, default=20)
    parser.add_argument("--changes", type=int, default=10_000)
    parser.add_argument("--pages", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gristmill-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        env = environment(folder / "data", folder / "cache", watch_folders="true")
        with run_serve(env, log=folder / "log") as server:
            _measure(server, folder / "data", folder, arguments)


if __name__ == "__main__":
    main()
