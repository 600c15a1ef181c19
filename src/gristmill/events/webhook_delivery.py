"""Delivers events to webhooks: the job `deliver_events`.

    load due    locks the webhook's row; with nothing left, or paused, the job is completed in that transaction
    send        one event, signed, outside any transaction
    record      accepted (2xx): the cursor moves on; else the job waits, by a schedule of its own that ends after a day

The job runs in slots for webhooks alone, one per webhook and a share of them per organisation: a receiver that hangs delays
nothing but its own events, and the schedule soon asks it only now and then.

One event after the other, so that the receiver gets them in order. Killed between sending and recording: the event is sent
again, under the same id. A worker that lost its lease may repeat an event, but moves no cursor.

    response                            then
    2xx                                 the next event
    410, a private address, a secret    given up at once
    that can't be decrypted
    anything else, no response          later: SCHEDULE, or when Retry-After says; given up when it ends
    given up                            the event becomes a dead letter, the webhook is paused before it
"""

import asyncio
import json
import logging
import random
import time
from dataclasses import dataclass
from datetime import UTC, timedelta
from http import HTTPStatus
from typing import Any

import httpx

from gristmill import faults, jobs, net
from gristmill.db import Database
from gristmill.errors import GristmillError, Permanent, Transient, WorkError
from gristmill.events import signature, webhook_store
from gristmill.events.store import RecordedEvent
from gristmill.events.webhook_store import Webhook, WebhookId
from gristmill.jobs import Done, Job, Outcome, Snooze
from gristmill.vault import Vault
from gristmill.work import DeliverEvents

log = logging.getLogger(__name__)

# Waits after the first, second … failed attempt at one event; together a little over a day.
SCHEDULE = tuple(
    timedelta(seconds=seconds)
    for seconds in (1, 5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800)
)
TIMEOUT = timedelta(seconds=15)
_BATCH = 50  # events that one run of the job sends at most before other webhooks have their turn
_TURN = timedelta(seconds=15)  # and how long it goes on: a slow receiver keeps its slot no longer
_EXCERPT_LENGTH = 300  # characters of a response that are kept


@dataclass(frozen=True)
class DeliveryResult:
    """The result of one attempt."""

    status: int | None
    took: timedelta
    error: GristmillError | None = None


class WebhookSender:
    """Sends single events, through the guard against private addresses."""

    def __init__(self, vault: Vault, *, private: bool) -> None:
        self._vault, self._private = vault, private
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        """Close its connections."""
        if self._client is not None:
            await self._client.aclose()

    async def check_url(self, url: str) -> None:
        """Raise PrivateAddress if nothing could ever be sent to this URL."""
        if not self._private:
            await net.check_public(url)

    async def send(self, hook: Webhook, message: str, body: bytes) -> DeliveryResult:
        """One attempt, which ends within `TIMEOUT`, follows no redirect and reads only the start of the response."""
        started = time.monotonic()
        status: int | None = None
        error: GristmillError | None = None
        try:
            secret = self._vault.open(hook.secret, str(hook.id))
            async with asyncio.timeout(TIMEOUT.total_seconds()):
                status, error = await self._post(hook.url, signed_headers(secret, message, body), body)
        except WorkError as refused:
            error = refused
        except (TimeoutError, httpx.TimeoutException):
            error = Transient(
                f"The receiver did not answer within {TIMEOUT.total_seconds():.0f} seconds.",
                code="webhook_timeout",
            )
        except (httpx.TransportError, httpx.InvalidURL) as broken:
            error = Transient(
                f"The receiver can't be reached: {broken or type(broken).__name__}",
                code="webhook_unreachable",
            )
        return DeliveryResult(status, timedelta(seconds=time.monotonic() - started), error)

    async def _post(
        self, url: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, GristmillError | None]:
        if self._client is None:
            self._client = net.client(allow_private=self._private, timeout=TIMEOUT)
        async with self._client.stream(
            "POST", url, content=body, headers=headers, follow_redirects=False
        ) as response:
            if response.is_success:
                return response.status_code, None
            excerpt = await _response_excerpt(response)
            description = f"The receiver answered {response.status_code}" + (
                f": {excerpt}" if excerpt else "."
            )
            if response.status_code == HTTPStatus.GONE:
                return response.status_code, Permanent(description, code="webhook_gone")
            wait = net.retry_after(response.headers)
            return response.status_code, Transient(description, code="webhook_refused", retry_after=wait)


def share_of_organisation(slots: int) -> int:
    """How many of a worker's slots for webhooks one organisation may use: room is left for others, however many hang."""
    return max(1, slots // 4)


class WebhookDeliverer:
    """Runs the job `deliver_events`."""

    def __init__(self, db: Database, sender: WebhookSender) -> None:
        self._db, self._sender = db, sender

    async def deliver(self, job: Job) -> Outcome:
        """Send a batch of due events."""
        hook, due_events = await self._load_due(job)
        if hook is None:
            return Done()
        before, started = hook.cursor, time.monotonic()
        for event in due_events:
            result = await self._sender.send(hook, message_id(hook, event), event_body(event))
            await faults.point("webhook.sent")
            if result.error is not None:
                return await self._handle_refusal(job, hook, before, event, result.error)
            async with self._db.transaction() as tx:
                if not await webhook_store.record_delivery(tx, hook, before, event.position):
                    break
                await jobs.fence(tx, job)
            before = event.position
            if time.monotonic() - started > _TURN.total_seconds():
                break
        return Snooze(timedelta(0))

    async def _load_due(self, job: Job) -> tuple[Webhook | None, list[RecordedEvent]]:
        async with self._db.transaction() as tx:
            hook = await webhook_store.lock(tx, WebhookId(DeliverEvents.of(job).webhook_id))
            if hook is not None and hook.status == "active":
                if due_events := await webhook_store.due_events(tx, hook, _BATCH):
                    return hook, due_events
                await webhook_store.mark_caught_up(tx, hook.id)
            await jobs.complete(tx, job)
        return None, []

    async def _handle_refusal(
        self, job: Job, hook: Webhook, before: int, event: RecordedEvent, error: GristmillError
    ) -> Outcome:
        async with self._db.transaction() as tx:
            attempts = await webhook_store.record_refusal(tx, hook, before, error.code, error.message)
            if attempts is None:
                return Snooze(timedelta(0))  # it was paused or changed: load it again
            if attempts > len(SCHEDULE) or isinstance(error, Permanent):
                await webhook_store.give_up(tx, hook.id, event)
                await jobs.complete(tx, job)
                log.error(
                    "webhook paused: an event was given up",
                    extra={"webhook": hook.id, "event": event.position, "code": error.code},
                )
                return Done()
            await jobs.fence(tx, job)
        wait = SCHEDULE[attempts - 1] * (1 + random.random() / 5)  # noqa: S311
        requested_wait = error.retry_after if isinstance(error, Transient) else None
        raise Transient(error.message, code=error.code, retry_after=max(wait, requested_wait or wait))


def message_id(hook: Webhook, event: RecordedEvent) -> str:
    """The id by which a receiver recognises a repeated event."""
    return f"{hook.id.hex}_{event.position}"


def event_body(event: RecordedEvent) -> bytes:
    """The body of an event: what Standard Webhooks requires, and the fields of `/api/events`."""
    body: dict[str, Any] = {
        "type": event.type,
        "timestamp": event.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "id": str(event.position),
        "baseId": None if event.base_id is None else str(event.base_id),
        "subject": None if event.subject is None else str(event.subject),
        "correlationId": None if event.cause is None else str(event.cause),
        "data": event.data,
    }
    return json.dumps(body, separators=(",", ":")).encode()


def signed_headers(secret: str, message: str, body: bytes) -> dict[str, str]:
    """The headers of a request."""
    return {
        "Content-Type": "application/json",
        **signature.headers(secret, message, int(time.time()), body),
    }


async def _response_excerpt(response: httpx.Response) -> str:
    """The start of a response, on one line."""
    received = b""
    async for chunk in response.aiter_raw():
        received += chunk
        if len(received) > _EXCERPT_LENGTH:
            break
    text = received[:_EXCERPT_LENGTH].decode("utf-8", "replace")
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
