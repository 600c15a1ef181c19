"""Reads a stream whose tool lists entries by id: an entry that is edited meanwhile stays where it is in the list.

    listing     all entries, by id; those that changed since the watermark are read on the way
    the end     entries that changed while the list was read, newest first, and entries whose attachments changed
    watermark   the tool's time when the list began: later changes are for the next run

    position    {"watermark", "recent": {key: instant}}             between runs
                {"begun", "from", "cursor", "recent"}               in the middle of one

When the tool no longer accepts a cursor after an interruption, the list starts over. An entry that changed less than two
seconds ago by the tool's clock is read again by the next run.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from gristmill.connectors.listing.details import fetch_all
from gristmill.connectors.port import (
    Batch,
    Checkpoint,
    Document,
    DocumentRef,
    ListedDocument,
    Stream,
)
from gristmill.errors import SourceGone, Unreadable

OVERLAP = timedelta(seconds=60)
_STABLE_AFTER = timedelta(seconds=2)
_END_CURSOR = "$end"
_UNSTABLE_SUFFIX = "?"  # after an instant: known for the rest of this run only


@dataclass(frozen=True)
class IdEntry:
    """An entry: its document, and when it changed. `key` is that of an attachment when the attachment is what changed."""

    key: str
    updated_at: datetime
    ref: DocumentRef
    data: Any = None


@dataclass(frozen=True)
class IdPage:
    """A page of entries; `now` is the tool's own time."""

    entries: Sequence[IdEntry]
    next_cursor: str | None
    now: datetime


class IdListing(Protocol):
    """What a connector implements for a stream."""

    async def fetch_page(self, cursor: str | None) -> IdPage:
        """A page of entries, by id."""
        ...

    async def changes_since(self, since: datetime) -> Sequence[IdEntry]:
        """Entries that changed at or after an instant."""
        ...

    async def attachment_changes_since(self, since: datetime) -> Sequence[IdEntry]:
        """Entries whose attachments changed at or after an instant."""
        ...

    def expect(self, entries: Sequence[IdEntry]) -> None:
        """These entries will be read next, in this order: a tool that returns many at once can be asked for them together."""
        ...

    async def fetch_documents(self, entry: IdEntry) -> Sequence[Document]:
        """The documents of an entry."""
        ...


@dataclass
class _IdPass:
    cursor: str | None
    watermark: datetime | None
    started_at: datetime | None
    recent: dict[str, str]
    read_ids: set[str] = field(default_factory=set[str])

    def is_known(self, entry: IdEntry) -> bool:
        return self.recent.get(entry.key, "").removesuffix(_UNSTABLE_SUFFIX) == entry.updated_at.isoformat()

    def record(self, entries: Sequence[IdEntry], now: datetime) -> None:
        for entry in entries:
            self.read_ids.add(entry.ref.source_id)
            is_stable = entry.updated_at < now - _STABLE_AFTER
            self.recent[entry.key] = entry.updated_at.isoformat() + ("" if is_stable else _UNSTABLE_SUFFIX)

    def forget_before(self, start: datetime | None) -> None:
        """Forget entries that will not be met again: those before the overlap."""
        if start is not None:
            since = start - OVERLAP
            self.recent = {key: stamp for key, stamp in self.recent.items() if _parse_time(stamp) >= since}


async def read(
    stream: Stream, version: int, checkpoint: Checkpoint | None, listing: IdListing
) -> AsyncIterator[Batch]:
    """The batches of a stream, from its checkpoint to its end."""
    state, first = _initial_state(None if checkpoint is None else checkpoint.position)
    while state.cursor != _END_CURSOR:
        try:
            page = await listing.fetch_page(state.cursor)
        except (SourceGone, Unreadable):
            if first or state.cursor is None:
                raise
            state.cursor, first = None, True
            continue
        state.started_at = state.started_at or page.now
        start = None if state.watermark is None else state.watermark - OVERLAP
        changed = [
            entry
            for entry in page.entries
            if (start is None or entry.updated_at >= start) and not state.is_known(entry)
        ]
        listing.expect(changed)
        result = await fetch_all(changed, lambda entry: entry.ref, listing.fetch_documents)
        state.record(changed[: result.handled], page.now)
        changed_ids = {entry.ref.source_id for entry in changed}
        unchanged = [entry.ref for entry in page.entries if entry.ref.source_id not in changed_ids]
        failed = [failure.ref for failure in result.failures]
        if result.stopped_by is None:
            state.cursor = page.next_cursor or _END_CURSOR
            state.forget_before(state.watermark or state.started_at)
        yield Batch(
            stream,
            checkpoint=Checkpoint(version, _resume_position(state)),
            documents=result.documents,
            failures=result.failures,
            present=[ListedDocument(ref) for ref in (*unchanged, *failed)],
            listing="begin" if first else "continue",
        )
        first = False
        if result.stopped_by is not None:
            raise result.stopped_by
    async for batch in _read_late_changes(stream, version, state, listing):
        yield batch


async def _read_late_changes(
    stream: Stream, version: int, state: _IdPass, listing: IdListing
) -> AsyncIterator[Batch]:
    assert state.started_at is not None
    started_at = state.started_at
    to_read: dict[str, IdEntry] = {}
    for entry in await listing.changes_since(started_at - OVERLAP):
        if not state.is_known(entry):
            to_read.setdefault(entry.ref.source_id, entry)
    attachment_changes: list[IdEntry] = []
    for entry in await listing.attachment_changes_since((state.watermark or started_at) - OVERLAP):
        if state.is_known(entry):
            continue
        attachment_changes.append(entry)
        # An entry that this run read after the change need not be read again.
        if not (
            entry.updated_at < started_at - _STABLE_AFTER
            and (state.watermark is None or entry.ref.source_id in state.read_ids)
        ):
            to_read.setdefault(entry.ref.source_id, entry)
    entries = list(to_read.values())
    listing.expect(entries)
    result = await fetch_all(entries, lambda entry: entry.ref, listing.fetch_documents)
    state.record(entries[: result.handled], started_at)
    state.record([entry for entry in attachment_changes if entry.ref.source_id in state.read_ids], started_at)
    is_complete = result.stopped_by is None
    state.forget_before(started_at if is_complete else state.watermark or started_at)
    yield Batch(
        stream,
        checkpoint=Checkpoint(version, _final_position(state) if is_complete else _resume_position(state)),
        documents=result.documents,
        failures=result.failures,
        listing="complete" if is_complete else "continue",
    )
    if result.stopped_by is not None:
        raise result.stopped_by


def _initial_state(position: dict[str, Any] | None) -> tuple[_IdPass, bool]:
    """Where to continue, and whether that is the beginning of a run."""
    if not position:
        return _IdPass(None, None, None, {}), True
    recent = dict(position.get("recent") or {})
    if "begun" not in position:
        return _IdPass(None, datetime.fromisoformat(position["watermark"]), None, recent), True
    watermark_text = position.get("from")
    watermark = None if watermark_text is None else datetime.fromisoformat(watermark_text)
    return _IdPass(
        position.get("cursor"), watermark, datetime.fromisoformat(position["begun"]), recent
    ), False


def _final_position(state: _IdPass) -> dict[str, Any]:
    assert state.started_at is not None
    stable = {key: stamp for key, stamp in state.recent.items() if not stamp.endswith(_UNSTABLE_SUFFIX)}
    return {"watermark": state.started_at.isoformat(), "recent": stable}


def _resume_position(state: _IdPass) -> dict[str, Any]:
    assert state.started_at is not None
    watermark = None if state.watermark is None else state.watermark.isoformat()
    return {
        "begun": state.started_at.isoformat(),
        "from": watermark,
        "cursor": state.cursor,
        "recent": state.recent,
    }


def _parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text.removesuffix(_UNSTABLE_SUFFIX))
