"""A budget of 1,000 chunks with four worker processes that are killed: it is never exceeded, and everything goes on when it is raised."""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests import process_template
from tests.embedding import endpoint
from tests.gristmill_process import environment, run_serve
from tests.wait_until import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.crash]

BUDGET, DOCUMENTS, PARAGRAPHS = 1000, 60, 9
LARGEST_BATCH = 200


def document(number: int) -> str:
    """A document of many chunks; no text occurs twice."""
    paragraphs = [" ".join(f"w{number}x{part}y{word}" for word in range(14)) for part in range(PARAGRAPHS)]
    return "\n\n".join(f"# Part {number}.{part}\n\n{text}" for part, text in enumerate(paragraphs))


def start_worker(env: Mapping[str, str], log: Path) -> process_template.Process:
    with log.open("a") as stderr:
        return process_template.start(["gristmill", "worker"], env, stdout=stderr, stderr=stderr)


async def test_a_budget_holds_with_four_workers_and_kills(
    database_url: str, tmp_path: Path, cache_dir: Path
) -> None:
    """Spent and reserved never exceed the budget; what a killed worker had reserved is given back; nothing is counted twice."""
    with ExitStack() as stack:
        embedder = stack.enter_context(endpoint.serve())
        settings = {**endpoint.embedder_settings(embedder.url), "database_url": database_url, "lease": "PT5S"}
        env = environment(tmp_path / "data", cache_dir, **settings, worker_processes="0")
        server = stack.enter_context(run_serve(env, log=tmp_path / "log"))
        http = stack.enter_context(server.client())
        chunking = {"maxTokens": 32}
        base = http.post("/api/knowledge-bases", json={"name": "notes", "chunking": chunking}).json()["id"]
        limit = {"kind": "budget", "measure": "chunks", "period": "total", "amount": BUDGET, "baseId": base}
        budget = http.post("/api/limits", json=limit).json()
        notes = [{"type": "note", "content": document(number)} for number in range(DOCUMENTS)]
        http.post(f"/api/knowledge-bases/{base}/items", json={"items": notes}).raise_for_status()
        connection = stack.enter_context(psycopg.connect(database_url, autocommit=True))
        workers = [start_worker(env, tmp_path / "log") for _ in range(4)]
        try:
            for killed, spent in enumerate((100, 400, 700)):
                await wait_until(lambda spent=spent: _is_spent(http, budget, spent), every=0.02)
                workers[killed].kill()
                workers.append(start_worker(env, tmp_path / "log"))

            async def is_paused() -> bool:
                """Everything is spent, and all that is left waits: a job that pauses while the budget is raised looks again a minute later."""
                counts = http.get(f"/api/knowledge-bases/{base}").json()["itemCounts"]
                waiting = _waiting(http, base)["budget_used_up"]
                return _limit(http, budget)["used"] == BUDGET and waiting == DOCUMENTS - counts.get(
                    "completed", 0
                )

            await wait_until(is_paused)
            texts = Counter(text for request in embedder.requests for text in request.body["input"])
            written = _count(connection, "select count(*) from chunk")
            assert written == _count(connection, "select sum(texts) from usage_day") == BUDGET
            # What killed workers had sent and not written was sent again: at most two batches of each.
            assert len(texts) <= BUDGET + 3 * 2 * LARGEST_BATCH
            assert _count(connection, "select count(*) from usage_reservation") == 0
            http.patch(f"/api/limits/{budget['id']}", json={"amount": 10 * BUDGET}).raise_for_status()

            async def is_done() -> bool:
                return http.get(f"/api/knowledge-bases/{base}").json()["itemCounts"] == {
                    "completed": DOCUMENTS
                }

            await wait_until(is_done)
            written = _count(connection, "select count(*) from chunk")
            assert written > BUDGET
            assert _count(connection, "select sum(texts) from usage_day") == written, "each text once"
            assert http.get("/api/health/invariants").json() == {"violations": []}
        finally:
            for worker in workers:
                worker.kill()
                worker.wait(120)


async def _is_spent(http: httpx.Client, budget: dict[str, Any], amount: int) -> bool:
    shown = _limit(http, budget)
    assert shown["used"] + shown["reserved"] <= BUDGET
    return shown["used"] >= amount


def _limit(http: httpx.Client, budget: dict[str, Any]) -> dict[str, Any]:
    return next(row for row in http.get("/api/limits").json()["items"] if row["id"] == budget["id"])


def _waiting(http: httpx.Client, base: str) -> Counter[str]:
    items = http.get(f"/api/knowledge-bases/{base}/items", params={"limit": 200}).json()["items"]
    return Counter(item["waitingFor"]["code"] for item in items if item["waitingFor"])


def _count(connection: "psycopg.Connection[Any]", query: Any) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0] or 0)
