"""Following along: one broadcaster a process reads what is new, once, and hands it to everybody who follows.

    a notification, or a second     put in order → read what is new → one batch for all
    75 ms, if items are wanted      which items changed → their newest state → one batch for all
                                    (300 ms while none does and no event comes)

Batches are shared: each is written for the wire once per filter, whatever the number of followers. A follower's queue is
bounded. Who falls behind is served from the table again, from the event it has got to; who takes nothing for a while is
let go by the door, and comes back with the id of its last event. So no follower costs memory, and none misses an event.

Updates of items are a help for the eye, not a record: they have no place in the order, only the newest state of an item
is told, and where some may have been missed the follower is told to look again (`reload`).
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from gristmill import catalog, clock
from gristmill.catalog import Item, ItemId
from gristmill.db import Database, DatabaseUnavailable
from gristmill.db.listen import Listener
from gristmill.db.outage import Outage
from gristmill.errors import LimitReached, Transient
from gristmill.events import store
from gristmill.events.sequencer import sequence_all
from gristmill.events.store import RecordedEvent
from gristmill.identity import LOCAL_ORG, OrgId

log = logging.getLogger(__name__)

ITEM = "item"  # the type by which updates of items are asked for
HEARTBEAT = timedelta(seconds=15)
MAX_SUBSCRIBERS = 1_000
POLL = timedelta(seconds=1)
ITEMS_EVERY = timedelta(milliseconds=75)  # while something changes: what is written is seen within 150 ms
ITEMS_AT_REST = timedelta(milliseconds=300)
_COALESCE = timedelta(milliseconds=50)  # between two rounds: many commits are one batch
_SEQUENCER_RETRY = timedelta(milliseconds=20)  # another puts events in order at this moment
_TIMER_SLACK = 0.005  # a timer may end a little before its time
_PAGE = 500
_MAX_QUEUED = 5_000  # events and items that may wait for one follower
_MAX_ITEMS = 2_000  # of one round; more are told as one `reload`


@dataclass(frozen=True)
class StreamFilter:
    """What a follower wants to hear of, of its own organisation."""

    base_id: UUID | None = None
    types: frozenset[str] | None = None
    org: OrgId = LOCAL_ORG

    @property
    def wants_items(self) -> bool:
        """Whether updates of items are wanted."""
        return self.types is None or ITEM in self.types

    def matches_event(self, event: RecordedEvent) -> bool:
        """Whether `event` is wanted."""
        return (
            event.org_id == self.org
            and (self.types is None or event.type in self.types)
            and self.matches_base(event.base_id)
        )

    def matches_base(self, base_id: UUID | None) -> bool:
        """Whether this base is watched, if it is of the organisation."""
        return self.base_id is None or base_id == self.base_id

    def matches_change(self, base_id: UUID | None, batch: "StreamBatch") -> bool:
        """Whether a change of an item of this base is wanted; None stands for all bases of the organisation."""
        return base_id is None or (batch.owners.get(base_id) == self.org and self.matches_base(base_id))


@dataclass(frozen=True, eq=False)
class StreamBatch:
    """What is told at once. `places` are the last events that are behind a follower once it has the batch, by its
    organisation; `place` is that of one follower's own batch. `reload` are bases whose items have to be looked at anew,
    None for all; `owners` says whose the bases of items are; `gap`: events after this one were swept unseen."""

    position: int
    events: Sequence[RecordedEvent] = ()
    items: Sequence[Item] = ()
    reload: Sequence[UUID | None] = ()
    gap: int | None = None
    positions: Mapping[OrgId, int] = field(default_factory=dict[OrgId, int])
    owners: Mapping[UUID, OrgId] = field(default_factory=dict[UUID, OrgId])
    encoded: dict[StreamFilter, bytes] = field(default_factory=dict[StreamFilter, bytes])

    def encode(
        self, stream_filter: StreamFilter, write: Callable[["StreamBatch", StreamFilter], bytes]
    ) -> bytes:
        """The batch for the wire, written once for all who want the same."""
        if stream_filter not in self.encoded:
            self.encoded[stream_filter] = write(self, stream_filter)
        return self.encoded[stream_filter]

    def has_match(self, stream_filter: StreamFilter) -> bool:
        """Whether any of it is wanted."""
        return any(map(stream_filter.matches_event, self.events)) or (
            stream_filter.wants_items
            and any(
                stream_filter.matches_change(base_id, self)
                for base_id in (*(item.base_id for item in self.items), *self.reload)
            )
        )

    def __len__(self) -> int:
        return len(self.events) + len(self.items) + len(self.reload)


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
    """Hands what is new to everybody who follows; works only while somebody does."""

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

    def listen(self, listener: Listener) -> None:
        """Have notifications wake it; before the listener starts."""
        listener.subscribe("event", lambda _payload: self._wake.set())

    @property
    def subscriber_count(self) -> int:
        """How many follow at the moment."""
        return len(self._subscribers)

    def close(self) -> None:
        """End every stream at its next edge, which is now for all that wait; who comes later is refused."""
        self._closing = True
        for subscriber in self._subscribers:
            subscriber.wake.set()
        self._ready.set()

    async def stop(self) -> None:
        """Close, and stop looking."""
        self.close()
        if self._task is not None:
            await clock.cancel_tasks([self._task])

    async def subscribe(
        self, stream_filter: StreamFilter, after: int | None = None
    ) -> AsyncGenerator[StreamBatch]:
        """What is new from event `after` on, or from now: batches until the broadcaster is closed. The first one, and
        one every `HEARTBEAT`, is empty, and tells the place alone."""
        subscriber = await self._join(stream_filter)
        try:
            org = stream_filter.org
            position = self._position(org) if after is None else min(after, self._position(org))
            yield StreamBatch(position, gap=await self._gap(org, position))
            while not self._closing:
                if subscriber.behind:
                    subscriber.behind = False  # from here on what is new waits in the queue
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
                    position = self._position(org)  # all that was wanted up to here has been told
                    yield StreamBatch(position)
        finally:
            self._leave(subscriber)

    # ── coming and going ─────────────────────────────────────────────────────────────────────────────────

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
        """The place after which the first events that are left stand, when some before them were swept."""
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

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────

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
            except Exception as error:  # a bug: followers would wait for ever if nobody looked any more
                log.exception("the broadcaster raised a bug")
                await self._outage.wait(type(error).__name__)
                continue
            self._outage.clear()
            await clock.pause(_COALESCE)
            await clock.wait(self._wake, self._next_wait())
            self._wake.clear()

    async def _start_from_now(self) -> None:
        """Somebody follows again: from what is there now on."""
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
                # What happens changes items: they are looked at as soon as they may be.
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
