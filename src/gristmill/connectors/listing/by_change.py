"""Reads a stream whose tool reports what changed since a token: a complete listing first, then only changes.

    position    {"cursor", "fingerprint", "listedAt"}     in the middle of a complete listing
                {"changes", "fingerprint", "listedAt"}    between runs: the token from which changes count
                {}                                        the tool gave no token: the next run lists again

A page of changes names documents that are new or changed, ids that are gone, and folders that were renamed, moved, shared or removed.
What lies in such a folder need not be among the changes: documents that were read in it are read again (`Batch.folders`). Everything
that a page says is saved with the token of the next page, in one transaction: killed before it, the page is requested again; after
it, what it said is in the database.

Changes are not trusted without end. A complete listing, with marks and pruning, is made again

    after `relist_after`                  what the tool forgot to report, and what became visible without a change, is found then
    when the tool refuses the token       it expires after some weeks or months without a run
    when the fingerprint differs          what applies to the whole stream: the people who may read a drive
    when a page says that it has to be    the tool can't say what changed

A listing that an earlier run, or an attempt that was killed, has begun is continued. What it listed may have changed since: once it is
complete, the changes since its beginning are read, too.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gristmill.connectors.port import (
    Audience,
    Batch,
    Checkpoint,
    Json,
    ListedDocument,
    Stream,
    listing_step,
)
from gristmill.errors import SourceGone, Unreadable

_MAX_ENTRIES = 1000  # of a batch


@dataclass(frozen=True)
class ListingPage:
    """A page of a complete listing. The last one has no `next_cursor`, but the token from which changes count, if there is one: no
    change after the beginning of the listing may be missing there. `at` is the tool's time."""

    entries: Sequence[ListedDocument]
    at: datetime
    next_cursor: str | None = None
    changes_from: str | None = None
    note: str | None = None
    audiences: Sequence[Audience] = ()


@dataclass(frozen=True)
class ChangePage:
    """A page of changes. `folders` are folders by id with their marks as they are now; None if all documents below have to be read
    again. With `must_list`, the rest does not count."""

    entries: Sequence[ListedDocument]
    at: datetime
    next_token: str
    has_more: bool = False
    gone: Sequence[str] = ()
    folders: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    note: str | None = None
    audiences: Sequence[Audience] = ()
    must_list: bool = False


class ChangeSource(ABC):
    """What a tool reports of one stream."""

    @abstractmethod
    async def fingerprint(self) -> str:
        """What applies to all documents of the stream, and is not among its changes."""

    @abstractmethod
    async def list_page(self, cursor: str | None) -> ListingPage:
        """A page of a complete listing."""

    @abstractmethod
    async def change_page(self, token: str) -> ChangePage:
        """What changed since a token; SourceGone or Unreadable when the tool no longer accepts it."""


class _ListingNeeded(Exception):
    """Changes are not enough; the reason is for the run's log."""


async def read(
    stream: Stream, version: int, checkpoint: Checkpoint | None, source: ChangeSource, relist_after: timedelta
) -> AsyncIterator[Batch]:
    """The batches of a stream: changes if they are enough, else a complete listing."""
    position: Json = {} if checkpoint is None else checkpoint.position
    note: str | None = None
    if "cursor" in position:
        async for batch in _read_listing(stream, version, position, source, None):
            position = position if batch.checkpoint is None else batch.checkpoint.position
            yield batch
        if not position:
            return
    if "changes" in position:
        try:
            async for batch in _read_changes(stream, version, position, source, relist_after):
                yield batch
        except _ListingNeeded as reason:
            position = {}
            note = f"{stream.scope} is listed completely: {reason}."
        else:
            return
    async for batch in _read_listing(stream, version, position, source, note):
        yield batch


async def _read_changes(
    stream: Stream, version: int, position: Json, source: ChangeSource, relist_after: timedelta
) -> AsyncIterator[Batch]:
    if await source.fingerprint() != position.get("fingerprint"):
        raise _ListingNeeded("the people who may see the whole drive have changed")
    token = str(position["changes"])
    while True:
        try:
            page = await source.change_page(token)
        except (SourceGone, Unreadable):
            raise _ListingNeeded("the tool no longer accepts the position of the last run") from None
        if page.must_list:
            raise _ListingNeeded("the tool reports a change that affects the whole drive")
        if page.has_more and page.next_token == token:
            raise _ListingNeeded("the tool returns the same page of changes again and again")
        if page.at - datetime.fromisoformat(str(position["listedAt"])) > relist_after:
            raise _ListingNeeded(f"the last complete listing was more than {relist_after.days} days ago")
        token = page.next_token
        *earlier, last = [
            page.entries[start : start + _MAX_ENTRIES]
            for start in range(0, max(len(page.entries), 1), _MAX_ENTRIES)
        ]
        for entries in earlier:  # without a checkpoint: killed after one of them, the page is read again
            yield Batch(stream, audiences=page.audiences, present=entries)
        yield Batch(
            stream,
            checkpoint=Checkpoint(version, {**position, "changes": token}),
            audiences=page.audiences,
            present=last,
            gone=page.gone,
            folders=page.folders,
            note=page.note,
        )
        if not page.has_more:
            return


async def _read_listing(
    stream: Stream, version: int, position: Json, source: ChangeSource, note: str | None
) -> AsyncIterator[Batch]:
    cursor = position.get("cursor")
    is_resumed = is_continued = cursor is not None
    basis: Json = {name: position.get(name) for name in ("fingerprint", "listedAt")}
    while True:
        if not is_continued:
            basis = {"fingerprint": await source.fingerprint()}
        try:
            page = await source.list_page(cursor)
        except (SourceGone, Unreadable):
            if not is_resumed:
                raise
            cursor, is_resumed, is_continued = None, False, False
            continue
        cursor = page.next_cursor
        basis.setdefault("listedAt", page.at.isoformat())
        following: Json = {}
        if cursor is not None:
            following = {"cursor": cursor, **basis}
        elif page.changes_from is not None:
            following = {"changes": page.changes_from, **basis}
        yield Batch(
            stream,
            checkpoint=Checkpoint(version, following),
            audiences=page.audiences,
            present=page.entries,
            listing=listing_step(is_first=not is_continued, is_last=cursor is None),
            note="\n".join(filter(None, (note, page.note))) or None,
        )
        is_resumed, is_continued, note = False, True, None
        if cursor is None:
            return
