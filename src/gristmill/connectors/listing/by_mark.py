"""Reads a stream whose tool lists every document with a mark: an ETag, a revision, a hash or a time of change.

    position    {"cursor"}    in the middle of a listing
                {}            between runs: the marks of what was read are with the documents

The listing is all there is: `sync.py` reads documents whose mark is new, with `fetch`. After a kill the listing continues
where it was. When the tool no longer accepts the cursor, it starts over.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from gristmill.connectors.port import (
    Audience,
    Batch,
    Checkpoint,
    Document,
    ListedDocument,
    Stream,
    listing_step,
)
from gristmill.errors import SourceGone, Unreadable

# Who sees the documents of a tool without permissions: everyone, or the people that the connector's own list names.
EVERYBODY = "everybody"


@dataclass(frozen=True)
class MarkedPage:
    """A page of a listing; `note` is a line for the run's log.

    `documents` were read with the page and are not among its entries. `audiences` are those that its documents name.
    """

    entries: Sequence[ListedDocument]
    next_cursor: str | None = None
    note: str | None = None
    documents: Sequence[Document] = ()
    audiences: Sequence[Audience] = ()


def everybody() -> Audience:
    """Everyone who can see the base, unless the connector has an access list of its own."""
    return Audience(EVERYBODY, everybody=True)


async def read(
    stream: Stream,
    version: int,
    checkpoint: Checkpoint | None,
    fetch_page: Callable[[str | None], Awaitable[MarkedPage]],
    audiences: Sequence[Audience] = (),
) -> AsyncIterator[Batch]:
    """The batches of a listing, from its checkpoint to its end."""
    cursor = None if checkpoint is None else checkpoint.position.get("cursor")
    is_resumed = cursor is not None
    is_first = not is_resumed
    while True:
        try:
            page = await fetch_page(cursor)
        except (SourceGone, Unreadable):
            if not is_resumed:
                raise
            cursor, is_resumed, is_first = None, False, True
            continue
        # A resumed listing may start over, and be here again after its first page.
        if cursor is not None and page.next_cursor == cursor and not is_resumed:
            raise Unreadable("The tool returns the same page again and again.", code="connector_refused")
        cursor = page.next_cursor
        yield Batch(
            stream,
            checkpoint=Checkpoint(version, {} if cursor is None else {"cursor": cursor}),
            documents=page.documents,
            audiences=[*audiences, *page.audiences],
            present=page.entries,
            listing=listing_step(is_first=is_first, is_last=cursor is None),
            note=page.note,
        )
        is_first, is_resumed, audiences = False, False, ()
        if cursor is None:
            return
