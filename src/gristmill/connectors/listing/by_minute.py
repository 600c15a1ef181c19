"""Turns query languages that know only minutes (JQL, CQL) into a listing for `by_updated_at`.

A query asks for "changed at or after" a minute of the user's own time zone. So a page is requested by the minute it begins
in. Only when one minute fills more than a page is the tool's own cursor used, within that minute.

    an edit while pages are read      moves the entry to the end, where it is met again
    a cursor that repeats, or never   is not followed in circles: the minute is read from its other end. If that shows
    comes to an end                   nothing new, the minute is complete; else the stream is unreadable, and no checkpoint
                                      passes it
    empty pages that have a next one  are followed, a few times
    an hour that a clock shows twice  is requested from its first occurrence on
    an unknown time zone              is measured, or half a day more is requested and filtered here

An entry that changed less than two seconds ago by the tool's clock may change again at the same instant: the next run reads
it again.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from gristmill.connectors.listing.by_updated_at import OVERLAP, UpdatedEntry, UpdatedPage
from gristmill.connectors.port import Checkpoint, Document, DocumentRef
from gristmill.errors import Unreadable

MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_STABLE_AFTER = timedelta(seconds=2)
_QUARTER = timedelta(minutes=15)
_WESTMOST_OFFSET = timedelta(hours=12)  # no time zone is further behind UTC
_MAX_EMPTY_PAGES = 20  # that are followed in a row
_MAX_REPEATS = 3  # pages of a minute in a row without anything new


@dataclass(frozen=True)
class QueryRow:
    """A row of a query result, with its exact time of change."""

    id: str
    updated_at: datetime
    ref: DocumentRef
    data: Any = None
    is_followed: bool = True
    is_document: bool = True  # else only a change of the document that `ref` names


@dataclass(frozen=True)
class QueryPage:
    """A page of rows, oldest change first; the cursor of the next page, and the tool's time."""

    rows: Sequence[QueryRow]
    next_cursor: str | None
    now: datetime


@dataclass(frozen=True)
class QueryWindow:
    """What to query. `ids_only`: ids and times are enough. `descending`: newest first, to look from the end."""

    since: datetime | None
    before: datetime | None = None
    ids_only: bool = False
    descending: bool = False


class MinuteQuery(Protocol):
    """What a connector implements."""

    async def run_query(self, window: QueryWindow, cursor: str | None) -> QueryPage:
        """One page of what changed in a window."""
        ...

    def expect(self, rows: Sequence[QueryRow]) -> None:
        """These rows will be read next, in this order."""

    async def fetch_documents(self, row: QueryRow) -> Sequence[Document]:
        """The documents of a row."""
        ...


@dataclass
class _CrowdedMinute:
    """A minute that fills more than a page, and how far it was read."""

    minute: datetime
    cursor: str | None
    seen_ids: set[str] = field(default_factory=set[str])
    repeats: int = 0


class ByMinuteListing:
    """A listing for `by_updated_at.read`, over a query."""

    def __init__(self, query: MinuteQuery, checkpoint: Checkpoint | None) -> None:
        self._query = query
        self._watermark = _watermark(checkpoint)
        self._crowd: _CrowdedMinute | None = None

    async def fetch_page(self, since: datetime | None, page: int) -> UpdatedPage:
        """Rows that changed from an instant on; further pages of a minute, then the next minute."""
        start = None if since is None else _ceiling(since)
        if page == 1:
            return await self._first_page(start)
        crowd = self._crowd
        while crowd is not None and crowd.cursor is not None:
            result = await self._next_page(crowd)
            if result.rows:
                return self._to_updated_page(result, has_more=True)
        if start is None:
            return UpdatedPage([], has_more=False, now=datetime.now(UTC))
        return await self._first_page(start + MINUTE)

    def expect(self, entries: Sequence[UpdatedEntry]) -> None:
        """These entries will be read next."""
        self._query.expect([entry.data for entry in entries])

    async def fetch_documents(self, entry: UpdatedEntry) -> Sequence[Document]:
        """The documents of an entry."""
        return await self._query.fetch_documents(entry.data)

    async def _first_page(self, start: datetime | None) -> UpdatedPage:
        self._crowd = None
        window = QueryWindow(start, ids_only=self._is_ids_only(start))
        cursor, empty_pages = None, 0
        while True:
            result = await self._query.run_query(window, cursor)
            rows = [row for row in result.rows if start is None or row.updated_at >= start]
            if (
                rows
                or result.next_cursor is None
                or result.next_cursor == cursor
                or empty_pages >= _MAX_EMPTY_PAGES
            ):
                break
            cursor = result.next_cursor
            empty_pages = 0 if result.rows else empty_pages + 1
        has_more = result.next_cursor is not None and bool(rows)
        if has_more and _floor(rows[0].updated_at) == (minute := _floor(rows[-1].updated_at)):
            self._crowd = _CrowdedMinute(minute, result.next_cursor, {row.id for row in rows})
        return self._to_updated_page(QueryPage(rows, result.next_cursor, result.now), has_more=has_more)

    async def _next_page(self, crowd: _CrowdedMinute) -> QueryPage:
        """The next page of a crowded minute; its cursor is None after the last page."""
        cursor = crowd.cursor
        window = QueryWindow(crowd.minute, ids_only=self._is_ids_only(crowd.minute))
        result = await self._query.run_query(window, cursor)
        rows = [row for row in result.rows if _floor(row.updated_at) == crowd.minute]
        new_rows = [row for row in rows if row.id not in crowd.seen_ids]
        is_past = any(_floor(row.updated_at) > crowd.minute for row in result.rows)
        crowd.cursor = None if is_past else result.next_cursor
        crowd.seen_ids.update(row.id for row in rows)
        if new_rows:
            crowd.repeats = 0
        elif crowd.cursor is not None:
            crowd.repeats += 1
            if crowd.cursor == cursor or crowd.repeats >= _MAX_REPEATS:
                await self._check_from_end(crowd)
        return QueryPage(new_rows, crowd.cursor, result.now)

    async def _check_from_end(self, crowd: _CrowdedMinute) -> None:
        """The tool repeats itself: fine if there is nothing else in this minute."""
        crowd.cursor = None
        window = QueryWindow(crowd.minute, crowd.minute + MINUTE, ids_only=True, descending=True)
        last_page = await self._query.run_query(window, None)
        unseen = [
            row
            for row in last_page.rows
            if _floor(row.updated_at) == crowd.minute and row.id not in crowd.seen_ids
        ]
        if unseen:
            raise Unreadable(
                "The tool returns the same page again and again, and there is more. "
                "Nothing is skipped: the next run tries again.",
                code="connector_refused",
            )

    def _is_ids_only(self, start: datetime | None) -> bool:
        """Whether this is the listing of what an earlier run has read."""
        if self._watermark is None:
            return False
        return start is None or start < self._watermark - OVERLAP

    def _to_updated_page(self, result: QueryPage, *, has_more: bool) -> UpdatedPage:
        entries = [
            UpdatedEntry(
                f"{row.id}@{row.updated_at.astimezone(UTC).isoformat()}"
                + ("?" if row.updated_at >= result.now - _STABLE_AFTER else ""),
                _floor(row.updated_at),
                row.ref,
                row,
                row.is_followed,
                row.is_document,
            )
            for row in sorted(result.rows, key=lambda row: row.updated_at)
        ]
        # The key says already whether a row is stable: `by_updated_at` need not wait until its minute has passed.
        return UpdatedPage(entries, has_more, result.now + 2 * MINUTE)


@dataclass(frozen=True)
class UserTimeZone:
    """The time zone that queries are interpreted in: by name, or by its measured distance from UTC (`offset`, with an hour of
    margin for summer time). With neither it is unknown."""

    name: str | None = None
    offset: timedelta | None = None

    def earliest_text(self, stamp: datetime, pattern: str) -> str:
        """An instant as a minute of that zone, which can't be interpreted as a later one."""
        if (zone := self._zone_info()) is None:
            return (stamp.astimezone(UTC) + self._shift(-_WESTMOST_OFFSET, -_HOUR)).strftime(pattern)
        local = stamp.astimezone(zone)
        if local.fold == 0 and local.replace(fold=1).utcoffset() != local.utcoffset():
            local = (stamp - _HOUR).astimezone(zone)
        return local.strftime(pattern)

    def latest_text(self, stamp: datetime, pattern: str) -> str:
        """The same for an end, which can't be interpreted as an earlier one."""
        if (zone := self._zone_info()) is None:
            return (stamp.astimezone(UTC) + self._shift(_WESTMOST_OFFSET + 2 * _HOUR, _HOUR)).strftime(
                pattern
            )
        local = stamp.astimezone(zone)
        if local.fold == 1:
            local = (stamp + _HOUR).astimezone(zone)
        return local.strftime(pattern)

    def _shift(self, unknown: timedelta, margin: timedelta) -> timedelta:
        return unknown if self.offset is None else self.offset + margin

    def _zone_info(self) -> ZoneInfo | None:
        try:
            return None if not self.name else ZoneInfo(self.name)
        except (KeyError, ValueError, OSError):
            return None


async def measure_zone(
    changed: datetime, is_found_from: Callable[[datetime], Awaitable[bool]]
) -> UserTimeZone:
    """Measure the time zone of queries by bisection: `is_found_from(t)` says whether an entry that changed at `changed` is
    found from the local time `t` on. Zones are quarters of an hour apart, from 12 hours behind UTC to 14 ahead."""
    minute = _floor(changed).replace(tzinfo=None)
    low, high = -48, 57  # in quarters of an hour: found from the first, not from the second
    while high - low > 1:
        middle = (low + high) // 2
        if await is_found_from(minute + middle * _QUARTER):
            low = middle
        else:
            high = middle
    return UserTimeZone(offset=low * _QUARTER)


def _watermark(checkpoint: Checkpoint | None) -> datetime | None:
    """How far an earlier run has read."""
    if checkpoint is None:
        return None
    text = checkpoint.position.get("watermark") or checkpoint.position.get("from")
    return None if text is None else datetime.fromisoformat(text)


def _floor(stamp: datetime) -> datetime:
    return stamp.astimezone(UTC).replace(second=0, microsecond=0)


def _ceiling(stamp: datetime) -> datetime:
    floor = _floor(stamp)
    return floor if floor == stamp else floor + MINUTE
