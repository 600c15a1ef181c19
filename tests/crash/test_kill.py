"""kill -9 in the middle of the work: afterwards everything exists, each item once, without an operator's help."""

import contextlib
from pathlib import Path

import httpx
import psycopg
import pytest

from gristmill.db import local_server
from tests.gristmill_process import ServeProcess, environment, run_serve
from tests.wait_until import wait_until

NOTES = 200


def add_notes(server: ServeProcess) -> str:
    with server.client() as http:
        base = http.post("/api/knowledge-bases", json={"name": "notes"}).json()["id"]
        notes = [{"type": "note", "content": f"Note number {n}: the mill of day {n}."} for n in range(NOTES)]
        response = http.post(f"/api/knowledge-bases/{base}/items", json={"items": notes})
        assert response.status_code == 202
        assert len(response.json()["created"]) == NOTES
    return base


def counts(server: ServeProcess, base: str) -> dict[str, int]:
    with server.client() as http:
        return http.get(f"/api/knowledge-bases/{base}").json()["itemCounts"]


async def reconciler_repairs(server: ServeProcess) -> dict[str, int]:
    """What the reconciler repairs; leases and transactions should leave nothing to repair."""
    with server.client() as http:
        job_id = http.post("/api/health/reconciler").json()["jobId"]

        async def repairs() -> dict[str, int] | None:
            reconciler = http.get("/api/health/reconciler").json()
            return reconciler["damage"] if reconciler["jobId"] == job_id else None

        return await wait_until(repairs)


async def test_a_server_killed_while_indexing_finishes_everything_after_a_restart(
    data_dir: Path, tmp_path: Path, cache_dir: Path
) -> None:
    """S1-19, S4-69, promise 1 and 2; S4-06, S4-07."""
    env = environment(data_dir, cache_dir, lease="2")
    with run_serve(env, log=tmp_path / "log") as server:
        base = add_notes(server)

        async def some_done() -> bool:
            return counts(server, base).get("completed", 0) >= 20

        await wait_until(some_done, every=0.02)
        server.kill()
    with run_serve(env, log=tmp_path / "log") as server:
        before = counts(server, base)

        async def all_done() -> bool:
            return counts(server, base) == {"completed": NOTES}

        await wait_until(all_done, limit=60)
        with server.client() as http:
            assert http.get("/api/health/invariants").json() == {"violations": []}
        assert before.get("completed", 0) < NOTES, "it was killed too late to show anything"
        _assert_each_once(data_dir)
        assert set((await reconciler_repairs(server)).values()) == {0}
        assert server.stop() == 0


def _assert_each_once(data_dir: Path) -> None:
    server = local_server.start(data_dir)
    try:
        with psycopg.connect(server.url) as connection:
            rows = connection.execute(
                "select count(*), count(distinct item_id), min(version), max(version) from chunk"
            ).fetchone()
            remaining_jobs = connection.execute(
                "select count(*) from job where kind <> 'tidy_base'"
            ).fetchone()
            completed_jobs = connection.execute(
                "select count(*) from job_history where outcome = 'done' and kind = 'index_document'"
            ).fetchone()
    finally:
        server.close()
    assert rows == (NOTES, NOTES, 1, 1)
    assert remaining_jobs == (0,)
    assert completed_jobs == (NOTES,)


POINTS = [
    "add.rows_inserted",
    "add.before_commit",
    "worker.claimed",
    "index.embedded",
    "publish.before_commit",
    "index.batch_written",
]


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_a_named_point_leaves_no_partial_state(
    point: str, database_url: str, tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str]
) -> None:
    """S0-24 and S0-26 as decided in C4: rows and jobs commit together."""
    settings = {"database_url": database_url, "lease": "PT1S", **quick_embedder}
    dying = environment(tmp_path / "data", cache_dir, faults=f"{point}=kill", **settings)
    is_committed = not point.startswith("add.")
    with run_serve(dying, log=tmp_path / "log") as server, server.client() as http:
        base = http.post("/api/knowledge-bases", json={"name": "notes"}).json()["id"]
        with contextlib.suppress(httpx.HTTPError):  # it may die before it responds
            http.post(
                f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "note", "content": "Flour."}]}
            )
        assert server.process.wait(120) == -9
    with run_serve(environment(tmp_path / "data", cache_dir, **settings), log=tmp_path / "log") as server:

        async def is_settled() -> bool:
            return counts(server, base) == ({"completed": 1} if is_committed else {})

        await wait_until(is_settled)
        with server.client() as http:
            hits = http.post(f"/api/knowledge-bases/{base}/search", json={"query": "flour"}).json()["hits"]
            assert http.get("/api/health/invariants").json() == {"violations": []}
        assert len(hits) == (1 if is_committed else 0)
        assert set((await reconciler_repairs(server)).values()) == {0}
        server.stop()


@pytest.mark.parametrize(
    "fault",
    [
        "remove.before_commit=kill@1",  # its chunks
        "remove.before_commit=kill@6",  # its items
        "remove.batch=kill@1",
        "remove.base_dropped=kill",
    ],
)
async def test_a_kill_on_either_side_of_a_batch_leaves_a_base_that_is_removed_to_its_end(
    fault: str, database_url: str, tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str]
) -> None:
    """S0-34, S1-19, S1-20: nothing of it is visible in between, and the receipt counts everything once."""
    settings = {"database_url": database_url, "lease": "PT1S", **quick_embedder}
    dying = environment(tmp_path / "data", cache_dir, faults=fault, **settings)
    with run_serve(dying, log=tmp_path / "log") as server, server.client() as http:
        base = http.post("/api/knowledge-bases", json={"name": "notes"}).json()["id"]
        notes = [{"type": "note", "content": f"Flour {number}."} for number in range(3)]
        http.post(f"/api/knowledge-bases/{base}/items", json={"items": notes})

        async def is_filled() -> bool:
            return counts(server, base) == {"completed": 3}

        await wait_until(is_filled)
        job_id = http.delete(f"/api/knowledge-bases/{base}").json()["jobId"]
        assert server.process.wait(120) == -9
    with run_serve(environment(tmp_path / "data", cache_dir, **settings), log=tmp_path / "log") as server:
        with server.client() as http:
            assert http.get(f"/api/knowledge-bases/{base}").status_code == 404

            async def is_done() -> bool:
                return http.get(f"/api/jobs/{job_id}").json()["state"] == "done"

            await wait_until(is_done)
            receipt = http.get(f"/api/jobs/{job_id}").json()["result"]
            assert http.get("/api/health/invariants").json() == {"violations": []}
        assert receipt == {"items": 3, "chunks": 3, "contents": 3, "blobs": 0}
        with psycopg.connect(database_url) as connection:
            remaining = connection.execute(
                "select (select count(*) from base), (select count(*) from item), (select count(*) from chunk),"
                " (select count(*) from segment), (select count(*) from deleted_chunk)"
            ).fetchone()
        assert remaining == (0, 0, 0, 0, 0)
        server.stop()
