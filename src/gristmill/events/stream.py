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
from gristmill.db import Database, Unavailable
from gristmill.db.listen import Listener
from gristmill.db.outage import Outage
from gristmill.errors import LimitReached, Transient
from gristmill.events import store
from gristmill.events.order import put_in_order
from gristmill.events.store import Recorded
from gristmill.organisation import LOCAL, OrgId

log = logging.getLogger(__name__)

ITEM = "item"  # the type by which updates of items are asked for
HEARTBEAT = timedelta(seconds=15)
MOST_FOLLOWERS = 1_000
POLL = timedelta(seconds=1)
ITEMS_EVERY = timedelta(milliseconds=75)  # while something changes: what is written is seen within 150 ms
ITEMS_AT_REST = timedelta(milliseconds=300)
_REST = timedelta(milliseconds=50)  # between two rounds: many commits are one batch
_SOON = timedelta(milliseconds=20)  # another puts events in order at this moment
_EARLY = 0.005  # a timer may end a little before its time
_PAGE = 500
_QUEUE = 5_000  # events and items that may wait for one follower
_MOST_ITEMS = 2_000  # of one round; more are told as one `reload`


@dataclass(frozen=True)
class Filter:
    """What a follower wants to hear of, of its own organisation."""

    base_id: UUID | None = None
    types: frozenset[str] | None = None
    org: OrgId = LOCAL

    @property
    def items(self) -> bool:
        """Whether updates of items are wanted."""
        return self.types is None or ITEM in self.types

    def event(self, event: Recorded) -> bool:
        """Whether `event` is wanted."""
        return (
            event.org_id == self.org
            and (self.types is None or event.type in self.types)
            and self.base(event.base_id)
        )

    def base(self, base_id: UUID | None) -> bool:
        """Whether this base is watched, if it is of the organisation."""
        return self.base_id is None or base_id == self.base_id

    def change(self, base_id: UUID | None, batch: "Batch") -> bool:
        """Whether a change of an item of this base is wanted; None stands for all bases of the organisation."""
        return base_id is None or (batch.owners.get(base_id) == self.org and self.base(base_id))


@dataclass(frozen=True, eq=False)
class Batch:
    """What is told at once. `places` are the last events that are behind a follower once it has the batch, by its
    organisation; `place` is that of one follower's own batch. `reload` are bases whose items have to be looked at anew,
    None for all; `owners` says whose the bases of items are; `gap`: events after this one were swept unseen."""

    place: int
    events: Sequence[Recorded] = ()
    items: Sequence[Item] = ()
    reload: Sequence[UUID | None] = ()
    gap: int | None = None
    places: Mapping[OrgId, int] = field(default_factory=dict[OrgId, int])
    owners: Mapping[UUID, OrgId] = field(default_factory=dict[UUID, OrgId])
    wire: dict[Filter, bytes] = field(default_factory=dict[Filter, bytes])

    def written(self, wanted: Filter, write: Callable[["Batch", Filter], bytes]) -> bytes:
        """The batch for the wire, written once for all who want the same."""
        if wanted not in self.wire:
            self.wire[wanted] = write(self, wanted)
        return self.wire[wanted]

    def concerns(self, wanted: Filter) -> bool:
        """Whether any of it is wanted."""
        return any(map(wanted.event, self.events)) or (
            wanted.items
            and any(
                wanted.change(base_id, self)
                for base_id in (*(item.base_id for item in self.items), *self.reload)
            )
        )

    def __len__(self) -> int:
        return len(self.events) + len(self.items) + len(self.reload)


class _Follower:
    def __init__(self, wanted: Filter) -> None:
        self.wanted = wanted
        self.wake = asyncio.Event()
        self.behind = True
        self.missed = False  # updates of items
        self._ready: deque[Batch] = deque()
        self._waiting = 0

    def put(self, batch: Batch) -> None:
        if self.behind:
            self.missed = self.missed or bool(batch.items or batch.reload)
        elif self._waiting + len(batch) > _QUEUE:
            self.behind, self.missed = True, True
            self._ready.clear()
            self._waiting = 0
        else:
            self._ready.append(batch)
            self._waiting += len(batch)
        self.wake.set()

    def take(self) -> Batch | None:
        if not self._ready:
            return None
        batch = self._ready.popleft()
        self._waiting -= len(batch)
        return batch


class Broadcaster:
    """Hands what is new to everybody who follows; works only while somebody does."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._followers: set[_Follower] = set()
        self._joining = 0
        self._task: asyncio.Task[None] | None = None
        self._wake, self._joined, self._ready = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._closing = False
        self._head = 0
        self._places: dict[OrgId, int] = {}
        self._soon = False
        self._items_at, self._items_every = 0.0, ITEMS_AT_REST
        self._mark: datetime | None = None
        self._shown: dict[ItemId, datetime] = {}
        self._outage = Outage(log, "the database")

    def listen(self, listener: Listener) -> None:
        """Have notifications wake it; before the listener starts."""
        listener.subscribe("event", lambda _payload: self._wake.set())

    @property
    def followers(self) -> int:
        """How many follow at the moment."""
        return len(self._followers)

    def close(self) -> None:
        """End every stream at its next edge, which is now for all that wait; who comes later is refused."""
        self._closing = True
        for follower in self._followers:
            follower.wake.set()
        self._ready.set()

    async def stop(self) -> None:
        """Close, and stop looking."""
        self.close()
        if self._task is not None:
            await clock.stop([self._task])

    async def follow(self, wanted: Filter, after: int | None = None) -> AsyncGenerator[Batch]:
        """What is new from event `after` on, or from now: batches until the broadcaster is closed. The first one, and
        one every `HEARTBEAT`, is empty, and tells the place alone."""
        follower = await self._join(wanted)
        try:
            org = wanted.org
            place = self._place(org) if after is None else min(after, self._place(org))
            yield Batch(place, gap=await self._gap(org, place))
            while not self._closing:
                if follower.behind:
                    follower.behind = False  # from here on what is new waits in the queue
                    target = self._place(org)
                    async for batch in self._history(wanted, place, target):
                        yield batch
                    place = target
                    if follower.missed:
                        follower.missed = False
                        whose = {} if wanted.base_id is None else {wanted.base_id: org}
                        yield Batch(place, reload=[wanted.base_id], owners=whose)
                    continue
                if (batch := follower.take()) is not None:
                    place = batch.places.get(org, place)
                    yield batch
                elif await clock.wait(follower.wake, HEARTBEAT):
                    follower.wake.clear()
                elif not follower.behind:
                    place = self._place(org)  # all that was wanted up to here has been told
                    yield Batch(place)
        finally:
            self._leave(follower)

    # ── coming and going ─────────────────────────────────────────────────────────────────────────────────

    async def _join(self, wanted: Filter) -> _Follower:
        if self.followers + self._joining >= MOST_FOLLOWERS:
            raise LimitReached(
                f"{MOST_FOLLOWERS:,} streams are open already. Close some, or poll /api/events.",
                retry_after=timedelta(seconds=30),
                code="too_many_streams",
            )
        self._joining += 1
        try:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run(), name="broadcaster")
            self._joined.set()
            await self._ready.wait()
            if self._closing:
                raise Transient("The server is stopping. Connect again in a moment.", code="stopping")
            follower = _Follower(wanted)
            self._followers.add(follower)
            return follower
        finally:
            self._joining -= 1

    def _leave(self, follower: _Follower) -> None:
        self._followers.discard(follower)
        if not self._followers and not self._joining and not self._closing:
            self._joined.clear()
            self._ready.clear()

    def _place(self, org: OrgId) -> int:
        return self._places.get(org, 0)

    async def _gap(self, org: OrgId, place: int) -> int | None:
        """The place after which the first events that are left stand, when some before them were swept."""
        if place == self._place(org):
            return None
        async with self._db.connection() as tx:
            oldest = await store.oldest(tx, org)
        first = self._place(org) + 1 if oldest is None else oldest
        return first - 1 if place + 1 < first else None

    async def _history(self, wanted: Filter, place: int, target: int) -> AsyncGenerator[Batch]:
        types = None if wanted.types is None else sorted(wanted.types)
        while place < target:
            async with self._db.connection() as tx:
                found = await store.read(
                    tx, wanted.org, after=place, limit=_PAGE, types=types, base_id=wanted.base_id
                )
            events = [event for event in found if event.place <= target]
            place = events[-1].place if len(found) == _PAGE and len(events) == len(found) else target
            if events:
                yield Batch(place, events)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        while True:
            try:
                if not self._joined.is_set():
                    await self._joined.wait()
                if not self._ready.is_set():
                    await self._begin()
                await self._look()
            except Unavailable as error:
                await self._outage.wait(error.message)
                continue
            except Exception as error:  # a bug: followers would wait for ever if nobody looked any more
                log.exception("the broadcaster raised a bug")
                await self._outage.wait(type(error).__name__)
                continue
            self._outage.ended()
            await clock.pause(_REST)
            await clock.wait(self._wake, self._rest())
            self._wake.clear()

    async def _begin(self) -> None:
        """Somebody follows again: from what is there now on."""
        self._soon = not await put_in_order(self._db)
        async with self._db.connection() as tx:
            self._head = await store.head(tx)
            self._places = await store.heads(tx, self._head)
            self._mark = await catalog.changes_mark(tx)
        self._shown.clear()
        self._ready.set()

    def _rest(self) -> timedelta:
        if self._soon:
            return _SOON
        if any(follower.wanted.items for follower in self._followers):
            return max(timedelta(0), timedelta(seconds=self._items_at - _now()))
        return POLL

    async def _look(self) -> None:
        self._soon = not await put_in_order(self._db)
        looked_at = self._items_at - self._items_every.total_seconds()
        while True:
            async with self._db.connection() as tx:
                found = await store.news(tx, after=self._head, limit=_PAGE)
            if found:
                self._head = found[-1].seq
                places = {event.org_id: event.place for event in found}
                self._places |= places
                self._tell(Batch(self._head, found, places=places))
                # What happens changes items: they are looked at as soon as they may be.
                self._items_at = min(self._items_at, looked_at + ITEMS_EVERY.total_seconds())
            if len(found) < _PAGE:
                break
        watched = [follower.wanted for follower in self._followers if follower.wanted.items]
        if watched and _now() > self._items_at - _EARLY:
            bases = {wanted.base_id for wanted in watched}
            named = None if None in bases else [base for base in bases if base is not None]
            changed = await self._look_at_items(named)
            self._items_every = ITEMS_EVERY if changed else min(2 * self._items_every, ITEMS_AT_REST)
            self._items_at = _now() + self._items_every.total_seconds()

    async def _look_at_items(self, bases: Sequence[UUID] | None) -> bool:
        async with self._db.connection() as tx:
            mark = await catalog.changes_mark(tx)
            since, self._mark = self._mark or mark, mark
            changed = await catalog.changes(tx, since, bases)
            fresh = [one for one in changed if self._shown.get(one.id) != one.updated_at]
            self._shown = {one.id: one.updated_at for one in changed if one.updated_at >= mark}
            if not fresh:
                return False
            found = await catalog.find_bases(tx, list({one.base_id for one in fresh}))
            owners: dict[UUID, OrgId] = {base.id: base.org_id for base in found.values()}
            if len(fresh) > _MOST_ITEMS:
                self._tell(Batch(self._head, reload=sorted(owners), owners=owners))
            else:
                items = await catalog.find_items(tx, [one.id for one in fresh])
                self._tell(Batch(self._head, items=items, owners=owners))
        return True

    def _tell(self, batch: Batch) -> None:
        concerned: dict[Filter, bool] = {}
        for follower in self._followers:
            wanted = follower.wanted
            if wanted not in concerned:
                concerned[wanted] = batch.concerns(wanted)
            if concerned[wanted]:
                follower.put(batch)


def _now() -> float:
    return asyncio.get_running_loop().time()
