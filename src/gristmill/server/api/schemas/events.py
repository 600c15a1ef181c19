"""Events of the outbox."""

from datetime import datetime
from typing import Self
from uuid import UUID

from gristmill.events import EVENTS, RecordedEvent
from gristmill.server.api.schemas.common import ApiModel, JsonObject, Page

TYPES = frozenset(event.type for event in EVENTS)


class EventOut(ApiModel):
    """An event; `correlationId` names the request, reindex or deletion that caused it."""

    id: str
    type: str
    base_id: UUID | None
    subject: UUID | None
    correlation_id: UUID | None
    data: JsonObject
    at: datetime

    @classmethod
    def of(cls, event: RecordedEvent) -> Self:
        """Show `event`."""
        return cls(
            id=str(event.position),
            type=event.type,
            base_id=event.base_id,
            subject=event.subject,
            correlation_id=event.cause,
            data=event.data,
            at=event.at,
        )


class EventPage(Page[EventOut]):
    """A page of events; `titles` holds the current titles of their items that still exist."""

    titles: dict[UUID, str]
