"""Lists that are asked for by query languages to the minute (JQL, CQL), read as `anchored` wants them.

A query takes "changed at or after", in minutes of the user's own time zone. So a page is asked for by the minute it begins in,
and only where one minute fills more than a page, by the tool's own word for the next page, within that minute alone.

    an edit while pages are read     moves the thing to the end: met again there
    a word for the next page that    is not followed in circles: when the minute read from its other end shows nothing
    repeats, an end that never comes new, that was all; else the stream is told to be unreadable, and no mark passes it
    empty pages that have a next     are followed, a few times
    an hour that a clock has twice   is asked for from its first time on
    a zone that is not told          is measured, or half a day more is asked for, and left out here

What was changed within two seconds of the tool's clock may change again at the same instant: the next run reads it once more.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from gristmill.connectors.anchored import OVERLAP, Entry, Listed
from gristmill.connectors.connector import Document, Mark, Ref
from gristmill.errors import Unreadable

MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_SETTLED = timedelta(seconds=2)
_QUARTER = timedelta(minutes=15)
_WEST = timedelta(hours=12)  # no zone is further behind
_EMPTY = 20  # pages in a row without anything that are followed
_STRIKES = 3  # pages of a crowd in a row without anything new


@dataclass(frozen=True)
class Row:
    """A thing as the tool lists it, with its exact time of change."""

    id: str
    stamp: datetime
    ref: Ref
    ids: tuple[str, ...]
    data: Any = None
    wanted: bool = True


@dataclass(frozen=True)
class Found:
    """A page: its rows oldest change first, the word for the next one if there is one, and the tool's time."""

    rows: Sequence[Row]
    more: str | None
    now: datetime


@dataclass(frozen=True)
class Window:
    """What is asked for. `light`: ids and times are enough. `backwards`: in the opposite order, for a look from the end."""

    since: datetime | None
    before: datetime | None = None
    light: bool = False
    backwards: bool = False


class Query(Protocol):
    """What a connector brings."""

    async def ask(self, window: Window, cursor: str | None) -> Found:
        """One page of what changed in a window."""
        ...

    async def detail(self, row: Row) -> Sequence[Document]:
        """The documents of a thing."""
        ...


@dataclass
class _Crowd:
    """A minute that has more than a page, and how far it was read."""

    minute: datetime
    cursor: str | None
    seen: set[str] = field(default_factory=set[str])
    strikes: int = 0


class Minutes:
    """A `Listing` for `anchored.read`, over a query."""

    def __init__(self, query: Query, mark: Mark | None) -> None:
        self._query = query
        self._watermark = _watermark(mark)
        self._crowd: _Crowd | None = None

    async def page(self, since: datetime | None, page: int) -> Listed:
        """Things that changed from an instant on; further pages of a minute, then the next minute."""
        start = None if since is None else _ceiling(since)
        if page == 1:
            return await self._open(start)
        crowd = self._crowd
        while crowd is not None and crowd.cursor is not None:
            found = await self._go_on(crowd)
            if found.rows:
                return self._listed(found, more=True)
        if start is None:
            return Listed([], more=False, now=datetime.now(UTC))
        return await self._open(start + MINUTE)

    async def detail(self, entry: Entry) -> Sequence[Document]:
        """The documents of a thing."""
        return await self._query.detail(entry.data)

    async def _open(self, start: datetime | None) -> Listed:
        self._crowd = None
        window = Window(start, light=self._is_light(start))
        cursor, empty = None, 0
        while True:
            found = await self._query.ask(window, cursor)
            rows = [row for row in found.rows if start is None or row.stamp >= start]
            if rows or found.more is None or found.more == cursor or empty >= _EMPTY:
                break
            cursor = found.more
            empty = 0 if found.rows else empty + 1
        more = found.more is not None and bool(rows)
        if more and _floor(rows[0].stamp) == (minute := _floor(rows[-1].stamp)):
            self._crowd = _Crowd(minute, found.more, {row.id for row in rows})
        return self._listed(Found(rows, found.more, found.now), more=more)

    async def _go_on(self, crowd: _Crowd) -> Found:
        """The next page of a crowded minute; its cursor is None when that was the last."""
        asked = crowd.cursor
        window = Window(crowd.minute, light=self._is_light(crowd.minute))
        found = await self._query.ask(window, asked)
        rows = [row for row in found.rows if _floor(row.stamp) == crowd.minute]
        fresh = [row for row in rows if row.id not in crowd.seen]
        passed = any(_floor(row.stamp) > crowd.minute for row in found.rows)
        crowd.cursor = None if passed else found.more
        crowd.seen.update(row.id for row in rows)
        if fresh:
            crowd.strikes = 0
        elif crowd.cursor is not None:
            crowd.strikes += 1
            if crowd.cursor == asked or crowd.strikes >= _STRIKES:
                await self._look_from_the_end(crowd)
        return Found(fresh, crowd.cursor, found.now)

    async def _look_from_the_end(self, crowd: _Crowd) -> None:
        """The tool goes in circles: all right if there was nothing more to see."""
        crowd.cursor = None
        window = Window(crowd.minute, crowd.minute + MINUTE, light=True, backwards=True)
        last = await self._query.ask(window, None)
        unseen = [row for row in last.rows if _floor(row.stamp) == crowd.minute and row.id not in crowd.seen]
        if unseen:
            raise Unreadable(
                "The tool gives the same page again and again, and there is more than that. "
                "Nothing is passed over: the next run tries again.",
                code="connector_refused",
            )

    def _is_light(self, start: datetime | None) -> bool:
        """Whether this is a listing of what was read by an earlier run."""
        if self._watermark is None:
            return False
        return start is None or start < self._watermark - OVERLAP

    def _listed(self, found: Found, *, more: bool) -> Listed:
        entries = [
            Entry(
                f"{row.id}@{row.stamp.astimezone(UTC).isoformat()}"
                + ("?" if row.stamp >= found.now - _SETTLED else ""),
                _floor(row.stamp),
                row.ref,
                row.ids,
                row,
                row.wanted,
            )
            for row in sorted(found.rows, key=lambda row: row.stamp)
        ]
        # Whether a thing is settled is said by its key already: `anchored` need not wait for its minute to pass.
        return Listed(entries, more, found.now + 2 * MINUTE)


@dataclass(frozen=True)
class Zone:
    """How a user's own clock is told: by its name, or by how far it was from UTC when it was looked at (`offset`; an hour
    is allowed for summer time). With neither, nobody knows which one it is."""

    name: str | None = None
    offset: timedelta | None = None

    def told(self, stamp: datetime, form: str) -> str:
        """An instant in the user's minutes: one that can't be taken for a later one."""
        if (zone := self._zone()) is None:
            return (stamp.astimezone(UTC) + self._shift(-_WEST, -_HOUR)).strftime(form)
        local = stamp.astimezone(zone)
        if local.fold == 0 and local.replace(fold=1).utcoffset() != local.utcoffset():
            local = (stamp - _HOUR).astimezone(zone)
        return local.strftime(form)

    def told_late(self, stamp: datetime, form: str) -> str:
        """The same for an end: one that can't be taken for an earlier one."""
        if (zone := self._zone()) is None:
            return (stamp.astimezone(UTC) + self._shift(_WEST + 2 * _HOUR, _HOUR)).strftime(form)
        local = stamp.astimezone(zone)
        if local.fold == 1:
            local = (stamp + _HOUR).astimezone(zone)
        return local.strftime(form)

    def _shift(self, unknown: timedelta, margin: timedelta) -> timedelta:
        return unknown if self.offset is None else self.offset + margin

    def _zone(self) -> ZoneInfo | None:
        try:
            return None if not self.name else ZoneInfo(self.name)
        except (KeyError, ValueError, OSError):
            return None


async def measure(changed: datetime, found_from: Callable[[datetime], Awaitable[bool]]) -> Zone:
    """The zone of a clock, by asking: `found_from(t)` tells whether a thing that changed at `changed` is found from `t` on,
    a time of that clock. Zones are quarters of an hour apart, from 12 hours behind to 14 ahead."""
    minute = _floor(changed).replace(tzinfo=None)
    low, high = -48, 57  # in quarters: found from the first on, not from the second
    while high - low > 1:
        middle = (low + high) // 2
        if await found_from(minute + middle * _QUARTER):
            low = middle
        else:
            high = middle
    return Zone(offset=low * _QUARTER)


def _watermark(mark: Mark | None) -> datetime | None:
    """What an earlier run has read up to."""
    if mark is None:
        return None
    told = mark.position.get("watermark") or mark.position.get("from")
    return None if told is None else datetime.fromisoformat(told)


def _floor(stamp: datetime) -> datetime:
    return stamp.astimezone(UTC).replace(second=0, microsecond=0)


def _ceiling(stamp: datetime) -> datetime:
    floor = _floor(stamp)
    return floor if floor == stamp else floor + MINUTE
