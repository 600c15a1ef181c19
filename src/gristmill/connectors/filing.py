"""One batch of a run becomes records: everything of it in one fenced transaction, or nothing.

    before      what of it is new or changed; attachments that are not filed yet go into the blob store
    transaction the turns of all bases, by id → the lease → audiences → in each base: the container, records that are
                missing or changed with their jobs, attachments that came or went → what is known of the documents → the
                stream's mark → the run's counters

A document is read from its tool once, however many bases it goes to. One whose hash is known is skipped, unless a base has
no record of it. Killed before the commit: the next attempt begins at the mark before. Killed after: behind it.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, Item, ItemId, NewItem
from gristmill.connectors import store
from gristmill.connectors.connector import Attachment, Batch, Connector, Document, Failure
from gristmill.connectors.store import Known, Place, Progress
from gristmill.connectors.transport import RateLimited, Unauthorized
from gristmill.db import Database, Tx
from gristmill.errors import Permanent, Transient
from gristmill.jobs import Band, Job
from gristmill.operations import connection, uploads
from gristmill.operations.connection import Connector as Row
from gristmill.operations.connection import Run
from gristmill.operations.delete import hide
from gristmill.operations.schedule import announce_filed, schedule
from gristmill.sources.blobs import Blob, Blobs

_LONGEST_TITLE = 500


@dataclass
class Prepared:
    """A batch, and what was found out about it before its transaction."""

    batch: Batch
    known: dict[str, Known]
    blobs: dict[tuple[str, str], Blob] = field(default_factory=dict[tuple[str, str], Blob])
    failures: list[Failure] = field(default_factory=list[Failure])  # attachments to ask for again
    left_out: list[str] = field(default_factory=list[str])  # attachments that can't be had

    def is_changed(self, document: Document) -> bool:
        """Whether it is not what is known."""
        known = self.known.get(document.ref.source_id)
        return known is None or known.hash != store.digest(document)


class Filing:
    """Files batches for one run."""

    def __init__(self, db: Database, blobs: Blobs, limit: int) -> None:
        self._db, self._blobs, self._limit = db, blobs, limit

    async def prepare(self, connector: Connector, row: Row, batch: Batch) -> Prepared:
        """Find out what changed, and bring in the attachments of that."""
        sources = [document.ref.source_id for document in batch.documents]
        async with self._db.connection() as tx:
            prepared = Prepared(batch, await store.known(tx, row.id, sources) if sources else {})
            changed = [one for one in batch.documents if one.attachments and prepared.is_changed(one)]
            held = await store.attachments_held(tx, row.id, [one.ref.source_id for one in changed])
        for document in changed:
            for attachment in document.attachments:
                if (document.ref.source_id, attachment.source_id) not in held:
                    await self._bring(connector, row, document, attachment, prepared)
        return prepared

    async def _bring(
        self, connector: Connector, row: Row, document: Document, attachment: Attachment, prepared: Prepared
    ) -> None:
        key = document.ref.source_id, attachment.source_id
        try:
            if attachment.size is not None and attachment.size > self._limit:
                raise Permanent(
                    f"{attachment.name} has {attachment.size:,} bytes; at most {self._limit:,} are taken.",
                    code="attachment_too_large",
                )

            def read() -> AsyncIterator[bytes]:
                return connector.download(attachment)

            prepared.blobs[key] = await uploads.keep(self._db, self._blobs, read, self._limit, row.org_id)
        except (RateLimited, Unauthorized):
            raise
        except Permanent as error:
            prepared.left_out.append(f"{attachment.name} of {document.ref.source_id}: {error.message}")
        except Transient as error:
            prepared.failures.append(Failure(document.ref, error.code, f"{attachment.name}: {error.message}"))

    async def save(self, job: Job, row: Row, run: Run, prepared: Prepared, *, counted: bool = True) -> bool:
        """File it; False when the run has ended meanwhile. Unless `counted`, the stream is left as it is."""
        batch = prepared.batch
        async with self._db.transaction() as tx:
            bases = {base_id: await catalog.take_turn(tx, base_id) for base_id in sorted(row.base_ids)}
            await jobs.fence(tx, job)
            spreading = await store.keep_audiences(tx, row.id, batch.audiences)
            await connection.spread(tx, row.id, spreading)
            for place in await store.places(tx, row.id):
                base = bases.get(place.base_id)
                if base is not None:
                    await self._file(tx, row, run, base, place, prepared)
            await self._remember(tx, row, run, prepared, counted=counted)
            changed = sum(1 for one in batch.documents if prepared.is_changed(one))
            progress = Progress(
                processed=len(batch.documents) + len(batch.failures),
                ingested=changed,
                unchanged=len(batch.documents) - changed,
                errors=len(batch.failures)
                + len(prepared.failures)
                + len(prepared.left_out)
                + bool(batch.problem),
                batches=1 if batch.documents else 0,
            )
            open_ = await store.count(tx, row.id, run.id, progress)
            await _tell(tx, run, prepared)
            await jobs.progressed(tx, [job])
            await faults.point("sync.before_commit")
        await faults.point("sync.saved")
        return open_

    async def _remember(self, tx: Tx, row: Row, run: Run, prepared: Prepared, *, counted: bool) -> None:
        batch = prepared.batch
        if counted:
            listing = await store.save_stream(tx, row.id, run.id, batch)
        else:
            rows = {found.stream: found for found in await store.streams(tx, row.id)}
            listing = rows[batch.stream].listing if batch.stream in rows else 0
        moved = [
            document
            for document in batch.documents
            if (known := prepared.known.get(document.ref.source_id)) is not None
            and known.audience != document.audience
        ]
        # One whose attachment is missing is asked for again: its hash must not say that all of it is here.
        partial = {failure.ref.source_id for failure in prepared.failures}
        await store.keep_documents(tx, row.id, batch.stream, batch.documents, listing, partial)
        await store.see_documents(tx, row.id, batch.stream, batch.present, listing)
        await store.keep_failures(tx, row.id, run.id, [*batch.failures, *prepared.failures])
        if moved:
            keys = sorted({document.audience for document in moved})
            sources = [document.ref.source_id for document in moved]
            await connection.spread(tx, row.id, keys, sources)

    # ── one base ─────────────────────────────────────────────────────────────────────────────────────────

    async def _file(self, tx: Tx, row: Row, run: Run, base: Base, place: Place, prepared: Prepared) -> None:
        documents = prepared.batch.documents
        if place.taken_out or not documents:
            return
        container = place.item_id or await _container(tx, row, run, base)
        keys = sorted({document.audience for document in documents})
        lists = await store.audience_lists(tx, row.id, keys) if row.acl is None else {}
        ids = await store.records(tx, container, [document.ref.source_id for document in documents])
        wanted: list[Item] = []
        fresh = [one for one in documents if one.ref.source_id not in ids]
        for document in documents:
            if document.ref.source_id in ids and prepared.is_changed(document):
                item_id = ids[document.ref.source_id]
                new = _record(row, document, lists.get(document.audience))
                replaced = await catalog.replace_item(tx, item_id, new, run.id)
                await catalog.set_metadata(tx, item_id, new.metadata)
                wanted += [] if replaced is None else [replaced]
        if fresh:
            new_items = [_record(row, one, lists.get(one.audience)) for one in fresh]
            filed = await catalog.insert_items(tx, base.id, container, new_items, cause=run.id)
            ids |= {one.ref.source_id: item.id for one, item in zip(fresh, filed, strict=True)}
            wanted += filed
        await announce_filed(tx, wanted)
        await schedule(tx, base, wanted, Band.NORMAL)
        await catalog.settle_above(tx, [item.id for item in wanted])
        await _attach(tx, run, base, ids, prepared)


async def _attach(tx: Tx, run: Run, base: Base, ids: dict[str, ItemId], prepared: Prepared) -> None:
    """Below each record that changed, the files that its document has now, and no others."""
    changed = [one for one in prepared.batch.documents if prepared.is_changed(one)]
    below: dict[ItemId, dict[str, ItemId]] = {}
    for file in await store.attached(tx, [ids[one.ref.source_id] for one in changed]):
        below.setdefault(file.parent_id, {})[file.source_key] = file.id
    stale: list[ItemId] = []
    for document in changed:
        record = ids[document.ref.source_id]
        there = below.get(record, {})
        named = {attachment.source_id for attachment in document.attachments}
        stale += [item_id for key, item_id in there.items() if key not in named]
        fresh = [
            (attachment, blob)
            for attachment in document.attachments
            if attachment.source_id not in there
            and (blob := prepared.blobs.get((document.ref.source_id, attachment.source_id))) is not None
        ]
        if not fresh:
            continue
        if not await catalog.hold_blobs(tx, [blob.hash for _, blob in fresh]):
            raise Transient("An attachment was being deleted at this moment.", code="upload_lost")
        new = [_file_item(attachment, blob) for attachment, blob in fresh]
        filed = await catalog.insert_items(tx, base.id, record, new, cause=run.id)
        await announce_filed(tx, filed)
        await schedule(tx, base, filed, Band.NORMAL)
        await catalog.settle_above(tx, [item.id for item in filed])
    if stale:
        await hide(tx, base, stale)


async def _container(tx: Tx, row: Row, run: Run, base: Base) -> ItemId:
    """The connector as an item of a base. Nobody but admins sees what has no list of its own below it."""
    new = NewItem(
        "connector",
        row.name,
        str(row.id),
        source={"connectorId": str(row.id), "type": row.type},
        acl=[] if row.acl is None else row.acl,
    )
    (filed,) = await catalog.insert_items(tx, base.id, None, [new], cause=run.id)
    await announce_filed(tx, [filed])
    await schedule(tx, base, [filed], Band.NORMAL)
    await store.queries.run(tx, "set_container", connector=row.id, base=base.id, item=filed.id)
    return filed.id


def _record(row: Row, document: Document, acl: list[str] | None) -> NewItem:
    source = {
        "connectorId": str(row.id),
        "sourceId": document.ref.source_id,
        "kind": document.ref.stream.kind,
        "scope": document.ref.stream.scope,
        **({"url": document.url} if document.url else {}),
        **({"updatedAt": document.updated_at.isoformat()} if document.updated_at else {}),
    }
    title = " ".join(_storable(document.title).split())[:_LONGEST_TITLE] or document.ref.source_id
    body = _storable(document.body)
    return NewItem(
        "record",
        title,
        document.ref.source_id,
        source=source,
        body=body,
        size_bytes=len(body.encode()),
        acl=acl,
        metadata=document.metadata,
    )


def _file_item(attachment: Attachment, blob: Blob) -> NewItem:
    return NewItem(
        "file",
        attachment.name[:_LONGEST_TITLE] or attachment.source_id,
        attachment.source_id,
        source={"name": attachment.name, "attachmentId": attachment.source_id},
        blob=blob.hash,
        size_bytes=blob.size,
    )


def _storable(text: str) -> str:
    """PostgreSQL holds no NUL, and no half of a surrogate pair."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


async def _tell(tx: Tx, run: Run, prepared: Prepared) -> None:
    batch = prepared.batch
    if batch.note:
        await connection.tell(tx, run.id, batch.note)
    if batch.problem:
        await connection.tell(
            tx, run.id, f"{batch.stream.scope} {batch.stream.kind}: {batch.problem}", "warning"
        )
    if batch.lost:
        await connection.tell(
            tx, run.id, f"{batch.stream.scope} is gone, or closed to these credentials.", "warning"
        )
    for told in prepared.left_out[:20]:
        await connection.tell(tx, run.id, f"Left out: {told}", "warning")
    for failure in [*batch.failures, *prepared.failures][:20]:
        told = f"{failure.ref.source_id} can't be read: {failure.message} ({failure.code})"
        await connection.tell(tx, run.id, told, "warning")


async def prune(tx: Tx, job: Job, row: Row, run: Run, sources: Sequence[str], bases: Sequence[Base]) -> None:
    """Documents that the tool no longer has are hidden in every base, and removed like any deletion."""
    await jobs.fence(tx, job)
    by_id = {base.id: base for base in bases}
    for place in await store.places(tx, row.id):
        base = by_id.get(place.base_id)
        if base is None or place.item_id is None:
            continue
        found = await store.records(tx, place.item_id, sources)
        if found:
            await hide(tx, base, list(found.values()))
            await events.announce_ready(tx, [base.id])
    await store.forget_documents(tx, row.id, sources)
    await store.count(tx, row.id, run.id, Progress(pruned=len(sources)))
