"""What is known of a connector's streams, documents and audiences, in the caller's transaction."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg.types.json import Jsonb

from gristmill.catalog import BaseId, ItemId
from gristmill.connectors.port import (
    Audience,
    Batch,
    Checkpoint,
    Document,
    DocumentRef,
    ReadFailure,
    Stream,
)
from gristmill.db import Queries, Tx
from gristmill.operations.connection import ConnectorId, RunId, RunStage

queries = Queries(__package__ or "gristmill.connectors")

# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class StreamRow:
    """A row of `connector_stream`."""

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
        """Which stream it is."""
        return Stream(self.scope, self.kind)


async def streams(tx: Tx, connector: ConnectorId) -> list[StreamRow]:
    """How far the streams are."""
    return await queries.many(tx, StreamRow, "streams", connector=connector)


def checkpoints_of(rows: Sequence[StreamRow], version: int) -> dict[Stream, Checkpoint]:
    """The marks that are in the present form."""
    return {
        row.stream: Checkpoint(version, row.checkpoint)
        for row in rows
        if row.checkpoint is not None and row.checkpoint_version == version
    }


async def save_stream(tx: Tx, connector: ConnectorId, run: RunId, batch: Batch) -> int:
    """Move a stream on; the number of its listing."""
    checkpoint = batch.checkpoint
    (listing,) = await queries.values(
        tx,
        "save_stream",
        connector=connector,
        run=run,
        scope=batch.stream.scope,
        kind=batch.stream.kind,
        mark_version=None if checkpoint is None else checkpoint.version,
        mark=None if checkpoint is None else Jsonb(checkpoint.position),
        listing=batch.listing or "",
        lost=batch.lost,
    )
    return listing


async def delete_unfollowed_streams(tx: Tx, connector: ConnectorId, run: RunId) -> None:
    """Forget streams that are followed no longer."""
    await queries.run(tx, "end_stream", connector=connector, run=run)


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────


def digest(document: Document) -> bytes:
    """What is compared: everything of a document that is filed."""
    content = [
        document.title,
        document.body,
        document.url,
        document.metadata,
        [[attachment.source_id, attachment.name] for attachment in document.attachments],
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).digest()


@dataclass(frozen=True)
class KnownDocument:
    """What is known of a document."""

    source_id: str
    hash: bytes
    audience: str


async def find_documents(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> dict[str, KnownDocument]:
    """What is known of these documents, by their ids."""
    rows = await queries.many(tx, KnownDocument, "known", connector=connector, sources=list(sources))
    return {row.source_id: row for row in rows}


async def save_documents(
    tx: Tx,
    connector: ConnectorId,
    stream: Stream,
    documents: Sequence[Document],
    listing: int,
    incomplete: Collection[str] = (),
) -> None:
    """Documents are as they are, from now on, and no failures any more; `partial` ones count as changed again."""
    if not documents:
        return
    sources = [document.ref.source_id for document in documents]
    await queries.run(
        tx,
        "keep_documents",
        connector=connector,
        scope=stream.scope,
        kind=stream.kind,
        seen=listing,
        sources=sources,
        locators=[Jsonb(document.ref.locator) for document in documents],
        hashes=[b"" if document.ref.source_id in incomplete else digest(document) for document in documents],
        audiences=[document.audience for document in documents],
    )
    await queries.run(tx, "forget_failures", connector=connector, sources=sources)


async def mark_documents_seen(
    tx: Tx, connector: ConnectorId, stream: Stream, sources: Sequence[str], listing: int
) -> None:
    """A listing names documents."""
    if sources:
        await queries.run(
            tx,
            "see_documents",
            connector=connector,
            scope=stream.scope,
            kind=stream.kind,
            sources=list(sources),
            seen=listing,
        )


async def delete_documents(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> None:
    """The tool no longer has these documents."""
    await queries.run(tx, "forget_documents", connector=connector, sources=list(sources))
    await queries.run(tx, "forget_failures", connector=connector, sources=list(sources))


async def count_documents(tx: Tx, connector: ConnectorId) -> int:
    """How many documents are known."""
    return (await queries.values(tx, "count_documents", connector=connector))[0]


@dataclass(frozen=True)
class _RefRow:
    source_id: str
    scope: str
    kind: str
    locator: dict[str, Any]
    doubtful: bool = True

    @property
    def ref(self) -> DocumentRef:
        return DocumentRef(self.source_id, Stream(self.scope, self.kind), self.locator)


@dataclass(frozen=True)
class StaleDocument:
    """A document that seems to be gone; a `doubtful` one is asked for once more."""

    ref: DocumentRef
    doubtful: bool


async def find_stale_documents(tx: Tx, connector: ConnectorId, run: RunId) -> list[StaleDocument]:
    """What the tool seems to have no more."""
    rows = await queries.many(tx, _RefRow, "stale", connector=connector, run=run)
    return [StaleDocument(row.ref, row.doubtful) for row in rows]


async def find_document_refs(tx: Tx, connector: ConnectorId) -> list[DocumentRef]:
    """Every document that is known."""
    return [row.ref for row in await queries.many(tx, _RefRow, "all_known", connector=connector)]


async def save_failures(tx: Tx, connector: ConnectorId, run: RunId, failures: Sequence[ReadFailure]) -> None:
    """Ask for these again in the next run."""
    if not failures:
        return
    latest = {failure.ref.source_id: failure for failure in failures}
    ordered = [latest[source] for source in sorted(latest)]
    await queries.run(
        tx,
        "keep_failures",
        connector=connector,
        run=run,
        sources=[failure.ref.source_id for failure in ordered],
        scopes=[failure.ref.stream.scope for failure in ordered],
        kinds=[failure.ref.stream.kind for failure in ordered],
        locators=[Jsonb(failure.ref.locator) for failure in ordered],
        codes=[failure.code for failure in ordered],
        messages=[failure.message[:2000] for failure in ordered],
    )


async def find_earlier_failures(tx: Tx, connector: ConnectorId, run: RunId, limit: int) -> list[DocumentRef]:
    """What earlier runs could not read."""
    rows = await queries.many(tx, _RefRow, "old_failures", connector=connector, run=run, limit=limit)
    return [row.ref for row in rows]


# ── audiences ────────────────────────────────────────────────────────────────────────────────────────────


async def save_audiences(tx: Tx, connector: ConnectorId, audiences: Sequence[Audience]) -> list[str]:
    """Audiences as they are now; the keys of those whose meaning is yet to be spread."""
    if not audiences:
        return []
    users = {user: name for audience in audiences for user, name in audience.users.items()}
    await queries.run(
        tx,
        "keep_accounts",
        connector=connector,
        users=list(users),
        names=[name[:200] for name in users.values()],
    )
    rows = [
        {
            "key": audience.key,
            "everybody": audience.everybody,
            "emails": sorted(audience.emails),
            "users": sorted(audience.users),
            "groups": sorted(audience.groups),
            "complete": audience.complete,
        }
        for audience in {audience.key: audience for audience in audiences}.values()
    ]
    return await queries.values(tx, "keep_audiences", connector=connector, audiences=json.dumps(rows))


@dataclass(frozen=True)
class _AudienceAcl:
    key: str
    acl: list[str]


async def audience_acls(tx: Tx, connector: ConnectorId, keys: Sequence[str]) -> dict[str, list[str]]:
    """What audiences mean here; one that is not known is nobody."""
    rows = await queries.many(tx, _AudienceAcl, "audience_lists", connector=connector, keys=list(keys))
    return {key: [] for key in keys} | {row.key: row.acl for row in rows}


async def set_document_audiences(
    tx: Tx, connector: ConnectorId, audience_by_source: Mapping[str, str]
) -> list[str]:
    """Documents have these audiences now; those that had others."""
    return await queries.values(
        tx,
        "place_documents",
        connector=connector,
        sources=list(audience_by_source),
        audiences=list(audience_by_source.values()),
    )


# ── containers and records ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ContainerState:
    """Where a connector files in a base; `taken_out` when somebody deleted the container there."""

    base_id: BaseId
    item_id: ItemId | None
    taken_out: bool


async def find_containers(tx: Tx, connector: ConnectorId) -> list[ContainerState]:
    """Where it files, by base."""
    return await queries.many(tx, ContainerState, "containers", connector=connector)


@dataclass(frozen=True)
class _RecordRow:
    source_key: str
    id: ItemId
    status: str


async def record_ids(tx: Tx, container: ItemId, sources: Sequence[str]) -> dict[str, ItemId]:
    """The records of documents below a container."""
    rows = await queries.many(tx, _RecordRow, "records", container=container, sources=list(sources))
    return {row.source_key: row.id for row in rows}


@dataclass(frozen=True)
class AttachedFile:
    """A file below a record."""

    parent_id: ItemId
    source_key: str
    id: ItemId


async def find_attached_files(tx: Tx, record_ids: Sequence[ItemId]) -> list[AttachedFile]:
    """The files below these records."""
    return await queries.many(tx, AttachedFile, "attached", records=list(record_ids))


@dataclass(frozen=True)
class _AttachmentKey:
    document: str
    attachment: str


async def find_attachments(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> set[tuple[str, str]]:
    """(document, attachment) of what is filed wherever it should be."""
    rows = await queries.many(
        tx, _AttachmentKey, "attachments_held", connector=connector, sources=list(sources)
    )
    return {(row.document, row.attachment) for row in rows}


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class RunProgress:
    """How much further a run came."""

    processed: int = 0
    ingested: int = 0
    unchanged: int = 0
    pruned: int = 0
    errors: int = 0
    batches: int = 0


async def add_progress(tx: Tx, connector: ConnectorId, run: RunId, progress: RunProgress) -> bool:
    """A run came further; False when it had ended."""
    await queries.run(tx, "not_limited", connector=connector)
    return bool(await queries.values(tx, "count_run", run=run, **vars(progress)))


async def set_stage(tx: Tx, run: RunId, stage: RunStage) -> None:
    """A run goes on to its next stage."""
    await queries.run(tx, "set_run_stage", run=run, stage=stage)


async def count_continuation(tx: Tx, run: RunId) -> int:
    """A run has used up its time: how often that was."""
    rows = await queries.values(tx, "continue_run", run=run)
    return rows[0] if rows else 0


async def record_rate_limit(tx: Tx, connector: ConnectorId, run: RunId, wait: timedelta) -> None:
    """A run waits for its tool."""
    await queries.values(tx, "limit_run", connector=connector, run=run, wait=wait)


async def has_pending_items(tx: Tx, run: RunId) -> bool:
    """Whether something that a run filed is not indexed yet."""
    return (await queries.values(tx, "is_pending", run=run))[0]


async def count_failed_items(tx: Tx, connector: ConnectorId, run: RunId) -> int:
    """How much of what a run filed could not be indexed."""
    return (await queries.values(tx, "failed_items", connector=connector, run=run))[0]
