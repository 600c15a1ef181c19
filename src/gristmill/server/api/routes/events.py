"""`/api/events`: what happened, in the order that every reader sees; read by cursor, or followed as it happens."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Annotated, Self
from uuid import UUID

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from starlette.types import Message, Send

from gristmill import catalog, events
from gristmill.catalog import ItemId
from gristmill.errors import Invalid, Transient
from gristmill.events import EVENTS, ITEM, RecordedEvent, StreamBatch, StreamFilter
from gristmill.server.api.context import CurrentCaller, CurrentContext
from gristmill.server.api.routes.item import ItemOut
from gristmill.server.api.schemas.common import ApiModel, JsonObject, Limit, Page

log = logging.getLogger(__name__)

router = APIRouter(prefix="/events", tags=["events"])

TYPES = frozenset(event.type for event in EVENTS)
_MAX_EVENT_ID = 2**63 - 1
_RECONNECT_DELAY = timedelta(seconds=1)
_SEND_TIMEOUT = timedelta(
    seconds=30
)  # with a client that takes nothing; then it is let go, and resumes by its id


class EventOut(ApiModel):
    """An event; `correlationId` is the request, rebuild or deletion that caused it."""

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
    """A page of events; `titles` are what their items are called now, as far as they are there."""

    titles: dict[UUID, str]


@router.get("")
async def list_events(
    context: CurrentContext,
    caller: CurrentCaller,
    after: Annotated[int, Query(ge=0, le=_MAX_EVENT_ID)] = 0,
    types: Annotated[str | None, Query(max_length=2_000)] = None,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    before: Annotated[int | None, Query(ge=0, le=_MAX_EVENT_ID)] = None,
    limit: Limit = 100,
) -> EventPage:
    """Events after the one whose `id` is given; `nextCursor` is where to go on, also when there are none yet. With `before`,
    those before that one, newest first, and `nextCursor` is null at the beginning."""
    wanted_types = _parse_types(types)
    await events.sequence_all(context.db)
    async with context.db.connection() as tx:
        recorded_events = await events.read(
            tx, caller.org, after=after, before=before, limit=limit, types=wanted_types, base_id=base_id
        )
        subjects = {ItemId(event.subject) for event in recorded_events if event.subject is not None}
        items = await catalog.find_items(tx, list(subjects), caller.org) if subjects else []
    end = None if before is not None else str(after)
    is_last = before is not None and len(recorded_events) < limit
    return EventPage(
        items=[EventOut.of(event) for event in recorded_events],
        next_cursor=end if not recorded_events or is_last else str(recorded_events[-1].position),
        titles={item.id: item.title for item in items},
    )


class EventStream(StreamingResponse):
    """Server-sent events."""

    media_type = "text/event-stream"

    async def stream_response(self, send: Send) -> None:
        """Send, as long as the client takes what is sent."""

        async def send_with_timeout(message: Message) -> None:
            async with asyncio.timeout(_SEND_TIMEOUT.total_seconds()):
                await send(message)

        try:
            await super().stream_response(send_with_timeout)
        except TimeoutError:
            log.info("a client of the stream takes nothing, and is let go")


@router.get("/stream", response_class=EventStream)
async def stream_events(
    context: CurrentContext,
    caller: CurrentCaller,
    after: Annotated[int | None, Query(ge=0, le=_MAX_EVENT_ID)] = None,
    types: Annotated[str | None, Query(max_length=2_000)] = None,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    last_event_id: Annotated[str | None, Header(max_length=32)] = None,
) -> EventStream:
    """Events as they happen, and updates of items: server-sent events, resumed by `Last-Event-ID` or `after`."""
    wanted_types = _parse_types(types, ITEM)
    position = after
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        position = min(
            int(last_event_id), _MAX_EVENT_ID
        )  # a browser that comes back sends both: this one is newer
    event_filter = StreamFilter(
        base_id, None if wanted_types is None else frozenset(wanted_types), caller.org
    )
    batches = context.broadcaster.subscribe(event_filter, position)
    first = await anext(batches)  # a refusal is told before the answer begins
    return EventStream(_stream_frames(first, batches, event_filter), headers={"Cache-Control": "no-store"})


async def _stream_frames(
    first: StreamBatch, batches: AsyncGenerator[StreamBatch], event_filter: StreamFilter
) -> AsyncGenerator[bytes]:
    async with aclosing(batches):
        yield f"retry: {_RECONNECT_DELAY // timedelta(milliseconds=1)}\n".encode() + _encode_batch(
            first, event_filter
        )
        try:
            async for batch in batches:
                if frames := batch.encode(event_filter, _encode_batch):
                    yield frames
        except Transient as error:  # the client comes back, and is told then what is wrong
            log.warning("a stream ended early", extra={"code": error.code, "reason": error.message})


def _encode_batch(batch: StreamBatch, event_filter: StreamFilter) -> bytes:
    """A batch on the wire. An empty one is a heartbeat, and says how far the client has come: a frame without data
    moves its `Last-Event-ID` and is seen by nobody."""
    frames: list[str] = []
    if batch.gap is not None:
        frames.append(_frame("gap", json.dumps({"upTo": str(batch.gap)})))
    frames += [
        _frame(event.type, EventOut.of(event).model_dump_json(by_alias=True), event.position)
        for event in batch.events
        if event_filter.matches_event(event)
    ]
    if event_filter.wants_items:
        frames += [
            _frame(ITEM, ItemOut.of(item).model_dump_json(by_alias=True))
            for item in batch.items
            if event_filter.matches_change(item.base_id, batch)
        ]
        frames += [
            _frame("reload", json.dumps({"baseId": None if base is None else str(base)}))
            for base in batch.reload
            if event_filter.matches_change(base, batch)
        ]
    if not batch:
        frames.append(f":\nid: {batch.position}\n\n")
    return "".join(frames).encode()


def _frame(name: str, data: str, position: int | None = None) -> str:
    id_line = "" if position is None else f"id: {position}\n"
    return f"{id_line}event: {name}\ndata: {data}\n\n"


def _parse_types(types: str | None, *extra_types: str) -> list[str] | None:
    if types is None:
        return None
    names = [name.strip() for name in types.split(",")]
    for name in names:
        if name not in TYPES and name not in extra_types:
            raise Invalid(
                f"There is no event {name!r}. The types are in the documentation.", code="event_unknown"
            )
    return names
