"""Webhooks: signed, in order, at least once; refused events are retried, and given-up ones are shown."""

import asyncio
import json
from datetime import timedelta
from uuid import UUID

import httpx
import pytest
from standardwebhooks import Webhook as Reference
from standardwebhooks import WebhookVerificationError

from gristmill import app, events, faults, jobs
from gristmill.catalog import BaseId
from gristmill.db import Database
from gristmill.errors import LeaseLost
from gristmill.events import signature, webhook_delivery
from gristmill.events.webhook_store import WebhookId
from gristmill.identity import LOCAL_ORG
from gristmill.settings import Settings
from gristmill.work import DeliverEvents
from tests.events.receiver import Receiver, Request, receiving
from tests.events.webhook_calls import create_webhook, get_webhook, wait_until_paused
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Receivers are on this machine."""
    return settings.model_copy(update={"allow_private_addresses": True})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule of three short waits."""
    monkeypatch.setattr(webhook_delivery, "SCHEDULE", (timedelta(milliseconds=10),) * 3)


async def new_base(http: httpx.AsyncClient, name: str = "one") -> str:
    return (await http.post("/api/knowledge-bases", json={"name": name})).json()["id"]


async def record(db: Database, base: str, *names: object) -> None:
    async with db.transaction() as tx:
        await events.record(tx, *(events.BaseChanged(BaseId(UUID(base)), str(name)) for name in names))


def names(receiver: Receiver) -> list[str]:
    return [request.json["data"]["name"] for request in receiver.requests]


async def test_a_receiver_gets_events_in_order_and_every_request_is_signed(
    http: httpx.AsyncClient, receiver: Receiver
) -> None:
    """The reference implementation accepts the signatures."""
    base = await new_base(http)
    hook = await create_webhook(http, receiver.url)
    await http.post(
        f"/api/knowledge-bases/{base}/items", json={"items": [{"type": "note", "content": "rye"}]}
    )
    await receiver.wait_for_requests(6)
    listed_events = (await http.get("/api/events", params={"after": 1})).json()["items"]
    bodies = [request.json for request in receiver.requests]
    assert [{**event, "at": event["timestamp"]} | {"timestamp": 0} for event in bodies] == [
        {**event, "timestamp": 0} for event in listed_events
    ]
    for request in receiver.requests:
        Reference(hook["secret"]).verify(request.body, request.headers)
        with pytest.raises(WebhookVerificationError):
            Reference(hook["secret"]).verify(request.body + b" ", request.headers)
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 6
    webhook = await get_webhook(http, hook)
    assert (webhook["delivered"], webhook["cursor"], webhook["status"]) == (6, "7", "active")
    assert "secret" not in webhook


async def test_filters_choose_a_base_and_types(
    mill: app.Gristmill, http: httpx.AsyncClient, receiver: Receiver
) -> None:
    base, other_base = await new_base(http), await new_base(http, "two")
    await create_webhook(http, receiver.url, baseId=base, types=["BaseChanged"])
    await record(mill.db, other_base, "no")
    await record(mill.db, base, "yes")
    async with mill.db.transaction() as tx:
        await events.record(tx, events.BaseRestored(BaseId(UUID(base))))
    await record(mill.db, base, "again")
    await receiver.wait_for_requests(2)
    assert names(receiver) == ["yes", "again"]


async def test_a_rejected_event_is_sent_again_in_order_under_the_same_id(
    mill: app.Gristmill, http: httpx.AsyncClient, quick: None
) -> None:
    refusals = iter([500, 302, 429])

    def answer(request: Request) -> int | bytes:
        if request.json["data"]["name"] == "2" and (status := next(refusals, None)):
            return f"HTTP/1.1 {status} No\r\nLocation: /else\r\nContent-Length: 5\r\n\r\nsorry".encode()
        return 204

    base = await new_base(http)
    async with receiving(answer) as receiver:
        hook = await create_webhook(http, receiver.url)
        await record(mill.db, base, 1, 2, 3)
        await receiver.wait_for_requests(6)
    assert names(receiver) == ["1", "2", "2", "2", "2", "3"]
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 3

    async def is_delivered() -> bool:
        return (await get_webhook(http, hook))["delivered"] == 3

    await wait_until(is_delivered)
    webhook = await get_webhook(http, hook)
    assert (webhook["attempts"], webhook["error"], webhook["failingSince"]) == (0, None, None)


async def test_an_event_that_is_given_up_pauses_its_webhook_and_is_sent_first_when_it_is_redriven(
    mill: app.Gristmill, http: httpx.AsyncClient, quick: None
) -> None:
    well = asyncio.Event()
    base = await new_base(http)
    async with receiving(lambda _: 200 if well.is_set() else 503) as receiver:
        hook = await create_webhook(http, receiver.url)
        await record(mill.db, base, 1, 2)
        await wait_until_paused(http, hook)
        assert names(receiver) == ["1"] * 4
        letters = (await http.get(f"/api/webhooks/{hook['id']}/dead-letters")).json()["items"]
        assert [(letter["eventId"], letter["attempts"], letter["outcome"]) for letter in letters] == [
            ("2", 4, None)
        ]
        assert letters[0]["error"]["code"] == "webhook_refused"
        await record(mill.db, base, 3)
        well.set()
        receiver.requests.clear()
        redriven = await http.post(f"/api/webhooks/{hook['id']}/dead-letters/2/redrive")
        assert (redriven.status_code, redriven.json()["status"]) == (202, "active")
        await receiver.wait_for_requests(3)
        assert names(receiver) == ["1", "2", "3"]
        letters = (await http.get(f"/api/webhooks/{hook['id']}/dead-letters")).json()["items"]
        assert [letter["outcome"] for letter in letters] == ["redriven"]
        again = await http.post(f"/api/webhooks/{hook['id']}/dead-letters/2/redrive")
        assert (again.status_code, again.json()["code"]) == (409, "no_dead_letter")


async def test_a_receiver_that_answers_gone_is_paused_at_once_and_its_event_can_be_skipped(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    base = await new_base(http)
    async with receiving(lambda request: 410 if request.json["data"]["name"] == "1" else 200) as receiver:
        hook = await create_webhook(http, receiver.url)
        await record(mill.db, base, 1, 2)
        assert (await wait_until_paused(http, hook))["error"]["code"] == "webhook_gone"
        await http.post(f"/api/webhooks/{hook['id']}/dead-letters/2/skip")
        await receiver.wait_for_requests(2)
        assert names(receiver) == ["1", "2"]
        # A skipped letter can still be sent, with all events after it.
        receiver.answer = lambda _: 200
        await http.post(f"/api/webhooks/{hook['id']}/dead-letters/2/redrive")
        await receiver.wait_for_requests(4)
        assert names(receiver) == ["1", "2", "1", "2"]


async def test_a_paused_webhook_is_sent_nothing_and_goes_on_where_it_was(
    mill: app.Gristmill, http: httpx.AsyncClient, receiver: Receiver
) -> None:
    base = await new_base(http)
    hook = await create_webhook(http, receiver.url, description="ours")
    await http.patch(f"/api/webhooks/{hook['id']}", json={"status": "paused"})
    await record(mill.db, base, 1, 2)
    other = await create_webhook(http, receiver.url + "/other")
    await record(mill.db, base, 3)
    await receiver.wait_for_requests(1)
    assert names(receiver) == ["3"], "the other one's, made later"
    receiver.requests.clear()
    await http.delete(f"/api/webhooks/{other['id']}")
    response = await http.patch(
        f"/api/webhooks/{hook['id']}", json={"status": "active", "types": ["BaseChanged"]}
    )
    assert response.json()["types"] == ["BaseChanged"]
    await receiver.wait_for_requests(3)
    assert names(receiver) == ["1", "2", "3"]


async def test_resuming_waits_for_no_backoff(
    mill: app.Gristmill, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_delivery, "SCHEDULE", (timedelta(hours=1),))
    well = asyncio.Event()
    base = await new_base(http)
    async with receiving(lambda _: 200 if well.is_set() else 500) as receiver:
        hook = await create_webhook(http, receiver.url)
        await record(mill.db, base, 1)

        async def is_waiting() -> bool:
            return bool((await http.get("/api/jobs", params={"state": "delayed"})).json()["items"])

        await wait_until(is_waiting)
        well.set()
        await http.patch(f"/api/webhooks/{hook['id']}", json={"status": "active"})
        await receiver.wait_for_requests(2)


async def test_a_test_delivery_is_sent_at_once_and_returns_its_outcome(
    http: httpx.AsyncClient, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = await create_webhook(http, receiver.url)
    await http.patch(f"/api/webhooks/{hook['id']}", json={"status": "paused"})
    delivery = (await http.post(f"/api/webhooks/{hook['id']}/test")).json()
    assert (delivery["delivered"], delivery["status"], delivery["error"]) == (True, 200, None)
    (request,) = receiver.requests
    assert request.json["type"] == "Test"
    Reference(hook["secret"]).verify(request.body, request.headers)
    receiver.answer = lambda _: (
        b"HTTP/1.1 500 No\r\nContent-Length: 100000000\r\n\r\n" + b"no\x00 \x1b" * 9000
    )
    delivery = (await http.post(f"/api/webhooks/{hook['id']}/test")).json()
    assert (delivery["delivered"], delivery["status"]) == (False, 500)
    assert len(delivery["error"]["message"]) < 400
    assert delivery["error"]["message"].isprintable()
    monkeypatch.setattr(webhook_delivery, "TIMEOUT", timedelta(milliseconds=200))
    receiver.answer = lambda _: None
    delivery = (await http.post(f"/api/webhooks/{hook['id']}/test")).json()
    assert (delivery["status"], delivery["error"]["code"]) == (None, "webhook_timeout")
    assert (await get_webhook(http, hook))["delivered"] == 0


async def test_an_event_recorded_as_the_job_ends_is_not_left_behind(
    mill: app.Gristmill, http: httpx.AsyncClient, receiver: Receiver
) -> None:
    """Two hundred events, one at a time, each as soon as the one before was accepted."""
    base = await new_base(http)
    await create_webhook(http, receiver.url)
    for number in range(200):
        await record(mill.db, base, number)
        if number % 3 == 0:
            await receiver.wait_for_requests(number + 1)
    await receiver.wait_for_requests(200)
    assert names(receiver) == [str(number) for number in range(200)]


async def test_a_worker_that_lost_its_job_moves_no_cursor(
    mill: app.Gristmill, http: httpx.AsyncClient, receiver: Receiver
) -> None:
    """It may repeat a request, but its writes need the lease."""
    base = await new_base(http)
    hook = await create_webhook(http, receiver.url)
    with faults.watch("webhook.sent", hold=True) as fault:
        await record(mill.db, base, 1, 2)
        await fault.passed.wait()
        async with mill.db.connection() as tx:
            await tx.execute("update job set lease = gen_random_uuid() where kind = 'deliver_events'")
        fault.hold.set()

        async def is_not_recorded() -> bool:
            return fault.count == 1 and (await get_webhook(http, hook))["delivered"] == 0

        await wait_until(is_not_recorded)
    async with mill.db.connection() as tx:
        await tx.execute("delete from job where kind = 'deliver_events'")
    webhook = await get_webhook(http, hook)
    assert (webhook["cursor"], webhook["delivered"]) == ("1", 0)


async def test_deleting_a_webhook_leaves_nothing_of_it(
    mill: app.Gristmill, http: httpx.AsyncClient, quick: None
) -> None:
    base = await new_base(http)
    async with receiving(lambda _: 500) as receiver:
        hook = await create_webhook(http, receiver.url)
        await record(mill.db, base, 1)
        await wait_until_paused(http, hook)
        assert (await http.delete(f"/api/webhooks/{hook['id']}")).status_code == 204
    assert (await http.get(f"/api/webhooks/{hook['id']}")).status_code == 404
    async with mill.db.connection() as tx:
        for table in ("webhook", "dead_letter", "job", "lane where lane like 'webhook:%'"):
            rows = await (await tx.execute(f"select count(*) from {table}".encode())).fetchall()
            assert rows == [(0,)], table


async def test_jobs_of_no_base_are_not_cancelled_and_can_be_retried(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    async with mill.db.transaction() as tx:
        work = DeliverEvents(WebhookId(UUID(int=1)))
        (job,) = await jobs.enqueue(tx, jobs.NewJob(work, lane="webhook:none", delay=timedelta(hours=1)))
        await jobs.set_lane_owner(tx, "webhook:none", LOCAL_ORG)
    rejection = await http.post(f"/api/jobs/{job.id}/cancel")
    assert (rejection.status_code, rejection.json()["code"]) == (409, "job_not_cancellable")
    async with mill.db.connection() as tx:
        await tx.execute("update job set state = 'dead'")
    assert (await http.post(f"/api/jobs/{job.id}/retry")).status_code == 202


def test_the_schedule_is_a_day() -> None:
    total = sum(webhook_delivery.SCHEDULE, timedelta())
    assert timedelta(hours=23) < total < timedelta(hours=30)
    assert list(webhook_delivery.SCHEDULE) == sorted(webhook_delivery.SCHEDULE)


def test_a_body_conforms_to_standard_webhooks() -> None:
    secret = signature.new_secret()
    body = json.dumps({"type": "x", "data": {}}).encode()
    with pytest.raises(WebhookVerificationError):
        Reference(secret).verify(
            body, signature.headers(secret, "m", 1, body)
        )  # an old timestamp is rejected
    assert LeaseLost.code == "lease_lost"
