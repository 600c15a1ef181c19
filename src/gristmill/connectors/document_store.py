"""What is known of a connector's streams and documents: one function per statement, in the caller's transaction."""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from gristmill.catalog import ItemId
from gristmill.catalog.exclusions import Exclusion
from gristmill.connectors.model import ConnectorId, ConnectorRow, RunId
from gristmill.connectors.port import (
    Batch,
    Checkpoint,
    ConnectorKind,
    Document,
    DocumentRef,
    ListedDocument,
    ReadFailure,
    Stream,
)
from gristmill.connectors.store import queries
from gristmill.db import Tx

_MAX_MESSAGE = 2000
NOT_READ = {"code": "not_read_yet", "message": "The tool names it, and this state of it was not read yet."}

# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class StreamRow:
    """A row of `connector_stream`. `listing` is the number of its last listing, `listed` whether that is complete, or a stream
    without listings was read to its end."""

    scope: str
    kind: str
    checkpoint_version: int | None
    checkpoint: dict[str, Any] | None
    listing: int
    listed: bool
    lost: bool
    last_run_id: RunId | None

    @property
    def stream(self) -> Stream:
        """The stream of the row."""
        return Stream(self.scope, self.kind)


async def find_streams(tx: Tx, connector: ConnectorId) -> list[StreamRow]:
    """The streams of a connector, with their checkpoints."""
    return await queries.many(tx, StreamRow, "streams", connector=connector)


def checkpoints_of(rows: Sequence[StreamRow], version: int) -> dict[Stream, Checkpoint]:
    """The checkpoints that have the current format."""
    return {
        row.stream: Checkpoint(version, row.checkpoint)
        for row in rows
        if row.checkpoint is not None and row.checkpoint_version == version
    }


def streams_listed_by(rows: Sequence[StreamRow], run: RunId) -> set[Stream]:
    """The streams that a run has read to their end."""
    return {row.stream for row in rows if row.last_run_id == run and row.listed}


def streams_interrupted_before(rows: Sequence[StreamRow], run: RunId, kind: ConnectorKind) -> set[Stream]:
    """The streams that an earlier run has begun to list, and may be in the middle of. A tool that reports changes reports those since
    the listing began, so that its listings are simply continued."""
    if kind.reports_changes:
        return set()
    return {
        row.stream
        for row in rows
        if row.last_run_id != run and row.listing and not row.listed and not row.lost and row.checkpoint
    }


async def advances_stream(tx: Tx, connector: ConnectorId, run: RunId, batch: Batch) -> bool:
    """Whether a batch brings its stream further than it is: to another checkpoint, or to its end in this run."""
    rows = await queries.many(
        tx, StreamRow, "stream", connector=connector, scope=batch.stream.scope, kind=batch.stream.kind
    )
    known = rows[0] if rows else None
    if known is None:
        return True
    checkpoint = batch.checkpoint
    if checkpoint is not None and checkpoint != Checkpoint(
        known.checkpoint_version or 0, known.checkpoint or {}
    ):
        return True
    is_end = batch.is_listing_complete or batch.ends_stream
    return is_end and not (known.listed and known.last_run_id == run)


async def save_stream(
    tx: Tx, connector: ConnectorId, run: RunId, batch: Batch, *, completes_earlier_run: bool = False
) -> int:
    """Save a stream's checkpoint and the state of its listing; the number of the listing. What only continues an earlier run's
    listing completes none of this run: the stream is the earlier run's up to that end, and then still to be listed."""
    checkpoint = batch.checkpoint
    (listing,) = await queries.values(
        tx,
        "save_stream",
        connector=connector,
        run=run,
        scope=batch.stream.scope,
        kind=batch.stream.kind,
        version=None if checkpoint is None else checkpoint.version,
        checkpoint=None if checkpoint is None else Jsonb(checkpoint.position),
        begins=batch.listing in ("begin", "single"),
        completes=(batch.is_listing_complete or batch.ends_stream) and not completes_earlier_run,
        reports=batch.is_listing_complete or not completes_earlier_run,
        lost=batch.lost,
    )
    return listing


async def delete_unfollowed_streams(tx: Tx, connector: ConnectorId, run: RunId) -> None:
    """Delete streams that the run did not report on, or whose scope is lost, once they have no documents."""
    await queries.run(tx, "delete_unfollowed_streams", connector=connector, run=run)


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────


def digest(document: Document) -> bytes:
    """A hash over everything of a document that is stored: another hash means that it changed."""
    content = [
        document.title,
        document.body,
        document.url,
        document.metadata,
        [[attachment.source_id, attachment.name] for attachment in document.attachments],
        *([[document.file.source_id, document.file.name]] if document.file else []),
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).digest()


@dataclass(frozen=True)
class KnownDocument:
    """What is known of a document."""

    source_id: str
    hash: bytes
    audience: str
    mark: str | None


async def find_documents(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> dict[str, KnownDocument]:
    """What is known of these documents, by source id."""
    rows = await queries.many(tx, KnownDocument, "documents", connector=connector, sources=list(sources))
    return {row.source_id: row for row in rows}


async def save_documents(
    tx: Tx,
    row: ConnectorRow,
    stream: Stream,
    documents: Sequence[Document],
    listing: int,
    incomplete: Collection[str] = (),
) -> int:
    """Save what is known of documents that were read since `row` was. `incomplete` ones get no hash, so that they count as changed
    the next time. Returns how many of them were waiting to be read."""
    if not documents:
        return 0
    sources = [document.ref.source_id for document in documents]
    await queries.run(
        tx,
        "save_documents",
        connector=row.id,
        asked_at=row.read_at,
        scope=stream.scope,
        kind=stream.kind,
        listing=listing,
        sources=sources,
        locators=[Jsonb(document.ref.locator) for document in documents],
        hashes=[b"" if document.ref.source_id in incomplete else digest(document) for document in documents],
        audiences=[document.audience for document in documents],
        marks=[document.mark for document in documents],
        folders=[Jsonb(dict(document.folders)) for document in documents],
    )
    return await delete_failures(tx, row.id, sources)


async def mark_documents_seen(
    tx: Tx, connector: ConnectorId, stream: Stream, sources: Sequence[str], listing: int
) -> None:
    """Record that a listing named these documents."""
    if sources:
        await queries.run(
            tx,
            "mark_documents_seen",
            connector=connector,
            scope=stream.scope,
            kind=stream.kind,
            sources=list(sources),
            listing=listing,
        )


async def delete_documents(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> None:
    """Forget documents that the tool no longer has."""
    await queries.run(tx, "delete_documents", connector=connector, sources=list(sources))
    await delete_failures(tx, connector, sources)


async def forget_records(tx: Tx, taken_back: Sequence[Exclusion]) -> None:
    """Forget what is known of documents whose exclusions were removed: the next run reads them again."""
    records = [exclusion for exclusion in taken_back if exclusion.type == "record"]
    if records:
        await queries.run(
            tx,
            "forget_records",
            containers=[exclusion.root_id for exclusion in records],
            sources=[exclusion.source_key for exclusion in records],
            **NOT_READ,
        )


async def count_documents(tx: Tx, connector: ConnectorId) -> int:
    """How many documents are known."""
    return (await queries.values(tx, "count_documents", connector=connector))[0]


@dataclass(frozen=True)
class _RefRow:
    source_id: str
    scope: str
    kind: str
    locator: dict[str, Any]
    must_verify: bool = True

    @property
    def ref(self) -> DocumentRef:
        return DocumentRef(self.source_id, Stream(self.scope, self.kind), self.locator)


@dataclass(frozen=True)
class StaleDocument:
    """A document that seems to be gone; with `must_verify` the tool is asked for it before it is pruned."""

    ref: DocumentRef
    must_verify: bool


async def find_stale_documents(tx: Tx, connector: ConnectorId, run: RunId) -> list[StaleDocument]:
    """Documents that the tool no longer seems to have."""
    rows = await queries.many(tx, _RefRow, "stale_documents", connector=connector, run=run)
    return [StaleDocument(row.ref, row.must_verify) for row in rows]


@dataclass(frozen=True)
class KnownRef:
    """A document that is known: where it is, its mark, and whether a complete listing or the tool's report says that it is gone."""

    source_id: str
    scope: str
    kind: str
    locator: dict[str, Any]
    mark: str | None
    is_missing: bool

    @property
    def stream(self) -> Stream:
        """The stream of the document."""
        return Stream(self.scope, self.kind)

    @property
    def ref(self) -> DocumentRef:
        """What finds the document again."""
        return DocumentRef(self.source_id, self.stream, self.locator)


async def find_known_refs(tx: Tx, connector: ConnectorId) -> list[KnownRef]:
    """Every document that is known."""
    return await queries.many(tx, KnownRef, "known_refs", connector=connector)


async def save_failures(tx: Tx, connector: ConnectorId, run: RunId, failures: Sequence[ReadFailure]) -> None:
    """Save documents that could not be read, for the next run to try again."""
    if not failures:
        return
    latest = {failure.ref.source_id: failure for failure in failures}
    ordered = [latest[source] for source in sorted(latest)]
    await queries.run(
        tx,
        "save_failures",
        connector=connector,
        run=run,
        sources=[failure.ref.source_id for failure in ordered],
        scopes=[failure.ref.stream.scope for failure in ordered],
        kinds=[failure.ref.stream.kind for failure in ordered],
        locators=[Jsonb(failure.ref.locator) for failure in ordered],
        codes=[failure.code for failure in ordered],
        messages=[failure.message[:_MAX_MESSAGE] for failure in ordered],
    )


async def save_unread(tx: Tx, connector: ConnectorId, run: RunId, present: Sequence[ListedDocument]) -> None:
    """Note the documents among these that were never read, have another mark than when they were read, or were missed by an
    earlier listing, for `find_unread`. Their companions are read with them."""
    if not present:
        return
    entries = [listed for _, listed in sorted({listed.ref.source_id: listed for listed in present}.items())]
    await queries.run(
        tx,
        "save_unread",
        connector=connector,
        run=run,
        sources=[listed.ref.source_id for listed in entries],
        scopes=[listed.ref.stream.scope for listed in entries],
        kinds=[listed.ref.stream.kind for listed in entries],
        locators=[Jsonb(listed.ref.locator) for listed in entries],
        marks=[listed.mark for listed in entries],
        content_marks=[listed.mark if listed.can_move else None for listed in entries],
        **NOT_READ,
    )


async def find_unread(tx: Tx, connector: ConnectorId, limit: int) -> list[DocumentRef]:
    """Documents that a listing named and whose present state was never read."""
    rows = await queries.many(tx, _RefRow, "unread", connector=connector, limit=limit)
    return [row.ref for row in rows]


async def find_earlier_failures(tx: Tx, connector: ConnectorId, run: RunId, limit: int) -> list[DocumentRef]:
    """Documents that earlier runs could not read."""
    rows = await queries.many(tx, _RefRow, "earlier_failures", connector=connector, run=run, limit=limit)
    return [row.ref for row in rows]


async def count_failures_of(tx: Tx, connector: ConnectorId, run: RunId, sources: Sequence[str]) -> int:
    """How many of these documents could not be read by a run."""
    if not sources:
        return 0
    counts = await queries.values(
        tx, "count_failures_of", connector=connector, run=run, sources=list(sources)
    )
    return counts[0]


async def delete_failures(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> int:
    """Forget failures of documents that were read after all, or are gone; of how many."""
    return await queries.run(tx, "delete_failures", connector=connector, sources=list(sources))


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _RecordRow:
    source_key: str
    id: ItemId


async def record_ids(tx: Tx, container: ItemId, sources: Sequence[str]) -> dict[str, ItemId]:
    """The records of documents below a container, by source id."""
    rows = await queries.many(tx, _RecordRow, "records", container=container, sources=list(sources))
    return {row.source_key: row.id for row in rows}


async def find_fully_stored(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> set[str]:
    """Those of the documents that have a record in every base of the connector, unless a person deleted it there."""
    return set(await queries.values(tx, "fully_stored", connector=connector, sources=list(sources)))


@dataclass(frozen=True)
class RecordAttachment:
    """A file below a record, with its name in the tool."""

    parent_id: ItemId
    source_key: str
    id: ItemId
    name: str


async def find_attached_files(tx: Tx, record_ids: Sequence[ItemId]) -> list[RecordAttachment]:
    """The attachments below these records."""
    return await queries.many(tx, RecordAttachment, "attached_files", records=list(record_ids))


@dataclass(frozen=True)
class _AttachmentKey:
    document: str
    attachment: str


async def find_attachments(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> set[tuple[str, str]]:
    """(document, attachment) of the attachments that every base of the connector has."""
    rows = await queries.many(
        tx, _AttachmentKey, "stored_attachments", connector=connector, sources=list(sources)
    )
    return {(row.document, row.attachment) for row in rows}
