"""Receivers that hang use slots of their own: ingestion doesn't wait for them, and neither do other organisations."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from uuid import UUID

import httpx
import pytest

from gristmill import app, events, jobs
from gristmill.catalog import BaseId
from gristmill.db import Database
from gristmill.events import webhook_delivery
from gristmill.identity import LOCAL_ORG, OrgId
from gristmill.operations import webhooks
from gristmill.settings import Settings
from tests.events.receiver import Receiver, receiving
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

HANGING = 120
NOTES = 200
OTHER_ORG = OrgId(UUID(int=7))
LANE = UUID(int=70)  # the lane of the other organisation's events


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Receivers are on this machine, and a worker that stops doesn't wait for those that hang."""
    update = {"allow_private_addresses": True, "stop_grace": timedelta(milliseconds=50), "webhook_slots": 8}
    return settings.model_copy(update=update)


@pytest.fixture(autouse=True)
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request to a receiver that hangs doesn't end while the test runs."""
    monkeypatch.setattr(webhook_delivery, "TIMEOUT", timedelta(hours=1))


@pytest.fixture
async def silent() -> AsyncGenerator[Receiver]:
    """A receiver that never answers."""
    async with receiving(lambda _: None) as receiver:
        yield receiver


async def create_hooks(mill: app.Gristmill, url: str, count: int, org: OrgId = LOCAL_ORG) -> None:
    for _ in range(count):
        await webhooks.create(mill.db, mill.context.vault, mill.context.sender, limit=count, org=org, url=url)


async def add_organisation(db: Database) -> None:
    """An organisation with a lane for its events."""
    async with db.transaction() as tx:
        await tx.execute("insert into organisation (id, name) values (%s, 'other')", [OTHER_ORG])
        await jobs.set_lane_owner(tx, str(LANE), OTHER_ORG)


async def record_event(db: Database) -> None:
    async with db.transaction() as tx:
        await events.record(tx, events.BaseChanged(BaseId(LANE), "x"))


async def test_notes_are_ingested_while_every_webhook_hangs(
    mill: app.Gristmill, http: httpx.AsyncClient, silent: Receiver
) -> None:
    """With 120 receivers that hang for good, 200 notes are searchable, and the organisation's share of slots is all
    that hangs."""
    base = (await http.post("/api/knowledge-bases", json={"name": "notes"})).json()["id"]
    await create_hooks(mill, silent.url, HANGING)
    share = webhook_delivery.share_of_organisation(mill.settings.webhook_slots)
    notes = [{"type": "note", "content": f"note {number}"} for number in range(NOTES)]
    await http.post(f"/api/knowledge-bases/{base}/items", json={"items": notes[:1]})
    await silent.wait_for_requests(share)
    await http.post(f"/api/knowledge-bases/{base}/items", json={"items": notes[1:]})

    async def are_ingested() -> bool:
        items = await http.get(
            f"/api/knowledge-bases/{base}/items", params={"status": "completed", "limit": 500}
        )
        return len(items.json()["items"]) == NOTES

    await wait_until(are_ingested)
    assert len(silent.requests) == share
    async with mill.db.connection() as tx:
        rows = await (
            await tx.execute(
                "select count(*) from job where kind = 'deliver_events' group by lane having count(*) > 1"
            )
        ).fetchall()
    assert rows == [], "each webhook has one job"


async def test_an_organisation_is_sent_its_events_while_the_webhooks_of_another_hang(
    mill: app.Gristmill, http: httpx.AsyncClient, silent: Receiver
) -> None:
    await add_organisation(mill.db)
    await create_hooks(mill, silent.url, HANGING)
    share = webhook_delivery.share_of_organisation(mill.settings.webhook_slots)
    async with receiving() as receiver:
        await create_hooks(mill, receiver.url, 2, OTHER_ORG)
        await http.post("/api/knowledge-bases", json={"name": "one"})
        await silent.wait_for_requests(share)
        await record_event(mill.db)
        await receiver.wait_for_requests(2)
    assert len(silent.requests) == share


async def test_a_slow_receiver_does_not_delay_the_others(
    mill: app.Gristmill, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver with more events than fit into one turn goes to the end of the queue."""
    monkeypatch.setattr(webhook_delivery, "_TURN", timedelta(0))
    share = webhook_delivery.share_of_organisation(mill.settings.webhook_slots)
    async with receiving() as receiver:
        await create_hooks(mill, receiver.url, 2 * share)
        for name in ("one", "two", "three"):
            await http.post("/api/knowledge-bases", json={"name": name})
        await receiver.wait_for_requests(6 * share)
    by_webhook: dict[str, list[str]] = {}
    for request in receiver.requests:
        webhook, _, position = request.headers["webhook-id"].partition("_")
        by_webhook.setdefault(webhook, []).append(position)
    assert len(by_webhook) == 2 * share
    assert all(positions == sorted(positions, key=int) for positions in by_webhook.values())


async def test_an_organisation_has_a_limited_number_of_webhooks(
    settings: Settings, database_url: str
) -> None:
    """The limit holds for concurrent requests; a deletion makes room."""
    limited_settings = settings.model_copy(update={"max_webhooks": 3, "embedder": "granite-30m-en"})
    async with app.gristmill(limited_settings, work=False) as mill:
        transport = httpx.ASGITransport(app=mill.api)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            body = {"url": "http://127.0.0.1:9/hook"}
            responses = await asyncio.gather(*(http.post("/api/webhooks", json=body) for _ in range(6)))
            assert sorted(response.status_code for response in responses) == [201] * 3 + [409] * 3
            (rejection, *_) = [response.json() for response in responses if response.status_code == 409]
            assert rejection["code"] == "too_many_webhooks"
            assert "3" in rejection["detail"]
            created = next(response.json() for response in responses if response.status_code == 201)
            assert (await http.delete(f"/api/webhooks/{created['id']}")).status_code == 204
            assert (await http.post("/api/webhooks", json=body)).status_code == 201
