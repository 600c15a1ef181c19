"""`/api/events`: the outbox in one order for every reader, read by cursor or followed as server-sent events.

A stream lives longer than the request that opened it was allowed for: before it sends anything, and with every heartbeat, the caller
is identified again, at most once a second. It ends when their key is revoked, their session ends or their role is lowered.
"""

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Annotated
from uuid import UUID

from fastapi import Header, Query, Request
from starlette.types import Scope

from gristmill import events
from gristmill.db import DatabaseUnavailable
from gristmill.errors import Invalid, NotAuthenticated, Transient
from gristmill.events import ITEM, StreamBatch, StreamFilter
from gristmill.identity import OrgId
from gristmill.server.api import caller as callers
from gristmill.server.api.context import ApiContext, CurrentCaller, CurrentContext
from gristmill.server.api.event_stream import EventStream, encode_frame
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes.items import item_titles
from gristmill.server.api.schemas.common import Limit
from gristmill.server.api.schemas.events import TYPES, EventOut, EventPage
from gristmill.server.api.schemas.items import ItemOut

log = logging.getLogger(__name__)

router = ApiRouter("/api/events", tag="events")

_MAX_EVENT_ID = 2**63 - 1
_RECONNECT_DELAY = timedelta(seconds=1)
_PERMISSION_LIFE = timedelta(seconds=1)  # how long an identified caller counts


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
    """List the events after the event id `after`. `nextCursor` is the next `after`, also when there are no new events.
    With `before`, list the events before that id, newest first; `nextCursor` is then null once the oldest is reached."""
    wanted_types = _parse_types(types)
    await events.sequence_all(context.db)
    async with context.db.connection() as tx:
        recorded_events = await events.read(
            tx, caller.org, after=after, before=before, limit=limit, types=wanted_types, base_id=base_id
        )
        titles = await item_titles(tx, (event.subject for event in recorded_events), caller.org)
    end = None if before is not None else str(after)
    is_last = before is not None and len(recorded_events) < limit
    return EventPage(
        items=[EventOut.of(event) for event in recorded_events],
        next_cursor=end if not recorded_events or is_last else str(recorded_events[-1].position),
        titles=titles,
    )


@router.get("/stream", response_class=EventStream)
async def stream_events(
    context: CurrentContext,
    caller: CurrentCaller,
    request: Request,
    after: Annotated[int | None, Query(ge=0, le=_MAX_EVENT_ID)] = None,
    types: Annotated[str | None, Query(max_length=2_000)] = None,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    last_event_id: Annotated[str | None, Header(max_length=32)] = None,
) -> EventStream:
    """Follow events and item updates as server-sent events. Resume with `Last-Event-ID` or `after`. The stream ends with the
    caller's key, session or role."""
    wanted_types = _parse_types(types, ITEM)
    position = after
    if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
        # A reconnecting browser sends both, and the header is the newer one.
        position = min(int(last_event_id), _MAX_EVENT_ID)
    event_filter = StreamFilter(
        base_id, None if wanted_types is None else frozenset(wanted_types), caller.org
    )
    batches = context.broadcaster.subscribe(event_filter, position)
    first = await anext(batches)  # before the response starts, so that an error still has a status
    permission = _Permission(context, request.scope, caller.org, monotonic())
    frames = _stream_frames(first, batches, event_filter, permission)
    return EventStream(frames, headers={"Cache-Control": "no-store"})


@dataclass
class _Permission:
    """Whether the caller who opened a stream may still follow the events of their organisation."""

    context: ApiContext
    scope: Scope
    org: OrgId
    checked_at: float

    async def holds(self, batch: StreamBatch) -> bool:
        """Whether this batch may be sent. While the database can't be asked, only heartbeats are."""
        now = monotonic()
        if now - self.checked_at < _PERMISSION_LIFE.total_seconds():
            return True
        try:
            caller = await callers.identify(self.context.db, self.context.settings, self.scope)
        except NotAuthenticated:
            return False
        except DatabaseUnavailable:
            return not batch
        self.checked_at = now
        return caller is not None and caller.org == self.org and caller.is_at_least("admin")


async def _stream_frames(
    first: StreamBatch,
    batches: AsyncGenerator[StreamBatch],
    event_filter: StreamFilter,
    permission: _Permission,
) -> AsyncGenerator[bytes]:
    async with aclosing(batches):
        yield f"retry: {_RECONNECT_DELAY // timedelta(milliseconds=1)}\n".encode() + _encode_batch(
            first, event_filter
        )
        try:
            async for batch in batches:
                if frames := batch.encode(event_filter, _encode_batch):
                    if not await permission.holds(batch):
                        return
                    yield frames
        except Transient as error:  # the client reconnects, and gets the error if it persists
            log.warning("event stream ended early", extra={"code": error.code, "reason": error.message})


def _encode_batch(batch: StreamBatch, event_filter: StreamFilter) -> bytes:
    """Encode a batch as SSE frames. An empty batch is a heartbeat: a frame without data, which advances the client's
    `Last-Event-ID` without raising an event."""
    frames: list[str] = []
    if batch.gap is not None:
        frames.append(encode_frame("gap", json.dumps({"upTo": str(batch.gap)})))
    frames += [
        encode_frame(event.type, EventOut.of(event).model_dump_json(by_alias=True), event.position)
        for event in batch.events
        if event_filter.matches_event(event)
    ]
    if event_filter.wants_items:
        frames += [
            encode_frame(ITEM, ItemOut.of(item).model_dump_json(by_alias=True))
            for item in batch.items
            if event_filter.matches_change(item.base_id, batch)
        ]
        frames += [
            encode_frame("reload", json.dumps({"baseId": None if base is None else str(base)}))
            for base in batch.reload
            if event_filter.matches_change(base, batch)
        ]
    if not batch:
        frames.append(f":\nid: {batch.position}\n\n")
    return "".join(frames).encode()


def _parse_types(types: str | None, *extra_types: str) -> list[str] | None:
    if types is None:
        return None
    names = [name.strip() for name in types.split(",")]
    for name in names:
        if name not in TYPES and name not in extra_types:
            raise Invalid(
                f"There is no event type {name!r}. docs/reference/events.md lists the types.",
                code="event_unknown",
            )
    return names
