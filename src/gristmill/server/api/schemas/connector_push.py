"""Pushes: the calls by which tools report changes."""

from datetime import datetime
from typing import Literal

from gristmill.server.api.schemas.common import ApiModel


class PushOut(ApiModel):
    """What a push leads to: a run now, one after the run under way, or none because the connector is paused or feeds no base."""

    status: Literal["started", "queued", "ignored"]


class PushSettingsOut(ApiModel):
    """Whether a connector's tool may push, the address it calls, and when it last did."""

    url: str
    enabled: bool
    created_at: datetime | None
    last_push_at: datetime | None


class PushSecretOut(PushSettingsOut):
    """A new secret, and the address that contains it, for tools that don't sign."""

    secret: str
    url_with_secret: str
