"""What is known of a connector's streams, documents and audiences, in the caller's transaction."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg.types.json import Jsonb

from gristmill.catalog import BaseId, ItemId
from gristmill.connectors.connector import Audience, Batch, Document, Failure, Mark, Ref, Stream
from gristmill.db import Queries, Tx
from gristmill.operations.connection import ConnectorId, RunId, Stage

queries = Queries(__package__ or "gristmill.connectors")

# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class StreamRow:
    """A row of `connector_stream`."""

    scope: str
    kind: str
    mark_version: int | None
    mark: dict[str, Any] | None
    listing: int
    listed: bool
    lost: bool
    spoken: RunId | None

    @property
    def stream(self) -> Stream:
        """Which stream it is."""
        return Stream(self.scope, self.kind)


async def streams(tx: Tx, connector: ConnectorId) -> list[StreamRow]:
    """How far the streams are."""
    return await queries.many(tx, StreamRow, "streams", connector=connector)


def marks_of(rows: Sequence[StreamRow], version: int) -> dict[Stream, Mark]:
    """The marks that are in the present form."""
    return {
        row.stream: Mark(version, row.mark)
        for row in rows
        if row.mark is not None and row.mark_version == version
    }


async def save_stream(tx: Tx, connector: ConnectorId, run: RunId, batch: Batch) -> int:
    """Move a stream on; the number of its listing."""
    mark = batch.mark
    (listing,) = await queries.values(
        tx,
        "save_stream",
        connector=connector,
        run=run,
        scope=batch.stream.scope,
        kind=batch.stream.kind,
        mark_version=None if mark is None else mark.version,
        mark=None if mark is None else Jsonb(mark.position),
        listing=batch.listing or "",
        lost=batch.lost,
    )
    return listing


async def end_streams(tx: Tx, connector: ConnectorId, run: RunId) -> None:
    """Forget streams that are followed no longer."""
    await queries.run(tx, "end_stream", connector=connector, run=run)


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────


def digest(document: Document) -> bytes:
    """What is compared: everything of a document that is filed."""
    told = [
        document.title,
        document.body,
        document.url,
        document.metadata,
        [[one.source_id, one.name] for one in document.attachments],
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).digest()


@dataclass(frozen=True)
class Known:
    """What is known of a document."""

    source_id: str
    hash: bytes
    audience: str


async def known(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> dict[str, Known]:
    """What is known of these documents, by their ids."""
    found = await queries.many(tx, Known, "known", connector=connector, sources=list(sources))
    return {row.source_id: row for row in found}


async def keep_documents(
    tx: Tx,
    connector: ConnectorId,
    stream: Stream,
    documents: Sequence[Document],
    seen: int,
    partial: Collection[str] = (),
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
        seen=seen,
        sources=sources,
        locators=[Jsonb(document.ref.locator) for document in documents],
        hashes=[b"" if document.ref.source_id in partial else digest(document) for document in documents],
        audiences=[document.audience for document in documents],
    )
    await queries.run(tx, "forget_failures", connector=connector, sources=sources)


async def see_documents(
    tx: Tx, connector: ConnectorId, stream: Stream, sources: Sequence[str], seen: int
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
            seen=seen,
        )


async def forget_documents(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> None:
    """The tool no longer has these documents."""
    await queries.run(tx, "forget_documents", connector=connector, sources=list(sources))
    await queries.run(tx, "forget_failures", connector=connector, sources=list(sources))


async def count_documents(tx: Tx, connector: ConnectorId) -> int:
    """How many documents are known."""
    return (await queries.values(tx, "count_documents", connector=connector))[0]


@dataclass(frozen=True)
class _Ref:
    source_id: str
    scope: str
    kind: str
    locator: dict[str, Any]
    doubtful: bool = True

    @property
    def ref(self) -> Ref:
        return Ref(self.source_id, Stream(self.scope, self.kind), self.locator)


@dataclass(frozen=True)
class Stale:
    """A document that seems to be gone; a `doubtful` one is asked for once more."""

    ref: Ref
    doubtful: bool


async def stale(tx: Tx, connector: ConnectorId, run: RunId) -> list[Stale]:
    """What the tool seems to have no more."""
    found = await queries.many(tx, _Ref, "stale", connector=connector, run=run)
    return [Stale(row.ref, row.doubtful) for row in found]


async def all_known(tx: Tx, connector: ConnectorId) -> list[Ref]:
    """Every document that is known."""
    return [row.ref for row in await queries.many(tx, _Ref, "all_known", connector=connector)]


async def keep_failures(tx: Tx, connector: ConnectorId, run: RunId, failures: Sequence[Failure]) -> None:
    """Ask for these again in the next run."""
    if not failures:
        return
    last = {failure.ref.source_id: failure for failure in failures}
    ordered = [last[source] for source in sorted(last)]
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


async def old_failures(tx: Tx, connector: ConnectorId, run: RunId, limit: int) -> list[Ref]:
    """What earlier runs could not read."""
    found = await queries.many(tx, _Ref, "old_failures", connector=connector, run=run, limit=limit)
    return [row.ref for row in found]


# ── audiences ────────────────────────────────────────────────────────────────────────────────────────────


async def keep_audiences(tx: Tx, connector: ConnectorId, audiences: Sequence[Audience]) -> list[str]:
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
class _List:
    key: str
    acl: list[str]


async def audience_lists(tx: Tx, connector: ConnectorId, keys: Sequence[str]) -> dict[str, list[str]]:
    """What audiences mean here; one that is not known is nobody."""
    found = await queries.many(tx, _List, "audience_lists", connector=connector, keys=list(keys))
    return {key: [] for key in keys} | {row.key: row.acl for row in found}


async def place(tx: Tx, connector: ConnectorId, placed: Mapping[str, str]) -> list[str]:
    """Documents have these audiences now; those that had others."""
    return await queries.values(
        tx, "place_documents", connector=connector, sources=list(placed), audiences=list(placed.values())
    )


# ── containers and records ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Place:
    """Where a connector files in a base; `taken_out` when somebody deleted the container there."""

    base_id: BaseId
    item_id: ItemId | None
    taken_out: bool


async def places(tx: Tx, connector: ConnectorId) -> list[Place]:
    """Where it files, by base."""
    return await queries.many(tx, Place, "containers", connector=connector)


@dataclass(frozen=True)
class _Record:
    source_key: str
    id: ItemId
    status: str


async def records(tx: Tx, container: ItemId, sources: Sequence[str]) -> dict[str, ItemId]:
    """The records of documents below a container."""
    found = await queries.many(tx, _Record, "records", container=container, sources=list(sources))
    return {row.source_key: row.id for row in found}


@dataclass(frozen=True)
class Attached:
    """A file below a record."""

    parent_id: ItemId
    source_key: str
    id: ItemId


async def attached(tx: Tx, record_ids: Sequence[ItemId]) -> list[Attached]:
    """The files below these records."""
    return await queries.many(tx, Attached, "attached", records=list(record_ids))


@dataclass(frozen=True)
class _Held:
    document: str
    attachment: str


async def attachments_held(tx: Tx, connector: ConnectorId, sources: Sequence[str]) -> set[tuple[str, str]]:
    """(document, attachment) of what is filed wherever it should be."""
    found = await queries.many(tx, _Held, "attachments_held", connector=connector, sources=list(sources))
    return {(row.document, row.attachment) for row in found}


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Progress:
    """How much further a run came."""

    processed: int = 0
    ingested: int = 0
    unchanged: int = 0
    pruned: int = 0
    errors: int = 0
    batches: int = 0


async def count(tx: Tx, connector: ConnectorId, run: RunId, progress: Progress) -> bool:
    """A run came further; False when it had ended."""
    await queries.run(tx, "not_limited", connector=connector)
    return bool(await queries.values(tx, "count_run", run=run, **vars(progress)))


async def set_stage(tx: Tx, run: RunId, stage: Stage) -> None:
    """A run goes on to its next stage."""
    await queries.run(tx, "set_run_stage", run=run, stage=stage)


async def continue_later(tx: Tx, run: RunId) -> int:
    """A run has used up its time: how often that was."""
    found = await queries.values(tx, "continue_run", run=run)
    return found[0] if found else 0


async def limit(tx: Tx, connector: ConnectorId, run: RunId, wait: timedelta) -> None:
    """A run waits for its tool."""
    await queries.values(tx, "limit_run", connector=connector, run=run, wait=wait)


async def is_pending(tx: Tx, run: RunId) -> bool:
    """Whether something that a run filed is not indexed yet."""
    return (await queries.values(tx, "is_pending", run=run))[0]


async def failed_items(tx: Tx, connector: ConnectorId, run: RunId) -> int:
    """How much of what a run filed could not be indexed."""
    return (await queries.values(tx, "failed_items", connector=connector, run=run))[0]
