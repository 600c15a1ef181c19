"""A stream that is listed by its time of change, read by anchors: never by page numbers, so that nothing slips through.

A tool gives things oldest change first, from an instant on. A page is asked for by the last instant that was read, and what
was read already is known by (key, instant) and passed over. Whatever is edited meanwhile moves to the end and is met again;
what is deleted shifts nothing. Only where more things than a page holds changed at one instant, further pages of that instant
are asked for, again and again until one round brings nothing new.

    changes     from the watermark on, each thing read in detail; an overlap catches what the tool showed late
    listing     from the beginning up to the watermark, ids alone: with the changes, that is all there is
                the first time there is no watermark, and the changes are the listing

    position    {"watermark", "recent": {key: instant}}                    between runs
                {"phase", "at", "recent", "from", …}                       in the middle of one

What changed within two seconds of the tool's own clock may change again within the same instant: the next run reads it again.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol

from gristmill.connectors.connector import Audience, Batch, Document, Mark, Ref, Stream
from gristmill.connectors.details import in_order

OVERLAP = timedelta(seconds=60)
_SETTLED = timedelta(seconds=2)
# A tool may mean "after" or "at or after", to the second: asking from a moment before is right for both.
_MOMENT = timedelta(seconds=1)


@dataclass(frozen=True)
class Entry:
    """A thing as a list shows it: `ids` are of all documents that it may have, `wanted` whether it is followed."""

    key: str
    updated: datetime
    ref: Ref
    ids: tuple[str, ...]
    data: Any
    wanted: bool = True


@dataclass(frozen=True)
class Listed:
    """A page of a list; `now` is the tool's own time."""

    entries: Sequence[Entry]
    more: bool
    now: datetime


class Listing(Protocol):
    """What a connector brings for a stream."""

    async def page(self, since: datetime | None, page: int) -> Listed:
        """Things that changed at or after an instant, oldest change first."""
        ...

    async def detail(self, entry: Entry) -> Sequence[Document]:
        """The documents of a thing."""
        ...


@dataclass
class _Pass:
    """Where a pass is: everything up to `at` is read, of the last moments what `recent` says."""

    phase: Literal["changes", "listing"]
    at: datetime | None
    recent: dict[str, datetime] = field(default_factory=dict[str, datetime])
    unsettled: set[str] = field(default_factory=set[str])  # of those, what the next run reads again
    begun_at: datetime | None = None  # the watermark that the run began with
    watermark: datetime | None = None  # the one that it will leave, once the changes are read
    kept: dict[str, datetime] = field(default_factory=dict[str, datetime])  # `recent` for that one


async def read(
    stream: Stream, version: int, mark: Mark | None, listing: Listing, audiences: Sequence[Audience] = ()
) -> AsyncIterator[Batch]:
    """The batches of a stream, from its mark to its end."""
    here, first = _opened(None if mark is None else mark.position)
    if here.phase == "changes":
        async for batch in _changes(stream, version, listing, here, first=first):
            yield replace(batch, audiences=audiences)
            audiences = ()
        if here.begun_at is None:
            return  # the changes were all there is
        here = _Pass(
            "listing",
            None,
            begun_at=here.begun_at,
            watermark=here.at,
            kept=here.recent,
            unsettled=here.unsettled,
        )
    async for batch in _list(stream, version, listing, here):
        yield replace(batch, audiences=audiences)
        audiences = ()


async def _changes(
    stream: Stream, version: int, listing: Listing, here: _Pass, *, first: bool
) -> AsyncIterator[Batch]:
    walk = _Walk(None if here.at is None else here.at - OVERLAP)
    while True:
        got = await listing.page(walk.since, walk.page)
        fresh = [entry for entry in got.entries if here.recent.get(entry.key) != entry.updated]
        found = await in_order(
            [entry for entry in fresh if entry.wanted], lambda entry: entry.ref, listing.detail
        )
        done = _reached(fresh, found.reached)
        new = {entry.key for entry in fresh}
        passed = [one for entry in got.entries if entry.wanted and entry.key not in new for one in entry.ids]
        whole = found.stopped is None
        _advance(here, got.entries if whole else done, got.now)
        on = walk.go_on(here.at, done, more=got.more)
        ends = whole and not on and here.begun_at is None
        yield Batch(
            stream,
            mark=Mark(version, _between(here) if ends else _within(here)),
            documents=found.documents,
            failures=found.failures,
            present=[*passed, *sorted({failure.ref.source_id for failure in found.failures})],
            listing=_word(first=first, last=ends),
        )
        first = False
        if found.stopped is not None:
            raise found.stopped
        if not on:
            return


async def _list(stream: Stream, version: int, listing: Listing, here: _Pass) -> AsyncIterator[Batch]:
    assert here.begun_at is not None
    walk = _Walk(None if here.at is None else here.at - _MOMENT)
    while True:
        got = await listing.page(walk.since, walk.page)
        # What changed since was named by the changes, as far as it is still there.
        old = [entry for entry in got.entries if entry.wanted and entry.updated <= here.begun_at]
        present = [one for entry in old for one in entry.ids]
        if got.entries:
            here.at = got.entries[-1].updated
        passed = here.at is not None and here.at > here.begun_at
        last = passed or not walk.go_on(here.at, (), more=got.more)
        position = (
            _between(_Pass("changes", here.watermark, here.kept, here.unsettled)) if last else _within(here)
        )
        yield Batch(
            stream,
            mark=Mark(version, position),
            present=present,
            listing="whole" if last else "goes_on",
        )
        if last:
            return


@dataclass
class _Walk:
    """Which page is next: of a later instant; or, where one instant fills more than a page, the next one of it, round by
    round until one brings nothing new: pages can shift meanwhile."""

    since: datetime | None
    page: int = 1
    crowd: datetime | None = None  # the instant that fills more than a page
    brought: bool = False

    def go_on(self, at: datetime | None, done: Sequence[Entry], *, more: bool) -> bool:
        """Whether there is a next page."""
        if self.crowd is not None:
            crowd = self.crowd
            self.brought = self.brought or any(entry.updated <= crowd for entry in done)
        later = None if at is None else at - _MOMENT
        stays = later is None or (self.since is not None and later <= self.since)
        if more and stays:
            self.page, self.crowd = self.page + 1, self.crowd or at
        elif self.page > 1 and self.brought:
            self.page, self.brought = 1, False
        elif more:
            self.since, self.page, self.crowd, self.brought = later, 1, None, False
        else:
            return False
        return True


def _reached(fresh: Sequence[Entry], wanted_reached: int) -> list[Entry]:
    """The entries up to the last one whose details were read; those that are not wanted count where they stand."""
    done: list[Entry] = []
    for entry in fresh:
        if entry.wanted:
            if wanted_reached == 0:
                break
            wanted_reached -= 1
        done.append(entry)
    return done


def _advance(here: _Pass, done: Sequence[Entry], now: datetime) -> None:
    for entry in done:
        if here.at is None or entry.updated > here.at:
            here.at = entry.updated
        here.recent[entry.key] = entry.updated
        here.unsettled.discard(entry.key)
        if entry.updated >= now - _SETTLED:
            here.unsettled.add(entry.key)
    if here.at is not None:
        start = here.at - OVERLAP
        here.recent = {key: stamp for key, stamp in here.recent.items() if stamp >= start}


def _word(*, first: bool, last: bool) -> Literal["begin", "goes_on", "whole", "at_once"]:
    if first:
        return "at_once" if last else "begin"
    return "whole" if last else "goes_on"


# ── positions ────────────────────────────────────────────────────────────────────────────────────────────


def _opened(position: dict[str, Any] | None) -> tuple[_Pass, bool]:
    """Where to go on, and whether that is the beginning of a run."""
    if not position:
        return _Pass("changes", None), True
    if "phase" not in position:
        watermark = _instant(position["watermark"])
        return _Pass("changes", watermark, _stamps(position["recent"]), begun_at=watermark), True
    return (
        _Pass(
            position["phase"],
            _instant(position["at"]),
            _stamps(position["recent"]),
            set(position["unsettled"]),
            _instant(position["from"]),
            _instant(position["next"]),
            _stamps(position["kept"]),
        ),
        False,
    )


def _between(here: _Pass) -> dict[str, Any]:
    if here.at is None:
        return {}
    settled = {key: stamp for key, stamp in here.recent.items() if key not in here.unsettled}
    return {"watermark": _told(here.at), "recent": _told_all(settled)}


def _within(here: _Pass) -> dict[str, Any]:
    return {
        "phase": here.phase,
        "at": _told(here.at),
        "recent": _told_all(here.recent),
        "unsettled": sorted(here.unsettled),
        "from": _told(here.begun_at),
        "next": _told(here.watermark),
        "kept": _told_all(here.kept),
    }


def _told(stamp: datetime | None) -> str | None:
    return None if stamp is None else stamp.astimezone(UTC).isoformat()


def _told_all(stamps: dict[str, datetime]) -> dict[str, str]:
    return {key: stamp.astimezone(UTC).isoformat() for key, stamp in stamps.items()}


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _stamps(told: dict[str, str]) -> dict[str, datetime]:
    return {key: datetime.fromisoformat(text) for key, text in told.items()}
