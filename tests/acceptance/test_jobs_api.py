"""Dead letters through the API."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from gristmill import app, faults
from tests.api_calls import add_items, assert_healthy, assert_problem, make_base, search, wait_until_ended
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


async def test_a_dead_job_is_visible_and_can_be_retried_once_the_cause_is_gone(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """S2-39: a job is retried, then dead; after that a user can retry it."""
    path = tmp_path / "a.md"
    path.write_bytes(b"\0\0")
    base = await make_base(http)
    (item,) = (await add_items(http, base, {"type": "file", "path": str(path)}))["created"]
    assert (await wait_until_ended(http, item["id"]))["status"] == "failed"
    (job,) = (await http.get("/api/jobs", params={"state": "dead", "baseId": base})).json()["items"]
    assert (job["kind"], job["subject"], job["attempt"]) == ("index_document", item["id"], 1)
    assert [error["code"] for error in job["errors"]] == ["unsupported_type"]
    path.write_text("Barley.")
    again = await http.post(f"/api/jobs/{job['id']}/retry")
    assert (again.status_code, again.json()["attempt"]) == (202, 0)

    async def is_completed() -> bool:
        return (await http.get(f"/api/knowledge-items/{item['id']}")).json()["status"] == "completed"

    await wait_until(is_completed)
    assert len(await search(http, base, "barley")) == 1

    async def is_job_done() -> bool:
        return (await http.get(f"/api/jobs/{job['id']}")).json()["state"] == "done"

    await wait_until(is_job_done)
    assert_problem(await http.post(f"/api/jobs/{job['id']}/retry"), 409, "job_not_dead")
    assert_problem(await http.post(f"/api/jobs/{job['id']}/cancel"), 409, "job_not_active")


async def list_dead_jobs(http: httpx.AsyncClient, base: str) -> list[dict[str, Any]]:
    response = await http.get("/api/jobs", params={"state": "dead", "baseId": base})
    return response.json()["items"]


async def dead_jobs(http: httpx.AsyncClient, base: str) -> list[dict[str, Any]]:
    """The dead jobs, while no work is going on: the queue counts as many."""
    jobs = await list_dead_jobs(http, base)
    queue = (await http.get("/api/queue")).json()
    (lane,) = [lane for lane in queue["lanes"] if lane["lane"] == base]
    assert lane["dead"] == queue["dead"] == len(jobs)
    return jobs


async def test_a_dead_job_ends_when_its_cause_is_gone(http: httpx.AsyncClient, tmp_path: Path) -> None:
    """S2-39: a newer failure replaces it, and newer work, a success or a deletion of the item ends it."""
    path = tmp_path / "a.md"
    path.write_bytes(b"\0\0")
    base = await make_base(http)
    (item,) = (await add_items(http, base, {"type": "file", "path": str(path)}))["created"]
    await wait_until_ended(http, item["id"])
    (first,) = await dead_jobs(http, base)

    await http.post(f"/api/knowledge-items/{item['id']}/reprocess")

    async def has_newer_dead_job() -> bool:
        return [job["id"] for job in await list_dead_jobs(http, base)] not in ([first["id"]], [])

    await wait_until(has_newer_dead_job)
    (second,) = await dead_jobs(http, base)
    assert (await http.get(f"/api/jobs/{first['id']}")).json()["state"] == "dismissed"

    path.write_text("Barley.")
    await http.post(f"/api/knowledge-items/{item['id']}/reprocess")

    async def is_completed() -> bool:
        return (await http.get(f"/api/knowledge-items/{item['id']}")).json()["status"] == "completed"

    await wait_until(is_completed)
    assert await dead_jobs(http, base) == []
    job = (await http.get(f"/api/jobs/{second['id']}")).json()
    assert (job["state"], [error["code"] for error in job["errors"]]) == (
        "dismissed",
        ["unsupported_type"],
    )

    path.write_bytes(b"\0\0")
    await http.post(f"/api/knowledge-items/{item['id']}/reprocess")

    async def is_dead() -> bool:
        return bool(await list_dead_jobs(http, base))

    await wait_until(is_dead)
    assert (await http.delete(f"/api/knowledge-items/{item['id']}")).status_code == 202
    assert await dead_jobs(http, base) == []
    await assert_healthy(http)


async def test_a_dead_job_is_dismissed_by_itself(http: httpx.AsyncClient, tmp_path: Path) -> None:
    """The document is not touched."""
    base = await make_base(http)
    paths = [tmp_path / "a.md", tmp_path / "b.md"]
    for path in paths:
        path.write_bytes(b"\0\0")
    result = await add_items(http, base, *({"type": "file", "path": str(path)} for path in paths))
    for item in result["created"]:
        await wait_until_ended(http, item["id"])
    dismissed_job, kept_job = await dead_jobs(http, base)
    answer = await http.post(f"/api/jobs/{dismissed_job['id']}/dismiss")
    assert (answer.status_code, answer.json()["state"]) == (200, "dismissed")
    assert (await http.delete(f"/api/jobs/{kept_job['id']}")).status_code == 204
    assert await dead_jobs(http, base) == []
    for job in (dismissed_job, kept_job):
        assert_problem(await http.delete(f"/api/jobs/{job['id']}"), 409, "job_not_dead")
        assert_problem(await http.post(f"/api/jobs/{job['id']}/retry"), 409, "job_not_dead")
        item = (await http.get(f"/api/knowledge-items/{job['subject']}")).json()
        assert (item["status"], item["error"]["code"]) == ("failed", "unsupported_type")
    assert_problem(await http.delete(f"/api/jobs/{uuid4()}"), 404, "job_not_found")
    await assert_healthy(http)


async def test_a_cancelled_job_leaves_its_item_failed_not_stuck(
    http: httpx.AsyncClient, mill: app.Gristmill
) -> None:
    """S4-49, promise 1: both a queued and a running job; S4-43."""
    base = await make_base(http)
    async with mill.db.connection() as tx:
        await tx.execute("insert into lane (lane, paused) values (%s, true)", [base])
    (waiting,) = (await add_items(http, base, {"type": "note", "content": "one"}))["created"]
    (job,) = (await http.get("/api/jobs", params={"itemId": waiting["id"]})).json()["items"]
    cancelled_job = (await http.post(f"/api/jobs/{job['id']}/cancel")).json()
    assert (cancelled_job["state"], cancelled_job["band"], cancelled_job["maxAttempts"]) == (
        "cancelled",
        "interactive",
        10,
    )
    assert (await wait_until_ended(http, waiting["id"]))["error"]["code"] == "cancelled"

    other_base = await make_base(http, "other")
    with faults.watch("index.embedded", hold=True) as fault:
        (running,) = (await add_items(http, other_base, {"type": "note", "content": "two"}))["created"]
        await fault.passed.wait()
        (job,) = (await http.get("/api/jobs", params={"itemId": running["id"]})).json()["items"]
        assert (await http.post(f"/api/jobs/{job['id']}/cancel")).json()["state"] == "running"
        assert (await wait_until_ended(http, running["id"]))["error"]["code"] == "cancelled"

    async def is_stopped() -> bool:
        return (await http.get(f"/api/jobs/{job['id']}")).json()["state"] in ("cancelled", "done")

    await wait_until(is_stopped)
    assert (await http.get(f"/api/knowledge-items/{running['id']}")).json()["status"] == "failed"
    assert await search(http, other_base, "two") == []
    assert (await http.get("/api/health/invariants")).json() == {"violations": []}


async def test_an_unknown_job_is_not_found(http: httpx.AsyncClient) -> None:
    for unknown in (str(uuid4()), "x"):
        assert_problem(await http.get(f"/api/jobs/{unknown}"), 404, "job_not_found")
        assert_problem(await http.post(f"/api/jobs/{unknown}/retry"), 404, "job_not_found")
        assert_problem(await http.post(f"/api/jobs/{unknown}/cancel"), 404, "job_not_found")
    assert_problem(await http.get("/api/jobs", params={"state": "stuck"}), 422, "invalid_request")
