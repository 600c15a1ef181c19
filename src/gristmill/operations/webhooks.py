"""Making, changing, testing and deleting webhooks, and what becomes of their dead letters.

A webhook that is active after a change has a job if there may be something to deliver, in the same transaction. Rows of
webhooks are locked before rows of jobs. A secret is sealed by the vault, and told once: in the answer to its making.
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

TEST_TYPE = "Test"  # the type of what a test sends; no event has it


@dataclass(frozen=True)
class WebhookChanges:
    """What is to be changed; None stays as it is, no types at all mean every type."""

    url: str | None = None
    description: str | None = None
    types: Sequence[str] | None = None
    status: Status | None = None


async def create(
    db: Database,
    vault: Vault,
    *,
    org: OrgId = LOCAL_ORG,
    url: str,
    description: str = "",
    secret: str | None = None,
    base_id: UUID | None = None,
    types: Sequence[str] | None = None,
) -> tuple[Webhook, str]:
    """A webhook of `org` that is sent what happens there from now on, and its secret."""
    webhook_id = WebhookId(uuid4())
    secret = secret or signature.new_secret()
    sealed_secret = vault.seal(secret, str(webhook_id))
    await events.sequence_all(db)  # what has happened by now is not sent
    async with db.transaction() as tx:
        if base_id is not None and await catalog.find_base(tx, BaseId(base_id), Viewer(None, org)) is None:
            raise NotFound(f"There is no knowledge base {base_id}.", code="base_not_found")
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
    webhook_id: WebhookId,
    changes: WebhookChanges,
    check: Callable[[datetime], None] | None = None,
) -> Webhook:
    """Change a webhook; made active, it goes on where it was, with a dead letter first if there is one."""
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
    """Forget a webhook: nothing is sent to it any more, but for a request that is under way."""
    async with db.transaction() as tx:
        await _lock_webhook(tx, webhook_id)
        await jobs.cancel_by_subject(tx, [webhook_id])
        await webhook_store.delete(tx, webhook_id)
        await jobs.clear_lane(tx, f"webhook:{webhook_id}")


async def send_test(db: Database, sender: WebhookSender, webhook_id: WebhookId) -> DeliveryResult:
    """Send something that is no event, now and once; what the receiver said."""
    async with db.connection() as tx:
        hook = await webhook_store.find(tx, webhook_id)
    if hook is None:
        raise _not_found(webhook_id)
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    body = {"type": TEST_TYPE, "timestamp": now, "data": {"webhookId": str(webhook_id)}}
    return await sender.send(hook, f"test_{uuid4().hex}", json.dumps(body).encode())


async def redrive(db: Database, webhook_id: WebhookId, seq: int) -> Webhook:
    """Go back to a dead letter, and send everything from it on; what was sent after it is sent again, in order."""
    return await _resolve_dead_letter(db, webhook_id, seq, redriven=True)


async def skip(db: Database, webhook_id: WebhookId, seq: int) -> Webhook:
    """Leave out a dead letter, and go on behind it."""
    return await _resolve_dead_letter(db, webhook_id, seq, redriven=False)


async def _resolve_dead_letter(db: Database, webhook_id: WebhookId, seq: int, *, redriven: bool) -> Webhook:
    async with db.transaction() as tx:
        await _lock_webhook(tx, webhook_id)
        if not await webhook_store.close_dead_letter(
            tx, webhook_id, seq, "redriven" if redriven else "skipped"
        ):
            raise Conflict(
                f"Event {seq} is no dead letter of this webhook, or no longer.", code="no_dead_letter"
            )
        await webhook_store.resume_from(tx, webhook_id, seq - 1 if redriven else seq)
        await _deliver_now(tx, webhook_id)
        changed = await webhook_store.find(tx, webhook_id)
    assert changed is not None
    return changed


async def _deliver_now(tx: Tx, webhook_id: WebhookId) -> None:
    """Deliver now: a job that waits for its next attempt waits no longer."""
    await jobs.run_now(tx, [webhook_id])
    await enqueue_deliveries(tx, webhook_id)


async def _lock_webhook(tx: Tx, webhook_id: WebhookId) -> Webhook:
    hook = await webhook_store.lock(tx, webhook_id)
    if hook is None:
        raise _not_found(webhook_id)
    return hook


def _not_found(webhook_id: WebhookId) -> NotFound:
    return NotFound(f"There is no webhook {webhook_id}.", code="webhook_not_found")
