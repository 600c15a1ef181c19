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
from gristmill.doors.api.context import Asking, InContext
from gristmill.doors.api.item import ItemOut
from gristmill.doors.api.wire import JsonObject, Limit, Page, Wire
from gristmill.errors import Invalid, Transient
from gristmill.events import EVENTS, ITEM, Batch, Filter, Recorded

log = logging.getLogger(__name__)

router = APIRouter(prefix="/events", tags=["events"])

TYPES = frozenset(event.type for event in EVENTS)
_LAST = 2**63 - 1
_COME_BACK = timedelta(seconds=1)
_PATIENCE = timedelta(
    seconds=30
)  # with a client that takes nothing; then it is let go, and resumes by its id


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
            id=str(event.place),
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
    context: InContext,
    caller: Asking,
    after: Annotated[int, Query(ge=0, le=_LAST)] = 0,
    types: Annotated[str | None, Query(max_length=2_000)] = None,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    before: Annotated[int | None, Query(ge=0, le=_LAST)] = None,
    limit: Limit = 100,
) -> EventPage:
    """Events after the one whose `id` is given; `nextCursor` is where to go on, also when there are none yet. With `before`,
    those before that one, newest first, and `nextCursor` is null at the beginning."""
    wanted = _wanted(types)
    await events.put_in_order(context.db)
    async with context.db.connection() as tx:
        found = await events.read(
            tx, caller.org, after=after, before=before, limit=limit, types=wanted, base_id=base_id
        )
        subjects = {ItemId(event.subject) for event in found if event.subject is not None}
        items = await catalog.find_items(tx, list(subjects), caller.org) if subjects else []
    end = None if before is not None else str(after)
    is_last = before is not None and len(found) < limit
    return EventPage(
        items=[EventOut.of(event) for event in found],
        next_cursor=end if not found or is_last else str(found[-1].place),
        titles={item.id: item.title for item in items},
    )


class EventStream(StreamingResponse):
    """Server-sent events."""

    media_type = "text/event-stream"

    async def stream_response(self, send: Send) -> None:
        """Send, as long as the client takes what is sent."""

        async def patiently(message: Message) -> None:
            async with asyncio.timeout(_PATIENCE.total_seconds()):
                await send(message)

        try:
            await super().stream_response(patiently)
        except TimeoutError:
            log.info("a client of the stream takes nothing, and is let go")


@router.get("/stream", response_class=EventStream)
async def stream_events(
    context: InContext,
    caller: Asking,
    after: Annotated[int | None, Query(ge=0, le=_LAST)] = None,
    types: Annotated[str | None, Query(max_length=2_000)] = None,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    last_event_id: Annotated[str | None, Header(max_length=32)] = None,
) -> EventStream:
    """Events as they happen, and updates of items: server-sent events, resumed by `Last-Event-ID` or `after`."""
    wanted = _wanted(types, ITEM)
    place = after
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        place = min(int(last_event_id), _LAST)  # a browser that comes back sends both: this one is newer
    filter_ = Filter(base_id, None if wanted is None else frozenset(wanted), caller.org)
    batches = context.broadcaster.follow(filter_, place)
    first = await anext(batches)  # a refusal is told before the answer begins
    return EventStream(_sent(first, batches, filter_), headers={"Cache-Control": "no-store"})


async def _sent(first: Batch, batches: AsyncGenerator[Batch], wanted: Filter) -> AsyncGenerator[bytes]:
    async with aclosing(batches):
        yield f"retry: {_COME_BACK // timedelta(milliseconds=1)}\n".encode() + _write(first, wanted)
        try:
            async for batch in batches:
                if written := batch.written(wanted, _write):
                    yield written
        except Transient as error:  # the client comes back, and is told then what is wrong
            log.warning("a stream ended early", extra={"code": error.code, "reason": error.message})


def _write(batch: Batch, wanted: Filter) -> bytes:
    """A batch on the wire. An empty one is a heartbeat, and says how far the client has come: a frame without data
    moves its `Last-Event-ID` and is seen by nobody."""
    frames: list[str] = []
    if batch.gap is not None:
        frames.append(_frame("gap", json.dumps({"upTo": str(batch.gap)})))
    frames += [
        _frame(event.type, EventOut.of(event).model_dump_json(by_alias=True), event.place)
        for event in batch.events
        if wanted.event(event)
    ]
    if wanted.items:
        frames += [
            _frame(ITEM, ItemOut.of(item).model_dump_json(by_alias=True))
            for item in batch.items
            if wanted.change(item.base_id, batch)
        ]
        frames += [
            _frame("reload", json.dumps({"baseId": None if base is None else str(base)}))
            for base in batch.reload
            if wanted.change(base, batch)
        ]
    if not batch:
        frames.append(f":\nid: {batch.place}\n\n")
    return "".join(frames).encode()


def _frame(name: str, data: str, place: int | None = None) -> str:
    where = "" if place is None else f"id: {place}\n"
    return f"{where}event: {name}\ndata: {data}\n\n"


def _wanted(types: str | None, *more: str) -> list[str] | None:
    if types is None:
        return None
    wanted = [name.strip() for name in types.split(",")]
    for name in wanted:
        if name not in TYPES and name not in more:
            raise Invalid(
                f"There is no event {name!r}. The types are in the documentation.", code="event_unknown"
            )
    return wanted
