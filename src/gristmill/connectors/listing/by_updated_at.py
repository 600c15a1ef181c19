"""Reads a stream whose tool lists entries by their time of change, without missing any.

The tool lists entries oldest change first, from an instant on. A page is requested by the last instant that was read, never
by a page number. Entries that were read already are recognised by (key, instant) and skipped. An entry that is edited
meanwhile moves to the end and is met again; a deleted one shifts nothing. Only when more entries changed at one instant than
fit on a page are further pages of that instant requested by number, until one round brings nothing new.

    changes     from the watermark on, each entry read in full; an overlap catches what the tool showed late
    listing     from the beginning up to the watermark, ids only: together with the changes, that is everything.
                In the first run there is no watermark, and the changes are the listing

    position    {"watermark", "recent": {key: instant}}                    between runs
                {"phase", "at", "recent", "from", …}                       in the middle of one

An entry that changed less than two seconds ago by the tool's clock may change again within the same instant: the next run
reads it again.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol

from gristmill.connectors.listing.details import fetch_all
from gristmill.connectors.port import (
    Audience,
    Batch,
    Checkpoint,
    Document,
    DocumentRef,
    ListedDocument,
    Stream,
    listing_step,
)
from gristmill.errors import Unreadable

OVERLAP = timedelta(seconds=60)
_STABLE_AFTER = timedelta(seconds=2)
# A tool may mean "after" or "at or after", to the second: starting a second earlier is right for both.
_RESOLUTION = timedelta(seconds=1)


@dataclass(frozen=True)
class UpdatedEntry:
    """An entry of a list. Without `is_document` it is only a change of the document that `ref` names."""

    key: str
    updated_at: datetime
    ref: DocumentRef
    data: Any
    is_followed: bool = True
    is_document: bool = True
    companion_ids: tuple[str, ...] = ()  # documents that it may come with

    @property
    def listed(self) -> ListedDocument:
        """The entry in a listing."""
        return ListedDocument(self.ref, self.companion_ids)


@dataclass(frozen=True)
class UpdatedPage:
    """A page of entries; `now` is the tool's own time."""

    entries: Sequence[UpdatedEntry]
    has_more: bool
    now: datetime


class UpdatedListing(Protocol):
    """What a connector implements for a stream."""

    async def fetch_page(self, since: datetime | None, page: int) -> UpdatedPage:
        """Entries that changed at or after an instant, oldest change first."""
        ...

    def expect(self, entries: Sequence[UpdatedEntry]) -> None:
        """These entries will be read next, in this order: a tool that returns many at once can be asked for them together."""

    async def fetch_documents(self, entry: UpdatedEntry) -> Sequence[Document]:
        """The documents of an entry."""
        ...


@dataclass
class _UpdatedPass:
    """How far a pass is: everything before `read_up_to` is read, and of the overlap what `recent` says."""

    phase: Literal["changes", "listing"]
    read_up_to: datetime | None
    recent: dict[str, datetime] = field(default_factory=dict[str, datetime])
    unstable: set[str] = field(default_factory=set[str])  # of `recent`, what the next run reads again
    start_watermark: datetime | None = None  # the watermark at the start of the run
    next_watermark: datetime | None = None  # the watermark for the next run, once the changes are read
    next_recent: dict[str, datetime] = field(default_factory=dict[str, datetime])  # `recent` for the next run


async def read(
    stream: Stream,
    version: int,
    checkpoint: Checkpoint | None,
    listing: UpdatedListing,
    audiences: Sequence[Audience] = (),
) -> AsyncIterator[Batch]:
    """The batches of a stream, from its checkpoint to its end."""
    state, first = _initial_state(None if checkpoint is None else checkpoint.position)
    if state.phase == "changes":
        async for batch in _read_changes(stream, version, listing, state, first=first):
            yield replace(batch, audiences=audiences)
            audiences = ()
        if state.start_watermark is None:
            return  # in the first run the changes are the listing
        state = _UpdatedPass(
            "listing",
            None,
            start_watermark=state.start_watermark,
            next_watermark=state.read_up_to,
            next_recent=state.recent,
            unstable=state.unstable,
        )
    async for batch in _read_listing(stream, version, listing, state):
        yield replace(batch, audiences=audiences)
        audiences = ()


async def _read_changes(
    stream: Stream, version: int, listing: UpdatedListing, state: _UpdatedPass, *, first: bool
) -> AsyncIterator[Batch]:
    pager = _Pager(None if state.read_up_to is None else state.read_up_to - OVERLAP)
    while True:
        page = await _fetch_page(listing, pager)
        new_entries = [entry for entry in page.entries if state.recent.get(entry.key) != entry.updated_at]
        followed = [entry for entry in new_entries if entry.is_followed]
        listing.expect(followed)
        result = await fetch_all(followed, lambda entry: entry.ref, listing.fetch_documents)
        handled = _entries_until(new_entries, result.handled)
        new_keys = {entry.key for entry in new_entries}
        unchanged = [
            entry.listed
            for entry in page.entries
            if entry.is_followed and entry.is_document and entry.key not in new_keys
        ]
        by_id = {entry.ref.source_id: entry for entry in followed}
        is_complete = result.stopped_by is None
        _advance(state, page.entries if is_complete else handled, page.now)
        has_next = pager.advance(state.read_up_to, handled, has_more=page.has_more)
        is_last = is_complete and not has_next and state.start_watermark is None
        yield Batch(
            stream,
            checkpoint=Checkpoint(version, _final_position(state) if is_last else _resume_position(state)),
            documents=result.documents,
            failures=result.failures,
            present=[*unchanged, *(by_id[failure.ref.source_id].listed for failure in result.failures)],
            listing=listing_step(is_first=first, is_last=is_last),
        )
        first = False
        if result.stopped_by is not None:
            raise result.stopped_by
        if not has_next:
            return


async def _read_listing(
    stream: Stream, version: int, listing: UpdatedListing, state: _UpdatedPass
) -> AsyncIterator[Batch]:
    assert state.start_watermark is not None
    pager = _Pager(None if state.read_up_to is None else state.read_up_to - _RESOLUTION)
    while True:
        page = await _fetch_page(listing, pager)
        # Entries that changed since the watermark were named by the changes.
        unchanged = [
            entry for entry in page.entries if entry.is_followed and entry.updated_at <= state.start_watermark
        ]
        present = [entry.listed for entry in unchanged if entry.is_document]
        if page.entries:
            state.read_up_to = page.entries[-1].updated_at
        is_past = state.read_up_to is not None and state.read_up_to > state.start_watermark
        is_last = is_past or not pager.advance(state.read_up_to, (), has_more=page.has_more)
        position = (
            _final_position(_UpdatedPass("changes", state.next_watermark, state.next_recent, state.unstable))
            if is_last
            else _resume_position(state)
        )
        yield Batch(
            stream,
            checkpoint=Checkpoint(version, position),
            present=present,
            listing="complete" if is_last else "continue",
        )
        if is_last:
            return


async def _fetch_page(listing: UpdatedListing, pager: "_Pager") -> UpdatedPage:
    page = await listing.fetch_page(pager.since, pager.page)
    if (
        pager.since is not None
        and page.entries
        and max(entry.updated_at for entry in page.entries) < pager.since - OVERLAP
    ):
        # It would be read from the beginning again and again.
        raise Unreadable(
            "The tool returns documents that changed before the time asked for: it ignores the filter of its own list.",
            code="connector_refused",
        )
    return page


@dataclass
class _Pager:
    """Which page to request next: one of a later instant; or, where one instant fills more than a page, its next page,
    round after round until one brings nothing new, because pages can shift meanwhile."""

    since: datetime | None
    page: int = 1
    crowded_at: datetime | None = None  # the instant that fills more than a page
    found_new: bool = False

    def advance(self, at: datetime | None, handled: Sequence[UpdatedEntry], *, has_more: bool) -> bool:
        """Move to the next page; False when there is none."""
        if self.crowded_at is not None:
            instant = self.crowded_at
            self.found_new = self.found_new or any(entry.updated_at <= instant for entry in handled)
        next_since = None if at is None else at - _RESOLUTION
        is_stuck = next_since is None or (self.since is not None and next_since <= self.since)
        if has_more and is_stuck:
            self.page, self.crowded_at = self.page + 1, self.crowded_at or at
        elif self.page > 1 and self.found_new:
            self.page, self.found_new = 1, False
        elif has_more:
            self.since, self.page, self.crowded_at, self.found_new = next_since, 1, None, False
        else:
            return False
        return True


def _entries_until(entries: Sequence[UpdatedEntry], followed_count: int) -> list[UpdatedEntry]:
    """The entries up to the last one that was read; entries that are not followed in between count as read."""
    handled: list[UpdatedEntry] = []
    for entry in entries:
        if entry.is_followed:
            if followed_count == 0:
                break
            followed_count -= 1
        handled.append(entry)
    return handled


def _advance(state: _UpdatedPass, entries: Sequence[UpdatedEntry], now: datetime) -> None:
    for entry in entries:
        if state.read_up_to is None or entry.updated_at > state.read_up_to:
            state.read_up_to = entry.updated_at
        state.recent[entry.key] = entry.updated_at
        state.unstable.discard(entry.key)
        if entry.updated_at >= now - _STABLE_AFTER:
            state.unstable.add(entry.key)
    if state.read_up_to is not None:
        start = state.read_up_to - OVERLAP
        state.recent = {key: stamp for key, stamp in state.recent.items() if stamp >= start}


# ── positions ────────────────────────────────────────────────────────────────────────────────────────────


def _initial_state(position: dict[str, Any] | None) -> tuple[_UpdatedPass, bool]:
    """Where to continue, and whether that is the beginning of a run."""
    if not position:
        return _UpdatedPass("changes", None), True
    if "phase" not in position:
        start_watermark = _parse_time(position["watermark"])
        return _UpdatedPass(
            "changes", start_watermark, _parse_times(position["recent"]), start_watermark=start_watermark
        ), True
    return (
        _UpdatedPass(
            position["phase"],
            _parse_time(position["at"]),
            _parse_times(position["recent"]),
            set(position["unsettled"]),
            _parse_time(position["from"]),
            _parse_time(position["next"]),
            _parse_times(position["kept"]),
        ),
        False,
    )


def _final_position(state: _UpdatedPass) -> dict[str, Any]:
    if state.read_up_to is None:
        return {}
    stable = {key: stamp for key, stamp in state.recent.items() if key not in state.unstable}
    return {"watermark": _to_text(state.read_up_to), "recent": _to_texts(stable)}


def _resume_position(state: _UpdatedPass) -> dict[str, Any]:
    return {
        "phase": state.phase,
        "at": _to_text(state.read_up_to),
        "recent": _to_texts(state.recent),
        "unsettled": sorted(state.unstable),
        "from": _to_text(state.start_watermark),
        "next": _to_text(state.next_watermark),
        "kept": _to_texts(state.next_recent),
    }


def _to_text(stamp: datetime | None) -> str | None:
    return None if stamp is None else stamp.astimezone(UTC).isoformat()


def _to_texts(stamps: dict[str, datetime]) -> dict[str, str]:
    return {key: stamp.astimezone(UTC).isoformat() for key, stamp in stamps.items()}


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _parse_times(texts: dict[str, str]) -> dict[str, datetime]:
    return {key: datetime.fromisoformat(text) for key, text in texts.items()}
