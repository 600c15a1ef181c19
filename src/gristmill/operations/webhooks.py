"""Create, change, test and delete webhooks, and redrive or skip their dead letters.

A change that leaves a webhook active queues its job in the same transaction, if there may be something to deliver. Webhook rows are
locked before job rows. A secret is encrypted by the vault, and shown once: in the response that creates the webhook.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID, uuid4

from gristmill import catalog, events, jobs
from gristmill.catalog import BaseId, Viewer
from gristmill.db import Database, Tx
from gristmill.errors import Conflict, NotFound
from gristmill.events import signature, webhook_store
from gristmill.events.sequencer import enqueue_deliveries
from gristmill.events.webhook_delivery import DeliveryResult, WebhookSender
from gristmill.events.webhook_store import Status, Webhook, WebhookId
from gristmill.identity import LOCAL_ORG, OrgId
from gristmill.vault import Vault

TEST_TYPE = "Test"  # the type of a test message; no event has it


@dataclass(frozen=True)
class WebhookChanges:
    """Fields to change; None leaves a field as it is, an empty list of types means every type."""

    url: str | None = None
    description: str | None = None
    types: Sequence[str] | None = None
    status: Status | None = None


async def create(
    db: Database,
    vault: Vault,
    sender: WebhookSender,
    *,
    limit: int,
    org: OrgId = LOCAL_ORG,
    url: str,
    description: str = "",
    secret: str | None = None,
    base_id: UUID | None = None,
    types: Sequence[str] | None = None,
) -> tuple[Webhook, str]:
    """Create a webhook of `org`, if it has fewer than `limit`, that gets its events from now on; the webhook and its
    secret."""
    await sender.check_url(url)
    webhook_id = WebhookId(uuid4())
    secret = secret or signature.new_secret()
    sealed_secret = vault.seal(secret, str(webhook_id))
    await events.sequence_all(db)  # events up to now are not sent
    async with db.transaction() as tx:
        if base_id is not None and await catalog.find_base(tx, BaseId(base_id), Viewer(None, org)) is None:
            raise NotFound(f"There is no knowledge base {base_id}.", code="base_not_found")
        if await webhook_store.count_locked(tx, org) >= limit:
            raise Conflict(
                f"There are {limit:,} webhooks already, which is the most that an organisation may have. Delete one, or"
                " raise `max_webhooks`.",
                code="too_many_webhooks",
            )
        created = await webhook_store.insert(
            tx,
            webhook_id,
            org,
            url=url,
            description=description,
            secret=sealed_secret,
            base_id=base_id,
            types=types or None,
        )
        await jobs.set_lane_owner(tx, f"webhook:{webhook_id}", org)
    return created, secret


async def change(
    db: Database,
    sender: WebhookSender,
    webhook_id: WebhookId,
    changes: WebhookChanges,
    check: Callable[[datetime], None] | None = None,
) -> Webhook:
    """Change a webhook. Once active again it continues where it was, with its open dead letter first."""
    if changes.url is not None:
        await sender.check_url(changes.url)
    async with db.transaction() as tx:
        old = await _lock_webhook(tx, webhook_id)
        if check is not None:
            check(old.updated_at)
        changed = await webhook_store.update(
            tx,
            webhook_id,
            url=changes.url or old.url,
            description=old.description if changes.description is None else changes.description,
            types=old.types if changes.types is None else (changes.types or None),
            status=changes.status or old.status,
        )
        if changed.status == "active":
            if old.status == "paused":
                await webhook_store.redrive_open_letter(tx, webhook_id)
            await _deliver_now(tx, webhook_id)
    return changed


async def delete(db: Database, webhook_id: WebhookId) -> None:
    """Delete a webhook: nothing more is sent to it, except for a request in progress."""
    async with db.transaction() as tx:
        await _lock_webhook(tx, webhook_id)
        await jobs.cancel_by_subject(tx, [webhook_id])
        await webhook_store.delete(tx, webhook_id)
        await jobs.clear_lane(tx, f"webhook:{webhook_id}")


async def send_test(db: Database, sender: WebhookSender, webhook_id: WebhookId) -> DeliveryResult:
    """Send a test message, now and without retries; the receiver's response."""
    async with db.connection() as tx:
        hook = await webhook_store.find(tx, webhook_id)
    if hook is None:
        raise _not_found(webhook_id)
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    body = {"type": TEST_TYPE, "timestamp": now, "data": {"webhookId": str(webhook_id)}}
    return await sender.send(hook, f"test_{uuid4().hex}", json.dumps(body).encode())


async def redrive(db: Database, webhook_id: WebhookId, seq: int) -> Webhook:
    """Go back to a dead letter and send every event from it on, in order; later ones are sent again."""
    return await _resolve_dead_letter(db, webhook_id, seq, redriven=True)


async def skip(db: Database, webhook_id: WebhookId, seq: int) -> Webhook:
    """Skip a dead letter, and continue after it."""
    return await _resolve_dead_letter(db, webhook_id, seq, redriven=False)


async def _resolve_dead_letter(db: Database, webhook_id: WebhookId, seq: int, *, redriven: bool) -> Webhook:
    async with db.transaction() as tx:
        await _lock_webhook(tx, webhook_id)
        if not await webhook_store.close_dead_letter(
            tx, webhook_id, seq, "redriven" if redriven else "skipped"
        ):
            raise Conflict(f"Event {seq} is not an open dead letter of this webhook.", code="no_dead_letter")
        await webhook_store.resume_from(tx, webhook_id, seq - 1 if redriven else seq)
        await _deliver_now(tx, webhook_id)
        changed = await webhook_store.find(tx, webhook_id)
    assert changed is not None
    return changed


async def _deliver_now(tx: Tx, webhook_id: WebhookId) -> None:
    """Deliver now, even if the job waits for its next attempt."""
    await jobs.run_now(tx, [webhook_id])
    await enqueue_deliveries(tx, webhook_id)


async def _lock_webhook(tx: Tx, webhook_id: WebhookId) -> Webhook:
    hook = await webhook_store.lock(tx, webhook_id)
    if hook is None:
        raise _not_found(webhook_id)
    return hook


def _not_found(webhook_id: WebhookId) -> NotFound:
    return NotFound(f"There is no webhook {webhook_id}.", code="webhook_not_found")
