"""`/api/events`: what happened, in the order that every reader sees."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from fastapi import APIRouter, Query

from gristmill import events
from gristmill.doors.api.context import InContext
from gristmill.doors.api.wire import JsonObject, Limit, Page, Wire
from gristmill.errors import Invalid
from gristmill.events import EVENTS, Recorded

router = APIRouter(prefix="/events", tags=["events"])

_TYPES = frozenset(event.type for event in EVENTS)
_LAST = 2**63 - 1


class EventOut(Wire):
    """An event; `correlationId` is the request, rebuild or deletion that caused it."""

    id: str
    type: str
    base_id: UUID | None
    subject: UUID | None
    correlation_id: UUID | None
    data: JsonObject
    at: datetime

    @classmethod
    def of(cls, event: Recorded) -> Self:
        """Show `event`."""
        return cls(
            id=str(event.seq),
            type=event.type,
            base_id=event.base_id,
            subject=event.subject,
            correlation_id=event.cause,
            data=event.data,
            at=event.at,
        )


@router.get("")
async def list_events(
    context: InContext,
    after: Annotated[int, Query(ge=0, le=_LAST)] = 0,
    types: Annotated[str | None, Query(max_length=2_000)] = None,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    limit: Limit = 100,
) -> Page[EventOut]:
    """Events after the one whose `id` is given; `nextCursor` is where to go on, also when there are none yet."""
    wanted = _wanted(types)
    async with context.db.transaction() as tx:
        await events.sequence(tx)
    async with context.db.connection() as tx:
        found = await events.read(tx, after=after, limit=limit, types=wanted, base_id=base_id)
    return Page(
        items=[EventOut.of(event) for event in found],
        next_cursor=str(found[-1].seq if found else after),
    )


def _wanted(types: str | None) -> list[str] | None:
    if types is None:
        return None
    wanted = [name.strip() for name in types.split(",")]
    for name in wanted:
        if name not in _TYPES:
            raise Invalid(
                f"There is no event {name!r}. The types are in the documentation.", code="event_unknown"
            )
    return wanted
