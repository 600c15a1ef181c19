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
from gristmill.events import signature, webhook
from gristmill.events.order import wake
from gristmill.events.webhook import Status, Webhook, WebhookId
from gristmill.events.webhooks import Answer, Sender
from gristmill.organisation import LOCAL, OrgId
from gristmill.vault import Vault

TEST = "Test"  # the type of what a test sends; no event has it


@dataclass(frozen=True)
class Changes:
    """What is to be changed; None stays as it is, no types at all mean every type."""

    url: str | None = None
    description: str | None = None
    types: Sequence[str] | None = None
    status: Status | None = None


async def create(
    db: Database,
    vault: Vault,
    *,
    org: OrgId = LOCAL,
    url: str,
    description: str = "",
    secret: str | None = None,
    base_id: UUID | None = None,
    types: Sequence[str] | None = None,
) -> tuple[Webhook, str]:
    """A webhook of `org` that is sent what happens there from now on, and its secret."""
    webhook_id = WebhookId(uuid4())
    secret = secret or signature.new_secret()
    sealed = vault.seal(secret, str(webhook_id))
    await events.put_in_order(db)  # what has happened by now is not sent
    async with db.transaction() as tx:
        if base_id is not None and await catalog.find_base(tx, BaseId(base_id), Viewer(None, org)) is None:
            raise NotFound(f"There is no knowledge base {base_id}.", code="base_not_found")
        made = await webhook.insert(
            tx,
            webhook_id,
            org,
            url=url,
            description=description,
            secret=sealed,
            base_id=base_id,
            types=types or None,
        )
        await jobs.own_lane(tx, f"webhook:{webhook_id}", org)
    return made, secret


async def change(
    db: Database,
    webhook_id: WebhookId,
    changes: Changes,
    check: Callable[[datetime], None] | None = None,
) -> Webhook:
    """Change a webhook; made active, it goes on where it was, with a dead letter first if there is one."""
    async with db.transaction() as tx:
        old = await _locked(tx, webhook_id)
        if check is not None:
            check(old.updated_at)
        changed = await webhook.change(
            tx,
            webhook_id,
            url=changes.url or old.url,
            description=old.description if changes.description is None else changes.description,
            types=old.types if changes.types is None else (changes.types or None),
            status=changes.status or old.status,
        )
        if changed.status == "active":
            if old.status == "paused":
                await webhook.redrive_open(tx, webhook_id)
            await _again(tx, webhook_id)
    return changed


async def delete(db: Database, webhook_id: WebhookId) -> None:
    """Forget a webhook: nothing is sent to it any more, but for a request that is under way."""
    async with db.transaction() as tx:
        await _locked(tx, webhook_id)
        await jobs.cancel_about(tx, [webhook_id])
        await webhook.delete(tx, webhook_id)
        await jobs.clear_lane(tx, f"webhook:{webhook_id}")


async def test(db: Database, sender: Sender, webhook_id: WebhookId) -> Answer:
    """Send something that is no event, now and once; what the receiver said."""
    async with db.connection() as tx:
        hook = await webhook.find(tx, webhook_id)
    if hook is None:
        raise _unknown(webhook_id)
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    body = {"type": TEST, "timestamp": now, "data": {"webhookId": str(webhook_id)}}
    return await sender.send(hook, f"test_{uuid4().hex}", json.dumps(body).encode())


async def redrive(db: Database, webhook_id: WebhookId, seq: int) -> Webhook:
    """Go back to a dead letter, and send everything from it on; what was sent after it is sent again, in order."""
    return await _end_letter(db, webhook_id, seq, redriven=True)


async def skip(db: Database, webhook_id: WebhookId, seq: int) -> Webhook:
    """Leave out a dead letter, and go on behind it."""
    return await _end_letter(db, webhook_id, seq, redriven=False)


async def _end_letter(db: Database, webhook_id: WebhookId, seq: int, *, redriven: bool) -> Webhook:
    async with db.transaction() as tx:
        await _locked(tx, webhook_id)
        if not await webhook.end_letter(tx, webhook_id, seq, "redriven" if redriven else "skipped"):
            raise Conflict(
                f"Event {seq} is no dead letter of this webhook, or no longer.", code="no_dead_letter"
            )
        await webhook.go_from(tx, webhook_id, seq - 1 if redriven else seq)
        await _again(tx, webhook_id)
        changed = await webhook.find(tx, webhook_id)
    assert changed is not None
    return changed


async def _again(tx: Tx, webhook_id: WebhookId) -> None:
    """Deliver now: a job that waits for its next attempt waits no longer."""
    await jobs.hurry(tx, [webhook_id])
    await wake(tx, webhook_id)


async def _locked(tx: Tx, webhook_id: WebhookId) -> Webhook:
    found = await webhook.lock(tx, webhook_id)
    if found is None:
        raise _unknown(webhook_id)
    return found


def _unknown(webhook_id: WebhookId) -> NotFound:
    return NotFound(f"There is no webhook {webhook_id}.", code="webhook_not_found")
