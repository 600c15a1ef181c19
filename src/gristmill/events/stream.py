"""The stream of events: one broadcaster per process reads new events once, and passes them to all its subscribers.

    a notification, or a second     sequence → read new events → one batch for all
    75 ms, if items are wanted      which items changed → their newest state → one batch for all
                                    (300 ms while nothing changes and no event comes)

Batches are shared: each is encoded once per filter, whatever the number of subscribers. A subscriber's queue is bounded.
One that falls behind is served from the table again, from its last event on; one that reads nothing for a while is
disconnected by the route, and reconnects with the id of its last event. So no subscriber costs memory, and none misses an
event.

Updates of items are for display, not a record: they have no position, only the newest state of an item is sent, and where
some may have been missed the subscriber is asked to load them again (`reload`).
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from gristmill import catalog, clock
from gristmill.catalog import ItemId
from gristmill.db import Database, DatabaseUnavailable
from gristmill.db.listen import Listener
from gristmill.db.outage import Outage
from gristmill.errors import LimitReached, Transient
from gristmill.events import store
from gristmill.events.sequencer import sequence_all
from gristmill.events.stream_batch import StreamBatch, StreamFilter
from gristmill.identity import OrgId

log = logging.getLogger(__name__)

HEARTBEAT = timedelta(seconds=15)
MAX_SUBSCRIBERS = 1_000
POLL = timedelta(seconds=1)
ITEMS_EVERY = timedelta(milliseconds=75)  # while something changes: a change is seen within 150 ms
ITEMS_AT_REST = timedelta(milliseconds=300)
_COALESCE = timedelta(milliseconds=50)  # so that many commits become one batch
_SEQUENCER_RETRY = timedelta(milliseconds=20)  # another process is sequencing at this moment
_TIMER_SLACK = 0.005  # a timer may fire a little early
_PAGE = 500
_MAX_QUEUED = 5_000  # events and items in one subscriber's queue
_MAX_ITEMS = 2_000  # per round; more are sent as one `reload`


class _Subscriber:
    def __init__(self, stream_filter: StreamFilter) -> None:
        self.stream_filter = stream_filter
        self.wake = asyncio.Event()
        self.behind = True
        self.missed = False  # updates of items
        self._ready: deque[StreamBatch] = deque()
        self._waiting = 0

    def put(self, batch: StreamBatch) -> None:
        if self.behind:
            self.missed = self.missed or bool(batch.items or batch.reload)
        elif self._waiting + len(batch) > _MAX_QUEUED:
            self.behind, self.missed = True, True
            self._ready.clear()
            self._waiting = 0
        else:
            self._ready.append(batch)
            self._waiting += len(batch)
        self.wake.set()

    def take(self) -> StreamBatch | None:
        if not self._ready:
            return None
        batch = self._ready.popleft()
        self._waiting -= len(batch)
        return batch


class Broadcaster:
    """Passes new events to all subscribers; works only while there are any."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._subscribers: set[_Subscriber] = set()
        self._joining = 0
        self._task: asyncio.Task[None] | None = None
        self._wake, self._has_subscribers, self._ready = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._closing = False
        self._last_seq = 0
        self._positions: dict[OrgId, int] = {}
        self._sequencer_busy = False
        self._next_items_poll, self._items_interval = 0.0, ITEMS_AT_REST
        self._changes_since: datetime | None = None
        self._sent_updates: dict[ItemId, datetime] = {}
        self._outage = Outage(log, "the database")
        self._failures = Outage(log, "the broadcaster")

    def listen(self, listener: Listener) -> None:
        """Wake up on notifications; call it before the listener starts."""
        listener.subscribe("event", lambda _payload: self._wake.set())

    @property
    def subscriber_count(self) -> int:
        """The number of open streams."""
        return len(self._subscribers)

    def close(self) -> None:
        """End every stream after its current batch, and refuse new ones."""
        self._closing = True
        for subscriber in self._subscribers:
            subscriber.wake.set()
        self._ready.set()

    async def stop(self) -> None:
        """Close, and stop polling."""
        self.close()
        if self._task is not None:
            await clock.cancel_tasks([self._task])

    async def subscribe(
        self, stream_filter: StreamFilter, after: int | None = None
    ) -> AsyncGenerator[StreamBatch]:
        """Batches of new events after event `after`, or from now on, until the broadcaster is closed. The first batch, and
        one every `HEARTBEAT`, is empty and has only the position."""
        subscriber = await self._join(stream_filter)
        try:
            org = stream_filter.org
            position = self._position(org) if after is None else min(after, self._position(org))
            yield StreamBatch(position, gap=await self._gap(org, position))
            while not self._closing:
                if subscriber.behind:
                    subscriber.behind = False  # from here on new batches wait in the queue
                    target = self._position(org)
                    async for batch in self._history(stream_filter, position, target):
                        yield batch
                    position = target
                    if subscriber.missed:
                        subscriber.missed = False
                        owners = {} if stream_filter.base_id is None else {stream_filter.base_id: org}
                        yield StreamBatch(position, reload=[stream_filter.base_id], owners=owners)
                    continue
                if (batch := subscriber.take()) is not None:
                    position = batch.positions.get(org, position)
                    yield batch
                elif await clock.wait(subscriber.wake, HEARTBEAT):
                    subscriber.wake.clear()
                elif not subscriber.behind:
                    position = self._position(org)  # everything that was wanted up to here was sent
                    yield StreamBatch(position)
        finally:
            self._leave(subscriber)

    # ── subscribers ──────────────────────────────────────────────────────────────────────────────────────

    async def _join(self, stream_filter: StreamFilter) -> _Subscriber:
        if self.subscriber_count + self._joining >= MAX_SUBSCRIBERS:
            raise LimitReached(
                f"{MAX_SUBSCRIBERS:,} streams are open already. Close some, or poll /api/events.",
                retry_after=timedelta(seconds=30),
                code="too_many_streams",
            )
        self._joining += 1
        try:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run(), name="broadcaster")
            self._has_subscribers.set()
            await self._ready.wait()
            if self._closing:
                raise Transient("The server is stopping. Connect again in a moment.", code="stopping")
            subscriber = _Subscriber(stream_filter)
            self._subscribers.add(subscriber)
            return subscriber
        finally:
            self._joining -= 1

    def _leave(self, subscriber: _Subscriber) -> None:
        self._subscribers.discard(subscriber)
        if not self._subscribers and not self._joining and not self._closing:
            self._has_subscribers.clear()
            self._ready.clear()

    def _position(self, org: OrgId) -> int:
        return self._positions.get(org, 0)

    async def _gap(self, org: OrgId, position: int) -> int | None:
        """The position before the first event that is left, when events after `position` were swept."""
        if position == self._position(org):
            return None
        async with self._db.connection() as tx:
            oldest = await store.oldest_position(tx, org)
        first = self._position(org) + 1 if oldest is None else oldest
        return first - 1 if position + 1 < first else None

    async def _history(
        self, stream_filter: StreamFilter, position: int, target: int
    ) -> AsyncGenerator[StreamBatch]:
        types = None if stream_filter.types is None else sorted(stream_filter.types)
        while position < target:
            async with self._db.connection() as tx:
                page = await store.read(
                    tx,
                    stream_filter.org,
                    after=position,
                    limit=_PAGE,
                    types=types,
                    base_id=stream_filter.base_id,
                )
            events = [event for event in page if event.position <= target]
            position = events[-1].position if len(page) == _PAGE and len(events) == len(page) else target
            if events:
                yield StreamBatch(position, events)

    # ── polling ──────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        while True:
            try:
                if not self._has_subscribers.is_set():
                    await self._has_subscribers.wait()
                if not self._ready.is_set():
                    await self._start_from_now()
                await self._poll_events()
            except DatabaseUnavailable as error:
                await self._outage.wait(error.message)
                continue
            except Exception as error:  # a bug: without this loop subscribers would wait forever
                await self._failures.wait_unexpected(error)
                continue
            self._outage.clear()
            self._failures.clear()
            await clock.pause(_COALESCE)
            await clock.wait(self._wake, self._next_wait())
            self._wake.clear()

    async def _start_from_now(self) -> None:
        """The first subscriber has come: start from the present end."""
        self._sequencer_busy = not await sequence_all(self._db)
        async with self._db.connection() as tx:
            self._last_seq = await store.last_seq(tx)
            self._positions = await store.last_positions(tx, self._last_seq)
            self._changes_since = await catalog.changes_watermark(tx)
        self._sent_updates.clear()
        self._ready.set()

    def _next_wait(self) -> timedelta:
        if self._sequencer_busy:
            return _SEQUENCER_RETRY
        if any(subscriber.stream_filter.wants_items for subscriber in self._subscribers):
            return max(timedelta(0), timedelta(seconds=self._next_items_poll - _now()))
        return POLL

    async def _poll_events(self) -> None:
        self._sequencer_busy = not await sequence_all(self._db)
        polled_at = self._next_items_poll - self._items_interval.total_seconds()
        while True:
            async with self._db.connection() as tx:
                events = await store.read_all(tx, after=self._last_seq, limit=_PAGE)
            if events:
                self._last_seq = events[-1].seq
                positions = {event.org_id: event.position for event in events}
                self._positions |= positions
                self._publish(StreamBatch(self._last_seq, events, positions=positions))
                # Events usually change items: poll them as soon as allowed.
                self._next_items_poll = min(self._next_items_poll, polled_at + ITEMS_EVERY.total_seconds())
            if len(events) < _PAGE:
                break
        item_filters = [
            subscriber.stream_filter
            for subscriber in self._subscribers
            if subscriber.stream_filter.wants_items
        ]
        if item_filters and _now() > self._next_items_poll - _TIMER_SLACK:
            bases = {item_filter.base_id for item_filter in item_filters}
            base_ids = None if None in bases else [base for base in bases if base is not None]
            changed = await self._poll_items(base_ids)
            self._items_interval = ITEMS_EVERY if changed else min(2 * self._items_interval, ITEMS_AT_REST)
            self._next_items_poll = _now() + self._items_interval.total_seconds()

    async def _poll_items(self, bases: Sequence[UUID] | None) -> bool:
        async with self._db.connection() as tx:
            mark = await catalog.changes_watermark(tx)
            since, self._changes_since = self._changes_since or mark, mark
            changed = await catalog.item_changes(tx, since, bases)
            fresh = [change for change in changed if self._sent_updates.get(change.id) != change.updated_at]
            self._sent_updates = {
                change.id: change.updated_at for change in changed if change.updated_at >= mark
            }
            if not fresh:
                return False
            bases_by_id = await catalog.find_bases(tx, list({change.base_id for change in fresh}))
            owners: dict[UUID, OrgId] = {base.id: base.org_id for base in bases_by_id.values()}
            if len(fresh) > _MAX_ITEMS:
                self._publish(StreamBatch(self._last_seq, reload=sorted(owners), owners=owners))
            else:
                items = await catalog.find_items(tx, [change.id for change in fresh])
                self._publish(StreamBatch(self._last_seq, items=items, owners=owners))
        return True

    def _publish(self, batch: StreamBatch) -> None:
        matches: dict[StreamFilter, bool] = {}
        for subscriber in self._subscribers:
            stream_filter = subscriber.stream_filter
            if stream_filter not in matches:
                matches[stream_filter] = batch.has_match(stream_filter)
            if matches[stream_filter]:
                subscriber.put(batch)


def _now() -> float:
    return asyncio.get_running_loop().time()
