"""Tools report changes themselves: a run starts at once, and any number of reports during a run leads to one more."""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from gristmill import app, faults
from gristmill.connectors import admin, push
from gristmill.connectors.model import ConnectorRun
from gristmill.errors import LimitReached
from gristmill.server.api.rate_limits import PushLimits
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import fake_tool_fixture
from tests.connectors.harness import ConnectorHarness
from tests.serve_api import serve_api
from tests.wait_until import reached, wait_until

pytestmark = pytest.mark.slow

tool = fake_tool_fixture(FakeGitHub)
BODY = b'{"action": "edited"}'


@pytest.fixture
async def client(mill: app.Gristmill) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a real server."""
    async with serve_api(mill) as url, httpx.AsyncClient(base_url=url) as http_client:
        yield http_client


def signed(secret: str, body: bytes = BODY) -> dict[str, str]:
    """The header that GitHub sends."""
    return {"X-Hub-Signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}


async def create_secret(client: httpx.AsyncClient, harness: ConnectorHarness) -> str:
    response = await client.post(f"/api/connectors/{harness.connector.id}/push/secret")
    assert response.status_code == 201
    return response.json()["secret"]


async def runs_of(harness: ConnectorHarness) -> list[ConnectorRun]:
    """All runs, oldest first."""
    async with harness.mill.db.connection() as tx:
        return (await admin.find_runs(tx, harness.connector.id, limit=100))[::-1]


async def wait_for_run(harness: ConnectorHarness, count: int) -> ConnectorRun:
    """Wait until so many runs have ended; the last of them."""

    async def last_run() -> ConnectorRun | None:
        await harness.run_delayed_jobs()
        runs = [run for run in await runs_of(harness) if run.completed_at is not None]
        return runs[-1] if len(runs) >= count else None

    return await wait_until(last_run)


async def test_a_proven_push_starts_a_run_and_others_do_not(
    client: httpx.AsyncClient, harness: ConnectorHarness
) -> None:
    path = f"/api/connectors/{harness.connector.id}/push"
    assert (await client.get(path)).json()["enabled"] is False
    without_secret = await client.post(path, content=BODY, headers=signed("guess"))
    secret = await create_secret(client, harness)
    wrong_calls: list[dict[str, Any]] = [
        {"headers": signed("guess")},
        {"headers": signed(secret, b"{}")},
        {"headers": {"X-Hub-Signature": "sha1=" + hmac.new(secret.encode(), BODY, "sha1").hexdigest()}},
        {"headers": {"X-Gitlab-Token": secret + "x"}},
        {"params": {"token": ""}},
        {},
    ]
    for call in wrong_calls:
        response = await client.post(path, content=BODY, **call)
        assert response.status_code == 404
        assert response.json() == without_secret.json()
    unknown = await client.post(f"/api/connectors/{uuid4()}/push", content=BODY, headers=signed(secret))
    assert unknown.json() == without_secret.json()
    assert (await client.post(path, content=b"x" * (1 << 20) + b"x")).status_code == 413
    assert await runs_of(harness) == []

    response = await client.post(path, content=BODY, headers=signed(secret))
    assert (response.status_code, response.json()) == (202, {"status": "started"})
    run = await wait_for_run(harness, 1)
    assert (run.trigger, run.status) == ("push", "success")
    await harness.assert_matches_tool()
    right_calls: list[dict[str, Any]] = [
        {"headers": {"X-Gitlab-Token": secret}},
        {"params": {"token": secret}},
    ]
    for number, call in enumerate(right_calls, start=2):
        assert (await client.post(path, content=BODY, **call)).status_code == 202
        assert (await wait_for_run(harness, number)).trigger == "push"
    assert (await client.get(path)).json()["lastPushAt"] is not None

    new_secret = await create_secret(client, harness)
    assert (await client.post(path, content=BODY, headers=signed(secret))).status_code == 404
    await harness.change(enabled=False)
    response = await client.post(path, content=BODY, headers=signed(new_secret))
    assert response.json() == {"status": "ignored"}
    assert (await client.delete(f"{path}/secret")).status_code == 204
    assert (await client.post(path, content=BODY, headers=signed(new_secret))).status_code == 404
    assert len(await runs_of(harness)) == 3


async def test_many_pushes_during_a_run_lead_to_one_run_after_it(
    client: httpx.AsyncClient, harness: ConnectorHarness
) -> None:
    """Also when they come at the same moment, and also when the same call is sent again."""
    secret = await create_secret(client, harness)
    path = f"/api/connectors/{harness.connector.id}/push"
    with faults.watch("sync.before_end", hold=True) as ending:
        run = await harness.start()
        await reached(ending)
        harness.tool.advance_clock(100)
        harness.tool.add()
        pushes = [
            asyncio.create_task(client.post(path, content=BODY, headers=signed(secret))) for _ in range(10)
        ]
    responses = await asyncio.gather(*pushes)
    assert [response.status_code for response in responses] == [202] * 10
    assert (await harness.wait_until_ended(run)).status == "success"
    assert (await wait_for_run(harness, 2)).trigger == "push"
    await harness.assert_matches_tool()
    counts = "select (select count(*) from job where subject = %s), (select count(*) from connector_push where due)"

    async def is_quiet() -> bool:
        await harness.run_delayed_jobs()
        return await harness.fetch(counts, harness.connector.id) == [(0, 0)]

    await wait_until(is_quiet)
    # Those that came before the second run began are part of it; of later ones, another run was made.
    assert len(await runs_of(harness)) <= 3


async def test_a_push_that_was_accepted_is_not_lost(
    client: httpx.AsyncClient, harness: ConnectorHarness
) -> None:
    """During a run it waits for the run's end; if its job is lost, the reconciler queues it again; a cancelled run takes it along."""
    secret = await create_secret(client, harness)
    path = f"/api/connectors/{harness.connector.id}/push"
    with faults.watch("sync.opened", hold=True) as opened:
        await harness.start()
        await reached(opened)
        response = await client.post(path, content=BODY, headers=signed(secret))
        assert response.json() == {"status": "queued"}
        assert await harness.fetch("select due from connector_push") == [(True,)]
        await admin.cancel_sync(harness.mill.db, harness.connector.id)
        assert await harness.fetch("select due from connector_push") == [(False,)]

    async def is_quiet() -> bool:
        return await harness.fetch("select 1 from job where subject = %s", harness.connector.id) == []

    await wait_until(is_quiet)
    async with harness.mill.db.transaction() as tx:
        await tx.execute("update connector_push set due = true")
        assert await push.repair(tx, 10) == 1
    assert (await wait_for_run(harness, 2)).trigger == "push"
    await harness.assert_matches_tool()


def test_a_flood_is_limited_by_connector_and_wrong_secrets_by_address() -> None:
    limits = PushLimits(failures=6, accepted=6)
    for take in (limits.take, limits.take_failure):
        take("one")
        with pytest.raises(LimitReached):
            take("one")
        take("another")
