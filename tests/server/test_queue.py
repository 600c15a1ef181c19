"""The queue, its lanes, paused bases, workers and embedders through the API."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.identity import LOCAL_ORG
from gristmill.server.api.routes.queue import STEPS
from gristmill.settings import Settings
from tests.database_clock import DatabaseClock
from tests.server.clients import client_with_key, new_key, new_organisation
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """The usual settings, or with what the test sets."""
    return settings.model_copy(update=getattr(request, "param", {}))


async def create_base(http: httpx.AsyncClient, name: str = "mill") -> str:
    return (await http.post("/api/knowledge-bases", json={"name": name})).json()["id"]


async def add_notes(http: httpx.AsyncClient, base_id: str, *contents: str) -> list[str]:
    notes = [{"type": "note", "content": content} for content in contents]
    response = await http.post(f"/api/knowledge-bases/{base_id}/items", json={"items": notes})
    return [item["id"] for item in response.json()["created"]]


async def item_counts(http: httpx.AsyncClient, base_id: str) -> dict[str, int]:
    return (await http.get(f"/api/knowledge-bases/{base_id}")).json()["itemCounts"]


async def find_lane(http: httpx.AsyncClient, base_id: str) -> dict[str, Any]:
    queue = (await http.get("/api/queue")).json()
    return next(lane for lane in queue["lanes"] if lane["id"] == base_id)


async def test_a_paused_base_starts_no_jobs_until_it_is_resumed(http: httpx.AsyncClient) -> None:
    """Jobs of another base run meanwhile."""
    paused_base, other_base = await create_base(http), await create_base(http, "other")
    assert (await http.post(f"/api/knowledge-bases/{paused_base}/queue/pause")).status_code == 204
    await add_notes(http, paused_base, "rye", "oats")
    await add_notes(http, other_base, "wheat")

    async def is_other_done() -> bool:
        return await item_counts(http, other_base) == {"completed": 1}

    await wait_until(is_other_done)
    assert await item_counts(http, paused_base) == {"processing": 2}
    lane = await find_lane(http, paused_base)
    assert (lane["paused"], lane["waiting"], lane["running"]) == (True, 2, 0)
    assert (await http.get(f"/api/knowledge-bases/{paused_base}/queue")).json()["paused"] is True
    assert (await http.get("/api/health/invariants")).json() == {"violations": []}
    assert (await http.post(f"/api/knowledge-bases/{paused_base}/queue/resume")).status_code == 204

    async def is_done() -> bool:
        return await item_counts(http, paused_base) == {"completed": 2}

    await wait_until(is_done)
    assert (await find_lane(http, paused_base))["paused"] is False


@pytest.mark.parametrize("settings", [{"max_queue_per_base": 2}], indirect=True)
async def test_the_queue_shows_its_size_and_activity_and_refuses_beyond_its_limit(
    http: httpx.AsyncClient,
) -> None:
    """S4-21, S4-54: for one base and for all; what was cancelled is gone from it."""
    held, other = await create_base(http), await create_base(http, "other")
    await http.post(f"/api/knowledge-bases/{held}/queue/pause")
    waiting = await add_notes(http, held, "rye", "oats")
    queue = (await http.get(f"/api/knowledge-bases/{held}/queue")).json()
    assert (queue["queueSize"], queue["processingCount"], queue["perStage"]) == (2, 0, {"index_document": 2})
    assert (queue["activeItemIds"], len(waiting)) == ([], 2)
    assert (await http.get(f"/api/knowledge-bases/{other}/queue")).json()["queueSize"] == 0
    everything = (await http.get("/api/queue")).json()
    assert (everything["waiting"], everything["running"]) == (2, 0)
    full = await http.post(
        f"/api/knowledge-bases/{held}/items", json={"items": [{"type": "note", "content": "wheat"}]}
    )
    assert (full.status_code, full.json()["code"]) == (429, "queue_full")
    (job, _) = (await http.get("/api/jobs", params={"baseId": held})).json()["items"]
    assert (await http.post(f"/api/jobs/{job['id']}/cancel")).status_code == 202
    assert (await http.get(f"/api/knowledge-bases/{held}/queue")).json()["queueSize"] == 1


async def test_a_paused_base_can_be_deleted_and_leaves_nothing(http: httpx.AsyncClient) -> None:
    paused_base = await create_base(http)
    await http.post(f"/api/knowledge-bases/{paused_base}/queue/pause")
    await add_notes(http, paused_base, "rye")
    job = (await http.delete(f"/api/knowledge-bases/{paused_base}")).json()["jobId"]

    async def is_removed() -> bool:
        return (await http.get(f"/api/jobs/{job}")).json()["state"] == "done"

    await wait_until(is_removed)


async def test_the_queue_shows_finished_jobs_by_lane(http: httpx.AsyncClient) -> None:
    base_id = await create_base(http)
    await add_notes(http, base_id, *(f"grain {n}" for n in range(5)))

    async def is_done() -> bool:
        queue = (await http.get("/api/queue", params={"minutes": 15})).json()
        return sum(queue["done"]) >= 5 and queue["waiting"] == 0

    await wait_until(is_done)
    queue = (await http.get("/api/queue", params={"minutes": 15})).json()
    assert len(queue["done"]) == STEPS
    assert queue["stepSeconds"] == 15
    mine = await find_lane(http, base_id)
    assert (mine["kind"], mine["name"], mine["etaSeconds"]) == ("base", "mill", 0)
    assert mine["ratePerMinute"] >= 5
    assert sum(mine["done"]) == sum(queue["done"])


async def test_dead_jobs_are_retried_together_and_named_by_their_items(http: httpx.AsyncClient) -> None:
    """Jobs whose cause is not fixed become dead again."""
    base_id = await create_base(http)
    files = [("files", (f"{n}.bin", bytes([0, 1, 2, 255, n]) * 50)) for n in range(3)]
    await http.post(f"/api/knowledge-bases/{base_id}/files", files=files)

    async def dead() -> list[Any]:
        jobs = (await http.get("/api/jobs", params={"state": "dead"})).json()["items"]
        return jobs if len(jobs) == 3 else []

    jobs = await wait_until(dead)
    assert {job["title"] for job in jobs} == {"0.bin", "1.bin", "2.bin"}
    alone = await http.get(f"/api/jobs/{jobs[0]['id']}")
    assert alone.json()["title"] == jobs[0]["title"]
    elsewhere = await http.post("/api/jobs/retry", json={"baseId": await create_base(http, "other")})
    assert elsewhere.json() == {"retried": 0}
    assert (await http.post("/api/jobs/retry")).json() == {"retried": 3}

    async def dead_again() -> bool:
        jobs = (await http.get("/api/jobs", params={"state": "dead"})).json()["items"]
        return len([job for job in jobs if len(job["errors"]) == 2]) == 3

    await wait_until(dead_again)


async def test_concurrent_retries_queue_each_job_once(http: httpx.AsyncClient) -> None:
    base_id = await create_base(http)
    await http.post(
        f"/api/knowledge-bases/{base_id}/files", files=[("files", ("a.bin", bytes([0, 1, 2, 255, 7]) * 50))]
    )

    async def dead() -> bool:
        return bool((await http.get("/api/jobs", params={"state": "dead"})).json()["items"])

    await wait_until(dead)
    await http.post(
        f"/api/knowledge-bases/{base_id}/queue/pause"
    )  # so that queued jobs stay queued and can be counted
    answers = await asyncio.gather(*(http.post("/api/jobs/retry") for _ in range(4)))
    assert sum(answer.json()["retried"] for answer in answers) == 1


async def test_the_queue_and_retries_cover_one_organisation(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    base_id = await create_base(http)
    await http.post(
        f"/api/knowledge-bases/{base_id}/files", files=[("files", ("a.bin", bytes([0, 1, 2, 255, 7]) * 50))]
    )

    async def dead() -> bool:
        return bool((await http.get("/api/jobs", params={"state": "dead"})).json()["items"])

    await wait_until(dead)
    other_org = await new_organisation(mill.db, "theirs")
    assert other_org != LOCAL_ORG
    async with client_with_key(mill, (await new_key(mill.db, other_org, "admin"))[1]) as admin:
        queue = (await admin.get("/api/queue")).json()
        assert (queue["lanes"], queue["dead"], sum(queue["done"])) == ([], 0, 0)
        assert (await admin.post("/api/jobs/retry")).json() == {"retried": 0}
        assert (await admin.post("/api/jobs/retry", json={"baseId": base_id})).json() == {"retried": 0}
        assert (await admin.get("/api/workers")).json()["code"] == "operator_only"


async def test_workers_are_listed(http: httpx.AsyncClient) -> None:
    async def there() -> list[Any]:
        return (await http.get("/api/workers")).json()["items"]

    (worker,) = await wait_until(there)
    assert worker["alive"] is True
    assert worker["pid"] > 0
    assert worker["slots"] >= 1


async def test_an_embedder_can_be_tested(http: httpx.AsyncClient) -> None:
    embedders = (await http.get("/api/embedders")).json()["items"]
    default = next(embedder for embedder in embedders if embedder["isDefault"])
    assert default["name"] == "hashed"
    result = (await http.post("/api/embedders/test", json={"name": "hashed"})).json()
    assert (result["ok"], result["dimensions"], result["error"]) == (True, default["dimensions"], None)
    assert result["tookMs"] >= 0
    unknown = await http.post("/api/embedders/test", json={"name": "none"})
    assert (unknown.status_code, unknown.json()["code"]) == (422, "unknown_embedder")


async def test_events_are_read_backwards_with_their_titles_until_the_beginning(
    http: httpx.AsyncClient,
) -> None:
    kind = await create_base(http)
    (item,) = await add_notes(http, kind, "rye")

    async def is_done() -> bool:
        return await item_counts(http, kind) == {"completed": 1}

    await wait_until(is_done)
    forwards = (await http.get("/api/events", params={"limit": 500})).json()["items"]
    backwards: list[Any] = []
    before: str | None = str(2**63 - 1)
    while before is not None:
        page = (await http.get("/api/events", params={"before": before, "limit": 2})).json()
        backwards += page["items"]
        before = page["nextCursor"]
    assert [event["id"] for event in backwards] == [event["id"] for event in reversed(forwards)]
    assert (await http.get("/api/events", params={"before": 2**63 - 1})).json()["titles"] == {item: "rye"}


async def test_every_connector_kind_has_json_schemas(http: httpx.AsyncClient) -> None:
    kinds = {kind["type"]: kind for kind in (await http.get("/api/connector-kinds")).json()["items"]}
    assert {"github", "gitlab", "jira", "confluence", "s3", "git", "webdav"} <= set(kinds)
    assert (kinds["github"]["title"], kinds["git"]["title"]) == ("GitHub", "Git repository")
    token = kinds["gitlab"]["credentials"]["properties"]["token"]
    assert token["writeOnly"] is True
    assert kinds["gitlab"]["config"]["properties"]["projects"]["type"] == "array"


async def test_the_remaining_time_follows_from_the_pace_since_the_work_began(
    clock: DatabaseClock, mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """Ten jobs done in the first ten seconds leave ninety seconds for ninety jobs, whatever was done long before."""
    base = await create_base(http)
    await http.post(f"/api/knowledge-bases/{base}/queue/pause")
    async with mill.db.transaction() as tx:
        await tx.execute(
            "insert into job_history (id, kind, lane, outcome, priority, attempt, max_attempts, errors, created_at, started_at,"
            " finished_at) select uuidv7(), 'x', %(lane)s, 'done', 1, 1, 1, '[]', at, at, at"
            " from (select clock_now() - interval '5 minutes') before(at)",
            {"lane": base},
        )
    await add_notes(http, base, *(f"rye {n}" for n in range(90)))
    assert (await http.get(f"/api/knowledge-bases/{base}/queue")).json()["etaSeconds"] is None
    await clock.advance(timedelta(seconds=10))
    async with mill.db.transaction() as tx:
        await tx.execute(
            "insert into job_history (id, kind, lane, outcome, priority, attempt, max_attempts, errors, created_at, started_at,"
            " finished_at) select uuidv7(), 'x', %(lane)s, 'done', 1, 1, 1, '[]', t.at, t.at, clock_now()"
            " from (select clock_now() - interval '10 seconds') t(at), generate_series(1, 10)",
            {"lane": base},
        )
    assert (await http.get(f"/api/knowledge-bases/{base}/queue")).json()["etaSeconds"] == 90
    (lane,) = [lane for lane in (await http.get("/api/queue")).json()["lanes"] if lane["lane"] == base]
    assert lane["etaSeconds"] == 90
