"""What the routes need of the running Gristmill."""

from dataclasses import dataclass
from typing import Annotated, cast
from uuid import UUID

from fastapi import Depends, Request

from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database
from gristmill.embedding import Embedders
from gristmill.errors import NotFound
from gristmill.events import Broadcaster
from gristmill.events.webhook import WebhookId
from gristmill.events.webhooks import Sender
from gristmill.jobs import QueueLimits
from gristmill.operations.originals import Originals
from gristmill.settings import Settings
from gristmill.vault import Vault


@dataclass(frozen=True)
class Context:
    """Handed over by `app.py`."""

    db: Database
    embedders: Embedders
    originals: Originals
    settings: Settings
    broadcaster: Broadcaster
    vault: Vault
    sender: Sender

    @property
    def queue_limits(self) -> QueueLimits:
        """How much may wait."""
        return QueueLimits(lane=self.settings.max_queue_per_base, total=self.settings.max_queue)


def _context(request: Request) -> Context:
    return cast(Context, request.app.state.context)


def _base_id(base_id: str) -> BaseId:
    return BaseId(_uuid(base_id, f"There is no knowledge base {base_id!r}.", "base_not_found"))


def _item_id(item_id: str) -> ItemId:
    return ItemId(_uuid(item_id, f"There is no item {item_id!r}.", "item_not_found"))


def _webhook_id(webhook_id: str) -> WebhookId:
    return WebhookId(_uuid(webhook_id, f"There is no webhook {webhook_id!r}.", "webhook_not_found"))


def _uuid(text: str, message: str, code: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        # What can't be an id is no different, to the caller, from an id that nothing has.
        raise NotFound(message, code=code) from None


InContext = Annotated[Context, Depends(_context)]
PathBase = Annotated[BaseId, Depends(_base_id)]
PathItem = Annotated[ItemId, Depends(_item_id)]
PathWebhook = Annotated[WebhookId, Depends(_webhook_id)]
