"""What is known of a connector's streams and documents: one function per statement, in the caller's transaction."""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from gristmill.catalog import ItemId
from gristmill.catalog.exclusions import Exclusion
from gristmill.connectors.model import ConnectorId, RunId
from gristmill.connectors.port import (
    Batch,
    Checkpoint,
    Document,
    DocumentRef,
    ListedDocument,
    ReadFailure,
    Stream,
)
from gristmill.connectors.store import queries
from gristmill.db import Tx

_MAX_MESSAGE = 2000

# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class StreamRow:
    """A row of `connector_stream`. `listing` is the number of its last listing, `listed` whether that is complete."""

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


async def save_stream(tx: Tx, connector: ConnectorId, run: RunId, batch: Batch) -> int:
    """Save a stream's checkpoint and the state of its listing; the number of the listing."""
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
        completes=batch.is_listing_complete,
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
    connector: ConnectorId,
    stream: Stream,
    documents: Sequence[Document],
    listing: int,
    incomplete: Collection[str] = (),
) -> None:
    """Save what is known of documents that were read. `incomplete` ones get no hash, so that they count as changed the next
    time."""
    if not documents:
        return
    sources = [document.ref.source_id for document in documents]
    await queries.run(
        tx,
        "save_documents",
        connector=connector,
        scope=stream.scope,
        kind=stream.kind,
        listing=listing,
        sources=sources,
        locators=[Jsonb(document.ref.locator) for document in documents],
        hashes=[b"" if document.ref.source_id in incomplete else digest(document) for document in documents],
        audiences=[document.audience for document in documents],
        marks=[document.mark for document in documents],
    )
    await delete_failures(tx, connector, sources)


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


async def find_document_refs(tx: Tx, connector: ConnectorId) -> list[DocumentRef]:
    """Every document that is known."""
    return [row.ref for row in await queries.many(tx, _RefRow, "document_refs", connector=connector)]


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
    """Note the documents among these that were never read, or have another mark than when they were read, with their
    companions, for `find_unread`."""
    if not present:
        return
    ordered = sorted({listed.ref.source_id: listed for listed in present}.items())
    entries = [
        (source_id, listed) for main_id, listed in ordered for source_id in (main_id, *listed.companion_ids)
    ]
    await queries.run(
        tx,
        "save_unread",
        connector=connector,
        run=run,
        mains=[listed.ref.source_id for _, listed in entries],
        sources=[source_id for source_id, _ in entries],
        scopes=[listed.ref.stream.scope for _, listed in entries],
        kinds=[listed.ref.stream.kind for _, listed in entries],
        locators=[Jsonb(listed.ref.locator) for _, listed in entries],
        marks=[listed.mark for _, listed in entries],
        content_marks=[listed.mark if listed.can_move else None for _, listed in entries],
        code="not_read_yet",
        message="The tool names it, and this state of it was not read yet.",
    )


@dataclass(frozen=True)
class MovedDocument:
    """A document that the tool has under another id now, with equal contents."""

    old_id: str
    new_id: str


async def find_moved(tx: Tx, connector: ConnectorId) -> list[MovedDocument]:
    """Documents that a complete listing no longer names, whose contents it names under one id that is new."""
    return await queries.many(tx, MovedDocument, "moved_documents", connector=connector)


async def rename_documents(tx: Tx, connector: ConnectorId, moved: Sequence[MovedDocument]) -> None:
    """Give documents their new ids."""
    await queries.run(
        tx,
        "rename_documents",
        connector=connector,
        old_ids=[document.old_id for document in moved],
        new_ids=[document.new_id for document in moved],
    )


async def find_unread(tx: Tx, connector: ConnectorId, limit: int) -> list[DocumentRef]:
    """Documents that a listing named and whose present state was never read."""
    rows = await queries.many(tx, _RefRow, "unread", connector=connector, limit=limit)
    return [row.ref for row in rows]


async def find_earlier_failures(tx: Tx, connector: ConnectorId, run: RunId, limit: int) -> list[DocumentRef]:
    """Documents that earlier runs could not read."""
    rows = await queries.many(tx, _RefRow, "earlier_failures", connector=connector, run=run, limit=limit)
    return [row.ref for row in rows]


async def delete_failures(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> None:
    """Forget failures of documents that were read after all, or are gone."""
    await queries.run(tx, "delete_failures", connector=connector, sources=list(sources))


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
    """Those of the documents that have a record in every base of the connector."""
    rows = await queries.many(tx, _StoredRow, "fully_stored", connector=connector, sources=list(sources))
    return {row.source_key for row in rows}


@dataclass(frozen=True)
class _StoredRow:
    source_key: str


@dataclass(frozen=True)
class RecordAttachment:
    """A file below a record."""

    parent_id: ItemId
    source_key: str
    id: ItemId


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
