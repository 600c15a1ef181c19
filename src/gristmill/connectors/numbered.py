"""A stream that is listed by its numbers, which never change: whatever is edited meanwhile stays where it is in the list.

    listing     all there is, by number; what changed since the watermark is read in detail on the way
    the end     what changed while the list was read, newest first, and things whose attachments changed
    watermark   the tool's time when the list began: what changes later is met by the next run

    position    {"watermark", "recent": {key: instant}}             between runs
                {"begun", "from", "cursor", "recent"}               in the middle of one

A cursor that the tool no longer takes after an interruption begins the list anew. What changed within two seconds of the
tool's clock is read once more by the next run.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from gristmill.connectors.connector import Batch, Document, Mark, Ref, Stream
from gristmill.connectors.details import in_order
from gristmill.errors import Gone, Unreadable

OVERLAP = timedelta(seconds=60)
_SETTLED = timedelta(seconds=2)
_END = "$end"
_UNSETTLED = "?"  # behind an instant: known for the rest of this run alone


@dataclass(frozen=True)
class Entry:
    """A thing: its document, and when it changed. `key` is another's where that other is why it is read again."""

    key: str
    stamp: datetime
    ref: Ref


@dataclass(frozen=True)
class Listed:
    """A page of the list."""

    entries: Sequence[Entry]
    more: str | None
    now: datetime


class Listing(Protocol):
    """What a connector brings for a stream."""

    async def page(self, cursor: str | None) -> Listed:
        """Things by number."""
        ...

    async def latest(self, since: datetime) -> Sequence[Entry]:
        """Things that changed at or after an instant."""
        ...

    async def touched(self, since: datetime) -> Sequence[Entry]:
        """Things to read again for what is attached to them."""
        ...

    async def detail(self, entry: Entry) -> Sequence[Document]:
        """The documents of a thing."""
        ...


@dataclass
class _Pass:
    cursor: str | None
    watermark: datetime | None
    begun: datetime | None
    recent: dict[str, str]
    read: set[str] = field(default_factory=set[str])

    def is_known(self, entry: Entry) -> bool:
        return self.recent.get(entry.key, "").removesuffix(_UNSETTLED) == entry.stamp.isoformat()

    def take(self, entries: Sequence[Entry], now: datetime) -> None:
        for entry in entries:
            self.read.add(entry.ref.source_id)
            settled = entry.stamp < now - _SETTLED
            self.recent[entry.key] = entry.stamp.isoformat() + ("" if settled else _UNSETTLED)

    def forget(self, start: datetime | None) -> None:
        """Of what was read, only what is met again has to be known."""
        if start is not None:
            since = start - OVERLAP
            self.recent = {key: told for key, told in self.recent.items() if _instant(told) >= since}


async def read(stream: Stream, version: int, mark: Mark | None, listing: Listing) -> AsyncIterator[Batch]:
    """The batches of a stream, from its mark to its end."""
    here, first = _opened(None if mark is None else mark.position)
    while here.cursor != _END:
        try:
            got = await listing.page(here.cursor)
        except (Gone, Unreadable):
            if first or here.cursor is None:
                raise
            here.cursor, first = None, True
            continue
        here.begun = here.begun or got.now
        start = None if here.watermark is None else here.watermark - OVERLAP
        changed = [
            one for one in got.entries if (start is None or one.stamp >= start) and not here.is_known(one)
        ]
        found = await in_order(changed, lambda entry: entry.ref, listing.detail)
        here.take(changed[: found.reached], got.now)
        asked = {entry.ref.source_id for entry in changed}
        passed = [one.ref.source_id for one in got.entries if one.ref.source_id not in asked]
        if found.stopped is None:
            here.cursor = got.more or _END
            here.forget(here.watermark or here.begun)
        yield Batch(
            stream,
            mark=Mark(version, _within(here)),
            documents=found.documents,
            failures=found.failures,
            present=[*passed, *sorted({failure.ref.source_id for failure in found.failures})],
            listing="begin" if first else "goes_on",
        )
        first = False
        if found.stopped is not None:
            raise found.stopped
    async for batch in _end(stream, version, here, listing):
        yield batch


async def _end(stream: Stream, version: int, here: _Pass, listing: Listing) -> AsyncIterator[Batch]:
    assert here.begun is not None
    begun = here.begun
    fresh: dict[str, Entry] = {}
    for entry in await listing.latest(begun - OVERLAP):
        if not here.is_known(entry):
            fresh.setdefault(entry.ref.source_id, entry)
    also: list[Entry] = []
    for entry in await listing.touched((here.watermark or begun) - OVERLAP):
        if here.is_known(entry):
            continue
        also.append(entry)
        # Read after the change, in this very run: nothing to read again.
        if not (
            entry.stamp < begun - _SETTLED and (here.watermark is None or entry.ref.source_id in here.read)
        ):
            fresh.setdefault(entry.ref.source_id, entry)
    things = list(fresh.values())
    found = await in_order(things, lambda entry: entry.ref, listing.detail)
    here.take(things[: found.reached], begun)
    here.take([entry for entry in also if entry.ref.source_id in here.read], begun)
    ended = found.stopped is None
    here.forget(begun if ended else here.watermark or begun)
    yield Batch(
        stream,
        mark=Mark(version, _between(here) if ended else _within(here)),
        documents=found.documents,
        failures=found.failures,
        listing="whole" if ended else "goes_on",
    )
    if found.stopped is not None:
        raise found.stopped


def _opened(position: dict[str, Any] | None) -> tuple[_Pass, bool]:
    """Where to go on, and whether that is the beginning of a run."""
    if not position:
        return _Pass(None, None, None, {}), True
    recent = dict(position.get("recent") or {})
    if "begun" not in position:
        return _Pass(None, datetime.fromisoformat(position["watermark"]), None, recent), True
    told = position.get("from")
    watermark = None if told is None else datetime.fromisoformat(told)
    return _Pass(position.get("cursor"), watermark, datetime.fromisoformat(position["begun"]), recent), False


def _between(here: _Pass) -> dict[str, Any]:
    assert here.begun is not None
    settled = {key: told for key, told in here.recent.items() if not told.endswith(_UNSETTLED)}
    return {"watermark": here.begun.isoformat(), "recent": settled}


def _within(here: _Pass) -> dict[str, Any]:
    assert here.begun is not None
    watermark = None if here.watermark is None else here.watermark.isoformat()
    return {"begun": here.begun.isoformat(), "from": watermark, "cursor": here.cursor, "recent": here.recent}


def _instant(told: str) -> datetime:
    return datetime.fromisoformat(told.removesuffix(_UNSETTLED))
