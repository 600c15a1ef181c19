"""A run survives kill -9: afterwards the base equals the tool, for every tool."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.connectors.fakes.tool import SECRET, FakeTool, serve_fake
from tests.connectors.harness import FAKES
from tests.gristmill_process import environment, run_serve
from tests.wait_until import wait_until

pytestmark = pytest.mark.crash

BEFORE, AFTER, PRUNING = "sync.before_commit=kill@3", "sync.saved=kill@4", "prune.before_commit=kill@1"
KILLS = [
    ("github", BEFORE),
    ("github", AFTER),
    ("github", PRUNING),
    *(
        pytest.param(kind, point, marks=pytest.mark.thorough)
        for kind, point in (
            ("gitlab", AFTER),
            ("jira", BEFORE),
            ("jira_data_center", PRUNING),
            ("confluence", AFTER),
            ("confluence_data_center", BEFORE),
        )
    ),
]


def _post(client: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = client.post(f"/api{path}", json=body)
    assert response.is_success, response.text
    return response.json()


@pytest.mark.parametrize(("kind", "point"), KILLS)
async def test_a_killed_run_is_resumed_and_nothing_is_lost_or_read_twice(
    database_url: str,
    tmp_path: Path,
    cache_dir: Path,
    quick_embedder: dict[str, str],
    kind: str,
    point: str,
) -> None:
    """kill -9 on either side of a commit: the base equals the tool, and only the batch under way is read again; S2-13."""
    with serve_fake(FAKES[kind]()) as tool:
        await _kill_and_restart(
            tool,
            point,
            tmp_path,
            environment(
                tmp_path / "data",
                cache_dir,
                database_url=database_url,
                lease="2",
                **quick_embedder,
            ),
        )


async def _kill_and_restart(tool: FakeTool, point: str, tmp_path: Path, env: dict[str, str]) -> None:
    for _ in range(12):
        tool.add()
    log = tmp_path / "log"
    with run_serve({**env, "GRISTMILL_FAULTS": point}, log=log) as server, server.client() as client:
        base = _post(client, "/knowledge-bases", {"name": "b"})
        connector = _post(
            client,
            "/connectors",
            {
                "name": "c",
                "type": tool.kind,
                "config": tool.config(),
                "credentials": tool.credentials(),
                "knowledgeBaseIds": [base["id"]],
                "schedule": "0 0 29 2 *",
                "aclSchedule": "0 0 29 2 *",
            },
        )
        run = _post(client, f"/connectors/{connector['id']}/sync", {})
        if point.startswith("prune"):
            await ended_run(client, run["runId"])
            tool.delete(3)
            tool.advance_clock()
            run = _post(client, f"/connectors/{connector['id']}/sync", {})
        await asyncio.to_thread(server.process.wait, 60)
    before = tool.detail_calls()
    with run_serve(env, log=log) as server, server.client() as client:
        completed = await ended_run(client, run["runId"])
        assert completed["status"] == "success", completed
        after = tool.detail_calls()[len(before) :]
        assert len(set(before) & set(after)) <= tool.page_size * 3
        page = client.get(f"/api/knowledge-bases/{base['id']}/items?parentId=*&type=record&limit=500").json()
        items = {item["source"]["sourceId"]: item for item in page["items"]}
        assert set(items) == set(tool.expected_documents())
        assert all(item["status"] == "completed" for item in items.values())
        assert client.get("/api/health/invariants").json() == {"violations": []}
        assert SECRET not in repr(page)
    assert SECRET not in log.read_text()


async def ended_run(client: httpx.Client, run_id: str) -> dict[str, Any]:
    """A run, once it has ended."""

    async def run_if_ended() -> dict[str, Any] | None:
        response = await asyncio.to_thread(client.get, f"/api/connector-runs/{run_id}")
        run = response.json()
        return run if run["completedAt"] is not None else None

    return await wait_until(run_if_ended, limit=60, every=0.1)
