"""`/api/webhooks`: where events are sent, what became of them, and what to do about those that were not taken."""

from datetime import datetime
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field, StringConstraints

from gristmill.errors import NotFound
from gristmill.events import signature, webhook_store
from gristmill.events.webhook_store import DeadLetter, Webhook, WebhookId
from gristmill.operations import webhooks
from gristmill.server.api.context import CurrentCaller, CurrentContext, PathWebhook
from gristmill.server.api.etags import IfMatch, check_if_match, set_etag
from gristmill.server.api.routes.events import TYPES
from gristmill.server.api.schemas.common import (
    ApiModel,
    ErrorBody,
    Limit,
    Page,
    RequestModel,
    StoredModel,
)

router = APIRouter(prefix="/webhooks", tags=["webhooks"])

_MAX_EVENT_ID = 2**63 - 1


def _validate_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https address")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must hold no user or password: requests are signed")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must be written in plain characters")
    _ = parts.port  # ValueError when it is none
    return text


def _validate_secret(text: str) -> str:
    signature.signing_key(text)
    return text


def _validate_types(types: list[str]) -> list[str]:
    for name in types:
        if name not in TYPES:
            raise ValueError(f"{name!r} is no event; the types are in the documentation")
    return sorted(set(types))


Address = Annotated[str, StringConstraints(min_length=1, max_length=2_000), AfterValidator(_validate_url)]
Description = Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)]
Secret = Annotated[str, StringConstraints(max_length=200), AfterValidator(_validate_secret)]
Types = Annotated[list[str], Field(max_length=100), AfterValidator(_validate_types)]
PathEvent = Annotated[int, Field(ge=1, le=_MAX_EVENT_ID)]


class NewWebhook(RequestModel):
    """What is asked for."""

    url: Address
    description: Description = ""
    secret: Secret | None = None
    base_id: UUID | None = None
    types: Types | None = None


class WebhookChange(RequestModel):
    """What is to be changed; what is left out stays, no types at all mean every type."""

    url: Address | None = None
    description: Description | None = None
    types: Types | None = None
    status: Literal["active", "paused"] | None = None


class WebhookOut(StoredModel):
    """A webhook as it is shown: never with its secret."""

    url: str
    description: str
    base_id: UUID | None
    types: list[str] | None
    status: Literal["active", "paused"]
    cursor: str
    delivered: int
    delivered_at: datetime | None
    attempts: int
    failing_since: datetime | None
    error: ErrorBody | None

    @classmethod
    def of(cls, hook: Webhook) -> Self:
        """Show `hook`."""
        return cls.model_validate(_webhook_fields(hook))


class NewWebhookOut(WebhookOut):
    """A webhook that was just made, with its secret: the only time that it is shown."""

    secret: str


class DeadLetterOut(ApiModel):
    """An event that was given up; `outcome` is null until somebody decided about it."""

    event_id: str
    type: str
    base_id: UUID | None
    attempts: int
    error: ErrorBody
    died_at: datetime
    outcome: Literal["redriven", "skipped"] | None

    @classmethod
    def of(cls, letter: DeadLetter) -> Self:
        """Show `letter`."""
        error = ErrorBody(code=letter.error_code, message=letter.error_message)
        return cls.model_validate({**vars(letter), "event_id": str(letter.seq), "error": error})


class TestOut(ApiModel):
    """What the receiver said to a test."""

    delivered: bool
    status: int | None
    took_ms: float
    error: ErrorBody | None


@router.post("", status_code=201)
async def create_webhook(body: NewWebhook, context: CurrentContext, caller: CurrentCaller) -> NewWebhookOut:
    """Have events sent somewhere from now on."""
    hook, secret = await webhooks.create(
        context.db,
        context.vault,
        org=caller.org,
        url=body.url,
        description=body.description,
        secret=body.secret,
        base_id=body.base_id,
        types=body.types,
    )
    return NewWebhookOut.model_validate({**_webhook_fields(hook), "secret": secret})


@router.get("")
async def list_webhooks(
    context: CurrentContext, caller: CurrentCaller, limit: Limit = 100, cursor: UUID | None = None
) -> Page[WebhookOut]:
    """All webhooks, oldest first."""
    async with context.db.connection() as tx:
        hooks = await webhook_store.find_all(
            tx, caller.org, limit=limit, after=WebhookId(cursor) if cursor else None
        )
    return Page(
        items=[WebhookOut.of(hook) for hook in hooks],
        next_cursor=str(hooks[-1].id) if len(hooks) == limit else None,
    )


@router.get("/{webhook_id}")
async def get_webhook(webhook_id: PathWebhook, context: CurrentContext, response: Response) -> WebhookOut:
    """One webhook."""
    async with context.db.connection() as tx:
        hook = await webhook_store.find(tx, webhook_id)
    if hook is None:
        raise NotFound(f"There is no webhook {webhook_id}.", code="webhook_not_found")
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
        context.db, webhook_id, changes, lambda updated_at: check_if_match(if_match, updated_at)
    )
    set_etag(response, changed.updated_at)
    return WebhookOut.of(changed)


@router.delete("/{webhook_id}", status_code=204)
async def delete_webhook(webhook_id: PathWebhook, context: CurrentContext) -> Response:
    """Forget a webhook."""
    await webhooks.delete(context.db, webhook_id)
    return Response(status_code=204)


@router.post("/{webhook_id}/test")
async def test_webhook(webhook_id: PathWebhook, context: CurrentContext) -> TestOut:
    """Send a test now, once, also to a paused webhook; what came of it."""
    delivery = await webhooks.send_test(context.db, context.sender, webhook_id)
    return TestOut(
        delivered=delivery.error is None,
        status=delivery.status,
        took_ms=round(delivery.took.total_seconds() * 1000, 2),
        error=None if delivery.error is None else ErrorBody.of(delivery.error),
    )


@router.get("/{webhook_id}/dead-letters")
async def list_dead_letters(
    webhook_id: PathWebhook, context: CurrentContext, limit: Limit = 100, cursor: PathEvent | None = None
) -> Page[DeadLetterOut]:
    """Events that were given up, newest first."""
    async with context.db.connection() as tx:
        if await webhook_store.find(tx, webhook_id) is None:
            raise NotFound(f"There is no webhook {webhook_id}.", code="webhook_not_found")
        letters = await webhook_store.dead_letters(tx, webhook_id, limit=limit, before=cursor)
    return Page(
        items=[DeadLetterOut.of(letter) for letter in letters],
        next_cursor=str(letters[-1].seq) if len(letters) == limit else None,
    )


@router.post("/{webhook_id}/dead-letters/{event_id}/redrive", status_code=202)
async def redrive(webhook_id: PathWebhook, event_id: PathEvent, context: CurrentContext) -> WebhookOut:
    """Send everything from a dead letter on."""
    return WebhookOut.of(await webhooks.redrive(context.db, webhook_id, event_id))


@router.post("/{webhook_id}/dead-letters/{event_id}/skip", status_code=202)
async def skip(webhook_id: PathWebhook, event_id: PathEvent, context: CurrentContext) -> WebhookOut:
    """Go on behind a dead letter."""
    return WebhookOut.of(await webhooks.skip(context.db, webhook_id, event_id))


def _webhook_fields(hook: Webhook) -> dict[str, object]:
    error = (
        None if hook.error_code is None else ErrorBody(code=hook.error_code, message=hook.error_message or "")
    )
    fields = {name: value for name, value in vars(hook).items() if name not in ("secret", "org_id")}
    return {**fields, "cursor": str(hook.cursor), "error": error}
