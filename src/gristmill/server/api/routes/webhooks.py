"""`/api/webhooks`: where events are delivered, tests, and the dead letters of failed deliveries."""

from uuid import UUID

from fastapi import Response

from gristmill.db import Tx
from gristmill.errors import NotFound
from gristmill.events import webhook_store
from gristmill.events.webhook_store import Webhook, WebhookId
from gristmill.operations import webhooks
from gristmill.server.api.context import CurrentCaller, CurrentContext, PathWebhook
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import ErrorBody, Limit, Page, page_of
from gristmill.server.api.schemas.webhooks import (
    DeadLetterOut,
    NewWebhook,
    NewWebhookOut,
    PathEvent,
    WebhookChange,
    WebhookOut,
    WebhookTestOut,
)

router = ApiRouter("/api/webhooks", tag="webhooks")


@router.post("", status_code=201)
async def create_webhook(body: NewWebhook, context: CurrentContext, caller: CurrentCaller) -> NewWebhookOut:
    """Deliver events to a URL from now on. Only this response contains the secret that signs them."""
    hook, secret = await webhooks.create(
        context.db,
        context.vault,
        context.sender,
        limit=context.settings.max_webhooks,
        org=caller.org,
        url=body.url,
        description=body.description,
        secret=body.secret,
        base_id=body.base_id,
        types=body.types,
    )
    return NewWebhookOut.with_secret(hook, secret)


@router.get("")
async def list_webhooks(
    context: CurrentContext, caller: CurrentCaller, limit: Limit = 100, cursor: UUID | None = None
) -> Page[WebhookOut]:
    """List webhooks, oldest first."""
    async with context.db.connection() as tx:
        hooks = await webhook_store.find_all(
            tx, caller.org, limit=limit, after=WebhookId(cursor) if cursor else None
        )
    return page_of(hooks, limit, WebhookOut.of)


@router.get("/{webhook_id}")
async def get_webhook(webhook_id: PathWebhook, context: CurrentContext, response: Response) -> WebhookOut:
    """Get a webhook."""
    async with context.db.connection() as tx:
        hook = await _require_webhook(tx, webhook_id)
    set_etag(response, hook.updated_at)
    return WebhookOut.of(hook)


@router.patch("/{webhook_id}")
async def change_webhook(
    webhook_id: PathWebhook,
    body: WebhookChange,
    context: CurrentContext,
    response: Response,
    if_match: IfMatch = None,
) -> WebhookOut:
    """Change, pause or resume a webhook."""
    changes = webhooks.WebhookChanges(body.url, body.description, body.types, body.status)
    changed = await webhooks.change(
        context.db,
        context.sender,
        webhook_id,
        changes,
        lambda updated_at: check_if_match(if_match, updated_at),
    )
    set_etag(response, changed.updated_at)
    return WebhookOut.of(changed)


@router.delete("/{webhook_id}", status_code=204)
async def delete_webhook(webhook_id: PathWebhook, context: CurrentContext) -> Response:
    """Delete a webhook."""
    await webhooks.delete(context.db, webhook_id)
    return Response(status_code=204)


@router.post("/{webhook_id}/test")
async def test_webhook(webhook_id: PathWebhook, context: CurrentContext) -> WebhookTestOut:
    """Send a test event now, without retries, even to a paused webhook."""
    delivery = await webhooks.send_test(context.db, context.sender, webhook_id)
    return WebhookTestOut(
        delivered=delivery.error is None,
        status=delivery.status,
        took_ms=round(delivery.took.total_seconds() * 1000, 2),
        error=None if delivery.error is None else ErrorBody.of(delivery.error),
    )


@router.get("/{webhook_id}/dead-letters")
async def list_dead_letters(
    webhook_id: PathWebhook, context: CurrentContext, limit: Limit = 100, cursor: PathEvent | None = None
) -> Page[DeadLetterOut]:
    """List the events whose delivery failed for good, newest first."""
    async with context.db.connection() as tx:
        await _require_webhook(tx, webhook_id)
        letters = await webhook_store.dead_letters(tx, webhook_id, limit=limit, before=cursor)
    return page_of(letters, limit, DeadLetterOut.of, cursor=lambda letter: letter.seq)


@router.post("/{webhook_id}/dead-letters/{event_id}/redrive", status_code=202)
async def redrive(webhook_id: PathWebhook, event_id: PathEvent, context: CurrentContext) -> WebhookOut:
    """Deliver all events again, starting with a dead letter."""
    return WebhookOut.of(await webhooks.redrive(context.db, webhook_id, event_id))


@router.post("/{webhook_id}/dead-letters/{event_id}/skip", status_code=202)
async def skip(webhook_id: PathWebhook, event_id: PathEvent, context: CurrentContext) -> WebhookOut:
    """Continue with the event after a dead letter."""
    return WebhookOut.of(await webhooks.skip(context.db, webhook_id, event_id))


async def _require_webhook(tx: Tx, webhook_id: WebhookId) -> Webhook:
    hook = await webhook_store.find(tx, webhook_id)
    if hook is None:
        raise NotFound(f"There is no webhook {webhook_id}.", code="webhook_not_found")
    return hook
