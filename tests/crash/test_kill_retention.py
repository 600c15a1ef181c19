"""kill -9 while retention deletes: the next pass deletes the rest, and the report has every document once."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import psycopg

from tests.gristmill_process import environment, run_serve
from tests.wait_until import wait_until

NOTES = 450  # more than two batches


def wait(is_true: Callable[[], bool]) -> None:
    async def condition() -> bool:
        return is_true()

    asyncio.run(wait_until(condition))


def test_retention_that_is_killed_goes_on_and_reports_everything_once(
    database_url: str, tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str]
) -> None:
    settings = {"database_url": database_url, "lease": "PT1S", **quick_embedder}
    data, log = tmp_path / "data", tmp_path / "log"
    with run_serve(environment(data, cache_dir, **settings), log=log) as server, server.client() as http:
        base = http.post("/api/knowledge-bases", json={"name": "old"}).json()["id"]
        items = [{"type": "note", "content": f"Note {n}"} for n in range(NOTES)]
        http.post(f"/api/knowledge-bases/{base}/items", json={"items": items[:300]})
        http.post(f"/api/knowledge-bases/{base}/items", json={"items": items[300:]})
        wait(lambda: http.get(f"/api/knowledge-bases/{base}").json()["leafCounts"].get("completed") == NOTES)
        http.put(f"/api/knowledge-bases/{base}/retention", json={"documentDays": 10})
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update item_version set changed_at = changed_at - interval '11 days'")
    dying = environment(data, cache_dir, faults="retention.before_commit=kill@2", **settings)
    with run_serve(dying, log=log) as server, server.client() as http:
        http.post("/api/health/reconciler")
        assert server.process.wait(120) == -9
    with run_serve(environment(data, cache_dir, **settings), log=log) as server, server.client() as http:
        http.post("/api/health/reconciler")
        with psycopg.connect(database_url, autocommit=True) as connection:
            query = "select count(*), count(distinct item_id) from deletion_record"
            wait(lambda: connection.execute(query).fetchone() == (NOTES, NOTES))
        assert http.get("/api/health/invariants").json() == {"violations": []}
