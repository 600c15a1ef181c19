"""Webhooks are sent their events: the job `deliver_events`.

    due         the webhook's row is locked; with nothing left, or paused, the job is done in that transaction
    send        one event, signed, outside any transaction
    settle      taken (2xx): the cursor moves on; else the job waits, by a schedule of its own that ends after a day

One event after the other, so that each base's come in order, and so do all. Killed between sending and settling: the
event is sent again, under the same id. A worker that lost its lease may repeat an event, and moves no cursor.

    the answer                          then
    2xx                                 the next event
    410, a private address, a secret    given up at once
    that can't be read
    anything else, no answer            later: SCHEDULE, or when Retry-After says; given up when it ends
    given up                            the event is a dead letter, the webhook is paused before it
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
from gristmill.events import signature, webhook
from gristmill.events.store import Recorded
from gristmill.events.webhook import Webhook, WebhookId
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
_AT_ONCE = 50  # events that one run of the job sends, before others have their turn
_TOLD = 300  # characters that are kept of what a receiver answers


@dataclass(frozen=True)
class Answer:
    """What became of one attempt."""

    status: int | None
    took: timedelta
    error: GristmillError | None = None


class Sender:
    """Sends single events, through the guard against private addresses."""

    def __init__(self, vault: Vault, *, private: bool) -> None:
        self._vault, self._private = vault, private
        self._opened: httpx.AsyncClient | None = None

    async def close(self) -> None:
        """Close its connections."""
        if self._opened is not None:
            await self._opened.aclose()

    async def send(self, hook: Webhook, message: str, body: bytes) -> Answer:
        """One attempt, which ends within `TIMEOUT`, follows no redirect and reads little of the answer."""
        started = time.monotonic()
        status: int | None = None
        error: GristmillError | None = None
        try:
            secret = self._vault.open(hook.secret, str(hook.id))
            async with asyncio.timeout(TIMEOUT.total_seconds()):
                status, error = await self._post(hook.url, signed(secret, message, body), body)
        except WorkError as refused:
            error = refused
        except (TimeoutError, httpx.TimeoutException):
            error = Transient(
                f"No answer within {TIMEOUT.total_seconds():.0f} seconds.", code="webhook_timeout"
            )
        except (httpx.TransportError, httpx.InvalidURL) as broken:
            error = Transient(
                f"The receiver can't be reached: {broken or type(broken).__name__}",
                code="webhook_unreachable",
            )
        return Answer(status, timedelta(seconds=time.monotonic() - started), error)

    async def _post(
        self, url: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, GristmillError | None]:
        if self._opened is None:
            self._opened = net.client(private=self._private, timeout=TIMEOUT)
        async with self._opened.stream(
            "POST", url, content=body, headers=headers, follow_redirects=False
        ) as response:
            if response.is_success:
                return response.status_code, None
            told = await _beginning(response)
            said = f"The receiver answered {response.status_code}" + (f": {told}" if told else ".")
            if response.status_code == HTTPStatus.GONE:
                return response.status_code, Permanent(said, code="webhook_gone")
            wait = net.retry_after(response.headers)
            return response.status_code, Transient(said, code="webhook_refused", retry_after=wait)


class Deliverer:
    """Runs the job `deliver_events`."""

    def __init__(self, db: Database, sender: Sender) -> None:
        self._db, self._sender = db, sender

    async def deliver(self, job: Job) -> Outcome:
        """Send what is due, until nothing is or others have their turn."""
        hook, due = await self._due(job)
        if hook is None:
            return Done()
        before = hook.cursor
        for event in due:
            answer = await self._sender.send(hook, message_id(hook, event), body_of(event))
            await faults.point("webhook.sent")
            if answer.error is not None:
                return await self._refused(job, hook, before, event, answer.error)
            async with self._db.transaction() as tx:
                if not await webhook.delivered(tx, hook, before, event.place):
                    break
                await jobs.fence(tx, job)
            before = event.place
        return Snooze(timedelta(0))

    async def _due(self, job: Job) -> tuple[Webhook | None, list[Recorded]]:
        async with self._db.transaction() as tx:
            hook = await webhook.lock(tx, WebhookId(DeliverEvents.of(job).webhook_id))
            if hook is not None and hook.status == "active":
                if due := await webhook.due(tx, hook, _AT_ONCE):
                    return hook, due
                await webhook.caught_up(tx, hook.id)
            await jobs.complete(tx, job)
        return None, []

    async def _refused(
        self, job: Job, hook: Webhook, before: int, event: Recorded, error: GristmillError
    ) -> Outcome:
        async with self._db.transaction() as tx:
            attempts = await webhook.refused(tx, hook, before, error.code, error.message)
            if attempts is None:
                return Snooze(timedelta(0))  # it was paused or changed: look again
            if attempts > len(SCHEDULE) or isinstance(error, Permanent):
                await webhook.give_up(tx, hook.id, event)
                await jobs.complete(tx, job)
                log.error(
                    "webhook paused: an event was given up",
                    extra={"webhook": hook.id, "event": event.place, "code": error.code},
                )
                return Done()
            await jobs.fence(tx, job)
        wait = SCHEDULE[attempts - 1] * (1 + random.random() / 5)  # noqa: S311
        asked = error.retry_after if isinstance(error, Transient) else None
        raise Transient(error.message, code=error.code, retry_after=max(wait, asked or wait))


def message_id(hook: Webhook, event: Recorded) -> str:
    """By what a receiver knows an event again."""
    return f"{hook.id.hex}_{event.place}"


def body_of(event: Recorded) -> bytes:
    """An event as it is sent: what Standard Webhooks asks for, and the fields that `/api/events` has."""
    told: dict[str, Any] = {
        "type": event.type,
        "timestamp": event.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "id": str(event.place),
        "baseId": None if event.base_id is None else str(event.base_id),
        "subject": None if event.subject is None else str(event.subject),
        "correlationId": None if event.cause is None else str(event.cause),
        "data": event.data,
    }
    return json.dumps(told, separators=(",", ":")).encode()


def signed(secret: str, message: str, body: bytes) -> dict[str, str]:
    """The headers of a request."""
    return {
        "Content-Type": "application/json",
        **signature.headers(secret, message, int(time.time()), body),
    }


async def _beginning(response: httpx.Response) -> str:
    """A little of what a receiver says, on one line."""
    said = b""
    async for chunk in response.aiter_raw():
        said += chunk
        if len(said) > _TOLD:
            break
    text = said[:_TOLD].decode("utf-8", "replace")
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())
