"""Webhooks and their dead letters."""

from datetime import datetime
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator, Field, StringConstraints

from gristmill.events import signature
from gristmill.events.webhook_store import DeadLetter, Webhook
from gristmill.server.api.schemas.common import (
    ApiModel,
    ErrorBody,
    RequestModel,
    StoredModel,
)
from gristmill.server.api.schemas.events import TYPES

_MAX_EVENT_ID = 2**63 - 1


def _validate_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:  # brackets without an IPv6 address, or a port that is no number
        raise ValueError("must be an http or https URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https URL")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not contain a user or password: verify the signature of requests instead")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must contain only printable ASCII characters; percent-encode the others")
    return text


def _validate_secret(text: str) -> str:
    signature.signing_key(text)
    return text


def _validate_types(types: list[str]) -> list[str]:
    for name in types:
        if name not in TYPES:
            raise ValueError(f"{name!r} is not an event type; docs/reference/events.md lists them")
    return sorted(set(types))


Address = Annotated[str, StringConstraints(min_length=1, max_length=2_000), AfterValidator(_validate_url)]


Description = Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)]


Secret = Annotated[str, StringConstraints(max_length=200), AfterValidator(_validate_secret)]


Types = Annotated[list[str], Field(max_length=100), AfterValidator(_validate_types)]


PathEvent = Annotated[int, Field(ge=1, le=_MAX_EVENT_ID)]


class NewWebhook(RequestModel):
    """A webhook to create. Without `types` it receives every event."""

    url: Address
    description: Description = ""
    secret: Secret | None = None
    base_id: UUID | None = None
    types: Types | None = None


class WebhookChange(RequestModel):
    """Changes to a webhook; omitted fields stay as they are. An empty list of types means every event."""

    url: Address | None = None
    description: Description | None = None
    types: Types | None = None
    status: Literal["active", "paused"] | None = None


class WebhookOut(StoredModel):
    """A webhook, without its secret."""

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
    """A new webhook with its secret, which is never shown again."""

    secret: str

    @classmethod
    def with_secret(cls, hook: Webhook, secret: str) -> Self:
        """Show `hook` with its secret."""
        return cls.model_validate({**_webhook_fields(hook), "secret": secret})


class DeadLetterOut(ApiModel):
    """An event whose delivery failed for good; `outcome` is null until it is redriven or skipped."""

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


class WebhookTestOut(ApiModel):
    """How the receiver answered the test event."""

    delivered: bool
    status: int | None
    took_ms: float
    error: ErrorBody | None


def _webhook_fields(hook: Webhook) -> dict[str, object]:
    error = ErrorBody.from_columns(hook.error_code, hook.error_message)
    fields = {name: value for name, value in vars(hook).items() if name not in ("secret", "org_id")}
    return {**fields, "cursor": str(hook.cursor), "error": error}
