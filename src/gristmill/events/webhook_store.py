"""Webhooks and their dead letters, in the caller's transaction.

    status     active    the events after `cursor` are sent, one after the other
               paused    nothing is sent, by request or because an event was given up; `cursor` stays before it

Whoever changes a webhook locks its row first, then the row of its job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from gristmill.db import Tx
from gristmill.events.store import RecordedEvent, WebhookId, queries
from gristmill.identity import OrgId
from gristmill.vault import ResealedRows, SealedRow, Vault

Status = Literal["active", "paused"]


@dataclass(frozen=True)
class Webhook:
    """A row of `webhook`."""

    id: WebhookId
    org_id: OrgId
    url: str
    description: str
    secret: bytes
    base_id: UUID | None
    types: list[str] | None
    status: Status
    cursor: int
    attempts: int
    failing_since: datetime | None
    error_code: str | None
    error_message: str | None
    delivered: int
    delivered_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class DeadLetter:
    """A row of `dead_letter`: an event that a webhook gave up on."""

    seq: int
    type: str
    base_id: UUID | None
    attempts: int
    error_code: str
    error_message: str
    died_at: datetime
    outcome: str | None


async def insert(
    tx: Tx,
    webhook_id: WebhookId,
    org: OrgId,
    *,
    url: str,
    description: str,
    secret: bytes,
    base_id: UUID | None,
    types: Sequence[str] | None,
) -> Webhook:
    """Create a webhook that is sent events from now on."""
    return await queries.one(
        tx,
        Webhook,
        "insert_webhook",
        id=webhook_id,
        org=org,
        url=url,
        description=description,
        secret=secret,
        base=base_id,
        types=None if types is None else list(types),
    )


async def count_locked(tx: Tx, org: OrgId) -> int:
    """How many webhooks an organisation has; no other transaction creates one of its webhooks until this one
    ends."""
    await queries.values(tx, "lock_webhook_creation", org=org)
    return (await queries.values(tx, "count_webhooks", org=org))[0]


async def find(tx: Tx, webhook_id: WebhookId, org: OrgId | None = None) -> Webhook | None:
    """One webhook; with `org`, if it is that organisation's."""
    return await queries.maybe(tx, Webhook, "webhook", id=webhook_id, org=org)


async def lock(tx: Tx, webhook_id: WebhookId) -> Webhook | None:
    """One webhook, locked until the transaction ends."""
    return await queries.maybe(tx, Webhook, "lock_webhook", id=webhook_id)


async def find_all(tx: Tx, org: OrgId, *, limit: int, after: WebhookId | None = None) -> list[Webhook]:
    """Webhooks of an organisation, oldest first."""
    return await queries.many(tx, Webhook, "webhooks", org=org, limit=limit, after=after)


async def update(
    tx: Tx, webhook_id: WebhookId, *, url: str, description: str, types: Sequence[str] | None, status: Status
) -> Webhook:
    """Change a webhook that the caller has locked, and reset its attempts."""
    return await queries.one(
        tx,
        Webhook,
        "update_webhook",
        id=webhook_id,
        url=url,
        description=description,
        types=None if types is None else list(types),
        status=status,
    )


async def delete(tx: Tx, webhook_id: WebhookId) -> None:
    """Delete a webhook and its dead letters."""
    await queries.run(tx, "delete_webhook", id=webhook_id)


async def due_events(tx: Tx, webhook: Webhook, limit: int) -> list[RecordedEvent]:
    """The next events that a webhook wants."""
    return await queries.many(
        tx,
        RecordedEvent,
        "events",
        org=webhook.org_id,
        after=webhook.cursor,
        limit=limit,
        types=webhook.types,
        base=webhook.base_id,
    )


async def mark_caught_up(tx: Tx, webhook_id: WebhookId) -> None:
    """Move the cursor to the end of what was wanted: nothing is left to deliver. The caller has locked the row."""
    await queries.run(tx, "mark_caught_up", id=webhook_id)


async def record_delivery(tx: Tx, webhook: Webhook, before: int, seq: int) -> bool:
    """Record that an event was accepted; False when the webhook was paused or changed meanwhile."""
    return bool(await queries.values(tx, "record_delivery", id=webhook.id, before=before, seq=seq))


async def record_refusal(tx: Tx, webhook: Webhook, before: int, code: str, message: str) -> int | None:
    """Record that an event was not accepted; the number of attempts, None when the webhook was changed meanwhile."""
    attempts = await queries.values(
        tx, "record_refusal", id=webhook.id, before=before, code=code, message=message
    )
    return attempts[0] if attempts else None


async def give_up(tx: Tx, webhook_id: WebhookId, event: RecordedEvent) -> None:
    """active → paused, before an event that becomes a dead letter."""
    await queries.run(tx, "give_up", id=webhook_id, seq=event.position, type=event.type, base=event.base_id)


async def dead_letters(tx: Tx, webhook_id: WebhookId, *, limit: int, before: int | None) -> list[DeadLetter]:
    """A webhook's dead letters, newest first."""
    return await queries.many(tx, DeadLetter, "dead_letters", webhook=webhook_id, limit=limit, before=before)


async def close_dead_letter(
    tx: Tx, webhook_id: WebhookId, seq: int, outcome: Literal["redriven", "skipped"]
) -> bool:
    """Record the outcome of a dead letter; False when there is none, or it was skipped and is to be skipped again."""
    return bool(await queries.values(tx, "close_dead_letter", webhook=webhook_id, seq=seq, outcome=outcome))


async def redrive_open_letter(tx: Tx, webhook_id: WebhookId) -> None:
    """Send the dead letter again that a webhook was paused before, if there is one."""
    await queries.run(tx, "redrive_open_letter", webhook=webhook_id)


async def resume_from(tx: Tx, webhook_id: WebhookId, cursor: int) -> None:
    """→ active, with the events after `cursor`."""
    await queries.run(tx, "resume_from", id=webhook_id, cursor=cursor)


async def lock_orphaned(tx: Tx, limit: int) -> list[WebhookId]:
    """Webhooks with something to deliver and no living job, locked; those that are locked elsewhere are skipped."""
    return await queries.values(tx, "lock_orphaned", limit=limit)


async def reseal_secrets(tx: Tx, vault: Vault, after: UUID | None, limit: int) -> ResealedRows:
    """Seal the next values by the vault's current key that another one sealed."""
    rows = await queries.many(
        tx, SealedRow, "old_sealed_webhook_secrets", prefix=vault.prefix, after=after, limit=limit
    )
    unreadable = 0
    for row in rows:
        sealed = vault.reseal(row.sealed, str(row.id))
        if sealed is None:
            unreadable += 1
        else:
            await queries.run(tx, "replace_sealed_webhook_secret", id=row.id, sealed=sealed)
    return ResealedRows(rows[-1].id if rows else None, len(rows), unreadable)
