"""Stores a batch of documents as records: all of it in one transaction under the job's lease, or nothing.

    before       find out which documents are new or changed, and download what is not stored yet (batch_preparation.py)
    transaction  lock all bases, by id → check the lease → audiences → in each base: the container, records that are
                 missing or changed, with their jobs, and attachments that came or went → what is known of the documents →
                 the stream's checkpoint → the run's counters

A document is read from its tool once, however many bases it goes to. A document whose hash is known is skipped, unless a
base has no record of it. Killed before the commit, the next attempt starts at the previous checkpoint; killed after it, at
the new one.
"""

from collections.abc import Sequence

from gristmill import catalog, contents, events, faults, jobs
from gristmill.catalog import Base, Item, ItemId, NewItem, exclusions, holds
from gristmill.connectors import audience_store, change_store, document_store, store
from gristmill.connectors.batch_preparation import BatchPreparer, PreparedBatch
from gristmill.connectors.document_store import RecordAttachment
from gristmill.connectors.markup import storable, strip_unstorable
from gristmill.connectors.model import ConnectorContainer, ConnectorRow, ConnectorRun
from gristmill.connectors.port import Attachment, Document
from gristmill.connectors.store import RunProgress
from gristmill.db import Database, Tx
from gristmill.errors import Transient
from gristmill.jobs import Job, Priority
from gristmill.operations.delete import mark_for_deletion
from gristmill.operations.next_job import enqueue_next_jobs, record_filed_events
from gristmill.operations.quotas import fail_beyond_quota
from gristmill.sources.blobs import Blob, BlobStore

_MAX_TITLE = 500
_MAX_LOGGED = 20  # skipped or failed documents of a batch that are logged


class BatchWriter:
    """Writes batches into the bases that a connector feeds."""

    def __init__(self, db: Database, blobs: BlobStore, attachment_limit: int) -> None:
        self._db = db
        self.prepare = BatchPreparer(db, blobs, attachment_limit).prepare

    async def save(
        self,
        job: Job,
        row: ConnectorRow,
        run: ConnectorRun,
        prepared: PreparedBatch,
        *,
        advance_stream: bool = True,
        completes_earlier_run: bool = False,
    ) -> bool:
        """Store a batch; False when the run has ended meanwhile. Without `advance_stream`, checkpoint and listing stay. With
        `completes_earlier_run` they advance, and the run has still to report on the stream. A rate limit that ended the
        downloads is raised once what came before it is stored."""
        batch = prepared.batch
        async with self._db.transaction() as tx:
            bases = {base_id: await catalog.lock_base(tx, base_id) for base_id in sorted(row.base_ids)}
            await jobs.fence(tx, job)
            await store.require_unchanged(tx, row)
            changed_keys = await audience_store.save_audiences(tx, row, batch.audiences)
            await audience_store.close_unknown(tx, row, {document.audience for document in batch.documents})
            await audience_store.apply_audiences(tx, row.id, changed_keys)
            for target in await store.find_containers(tx, row.id):
                base = bases.get(target.base_id)
                if base is not None:
                    await self._write_to_base(tx, row, run, base, target, prepared)
            # By the rows that differ: a document can fail more than once, and can be read after all.
            failed_before = await document_store.count_failures_of(tx, row.id, run.id, prepared.source_ids)
            has_advanced = await self._record_documents(
                tx,
                row,
                run,
                prepared,
                advance_stream=advance_stream and prepared.stopped_by is None,
                completes_earlier_run=completes_earlier_run,
            )
            failed = await document_store.count_failures_of(tx, row.id, run.id, prepared.source_ids)
            changed = sum(1 for document in batch.documents if prepared.is_changed(document))
            progress = RunProgress(
                processed=len(batch.documents) + len(batch.failures),
                ingested=changed,
                unchanged=len(batch.documents) - changed,
                errors=failed - failed_before + len(prepared.skipped) + bool(batch.problem),
                batches=1 if batch.documents else 0,
            )
            is_open = await store.add_progress(tx, row.id, run.id, progress)
            await _log_outcome(tx, run, prepared)
            if has_advanced:  # else attempts that all fail at the same place would never end
                await jobs.reset_attempts(tx, [job])
            await faults.point("sync.before_commit")
        await faults.point("sync.saved")
        if prepared.stopped_by is not None:
            raise prepared.stopped_by
        return is_open

    async def _record_documents(
        self,
        tx: Tx,
        row: ConnectorRow,
        run: ConnectorRun,
        prepared: PreparedBatch,
        *,
        advance_stream: bool,
        completes_earlier_run: bool,
    ) -> bool:
        """Record what is known of the batch's documents and its stream; whether the run is further than before."""
        batch = prepared.batch
        has_advanced = False
        if advance_stream:
            has_advanced = await document_store.advances_stream(tx, row.id, run.id, batch)
            listing = await document_store.save_stream(
                tx, row.id, run.id, batch, completes_earlier_run=completes_earlier_run
            )
        else:
            rows = {each.stream: each for each in await document_store.find_streams(tx, row.id)}
            listing = rows[batch.stream].listing if batch.stream in rows else 0
        moved_documents = [
            document
            for document in batch.documents
            if (known := prepared.known.get(document.ref.source_id)) is not None
            and known.audience != document.audience
        ]
        # A document without one of its attachments is read again: it gets no hash.
        incomplete = {failure.ref.source_id for failure in prepared.failures}
        read = await document_store.save_documents(
            tx, row, batch.stream, batch.documents, listing, incomplete
        )
        if batch.documents:
            await audience_store.note_older_audiences(tx, row, batch.documents)
        present_ids = [
            source_id
            for listed in batch.present
            for source_id in (listed.ref.source_id, *listed.companion_ids)
        ]
        await document_store.save_failures(tx, row.id, run.id, [*batch.failures, *prepared.failures])
        await document_store.save_unread(tx, row.id, run.id, batch.present)  # while it shows what was missing
        await document_store.mark_documents_seen(tx, row.id, batch.stream, present_ids, listing)
        if batch.is_listing_complete and advance_stream and not completes_earlier_run:
            await change_store.mark_unlisted_missing(tx, row.id, batch.stream, listing)
        await change_store.save_changes(tx, row.id, run.id, batch)
        if moved_documents:
            keys = sorted({document.audience for document in moved_documents})
            source_ids = [document.ref.source_id for document in moved_documents]
            await audience_store.apply_audiences(tx, row.id, keys, source_ids)
        has_stored = any(
            prepared.is_changed(document) and document.ref.source_id not in incomplete
            for document in batch.documents
        )
        return has_advanced or has_stored or read > 0

    # ── one base ─────────────────────────────────────────────────────────────────────────────────────────

    async def _write_to_base(
        self,
        tx: Tx,
        row: ConnectorRow,
        run: ConnectorRun,
        base: Base,
        target: ConnectorContainer,
        prepared: PreparedBatch,
    ) -> None:
        if target.is_deleted or not prepared.batch.documents:
            return
        container = target.item_id or await _create_container(tx, row, run, base)
        # Without the documents that people deleted from the connector's container.
        sources = [("record", document.ref.source_id) for document in prepared.batch.documents]
        places = await exclusions.find_excluded(tx, container, sources)
        documents = [each for place, each in enumerate(prepared.batch.documents) if place not in places]
        audiences = await audience_store.effective_audiences(tx, row, documents)
        keys = sorted(set(audiences.values()))
        acls = await audience_store.audience_acls(tx, row.id, keys) if row.acl is None else {}
        record_ids = await document_store.record_ids(
            tx, container, [document.ref.source_id for document in documents]
        )
        changed_items: list[Item] = []
        new_documents = [document for document in documents if document.ref.source_id not in record_ids]
        for document in documents:
            if document.ref.source_id in record_ids and prepared.is_changed(document):
                item_id = record_ids[document.ref.source_id]
                new = await _record_item(tx, row, document, None, prepared)
                replaced = await catalog.replace_item(tx, item_id, new, run.id)
                await catalog.set_metadata(tx, item_id, new.metadata, keep_tags=True)
                changed_items += [] if replaced is None else [replaced]
        if new_documents:
            new_items = [
                await _record_item(tx, row, document, acls.get(audiences[document.ref.source_id]), prepared)
                for document in new_documents
            ]
            new_items = await fail_beyond_quota(tx, base.id, new_items)
            inserted = await catalog.insert_items(tx, base.id, container, new_items, cause=run.id)
            record_ids |= {
                document.ref.source_id: item.id
                for document, item in zip(new_documents, inserted, strict=True)
            }
            changed_items += inserted
        await record_filed_events(tx, changed_items)
        await enqueue_next_jobs(tx, base, changed_items, Priority.NORMAL)
        await catalog.derive_statuses_above(tx, [item.id for item in changed_items])
        new_ids = {document.ref.source_id for document in new_documents}
        changed = [
            document
            for document in documents
            if document.ref.source_id in new_ids or prepared.is_changed(document)
        ]
        await _sync_attachments(tx, run, base, record_ids, changed, prepared)


async def _sync_attachments(
    tx: Tx,
    run: ConnectorRun,
    base: Base,
    record_ids: dict[str, ItemId],
    changed: Sequence[Document],
    prepared: PreparedBatch,
) -> None:
    """Give each new or changed record the attachments that its document has now: add new ones, rename known ones, delete the others."""
    files_by_record: dict[ItemId, dict[str, RecordAttachment]] = {}
    for file in await document_store.find_attached_files(
        tx, [record_ids[document.ref.source_id] for document in changed]
    ):
        files_by_record.setdefault(file.parent_id, {})[file.source_key] = file
    stale_files: list[ItemId] = []
    new_names: dict[ItemId, str] = {}
    for document in changed:
        record_id = record_ids[document.ref.source_id]
        present = files_by_record.get(record_id, {})
        attachment_ids = {attachment.source_id for attachment in document.attachments}
        stale_files += [file.id for key, file in present.items() if key not in attachment_ids]
        new_names |= {
            file.id: name
            for attachment in document.attachments
            if (file := present.get(attachment.source_id)) is not None
            and (name := strip_unstorable(attachment.name)) not in ("", file.name)
        }
        new_attachments = [
            (attachment, blob)
            for attachment in document.attachments
            if attachment.source_id not in present
            and (blob := prepared.blobs.get((document.ref.source_id, attachment.source_id))) is not None
        ]
        if not new_attachments:
            continue
        if not await contents.lock_blobs_shared(tx, [blob.hash for _, blob in new_attachments]):
            raise Transient("An attachment was being deleted at this moment.", code="upload_lost")
        new = await fail_beyond_quota(tx, base.id, [_attachment_item(*each) for each in new_attachments])
        inserted = await catalog.insert_items(tx, base.id, record_id, new, cause=run.id)
        await record_filed_events(tx, inserted)
        await enqueue_next_jobs(tx, base, inserted, Priority.NORMAL)
        await catalog.derive_statuses_above(tx, [item.id for item in inserted])
    if stale_files:
        await mark_for_deletion(tx, base, stale_files)
    if new_names:
        await catalog.rename_attachments(tx, new_names)
        items = await catalog.request_version(tx, list(new_names), run.id)
        await record_filed_events(tx, items)
        await enqueue_next_jobs(tx, base, items, Priority.NORMAL)


async def _create_container(tx: Tx, row: ConnectorRow, run: ConnectorRun, base: Base) -> ItemId:
    """The connector as an item of a base. With an empty access list, only admins see children without a list of their own."""
    new = NewItem(
        "connector",
        row.name,
        str(row.id),
        source={"connectorId": str(row.id), "type": row.type},
        acl=[] if row.acl is None else row.acl,
    )
    (inserted,) = await catalog.insert_items(tx, base.id, None, [new], cause=run.id)
    await record_filed_events(tx, [inserted])
    await enqueue_next_jobs(tx, base, [inserted], Priority.NORMAL)
    await store.set_container(tx, row.id, base.id, inserted.id)
    return inserted.id


async def _record_item(
    tx: Tx,
    row: ConnectorRow,
    document: Document,
    acl: list[str] | None,
    prepared: PreparedBatch,
) -> NewItem:
    file = document.file
    blob = None if file is None else prepared.blobs.get((document.ref.source_id, file.source_id))
    if file is not None and (blob is None or not await contents.lock_blobs_shared(tx, [blob.hash])):
        raise Transient("A file or its record was being deleted at this moment.", code="upload_lost")
    source = {
        "connectorId": str(row.id),
        "sourceId": document.ref.source_id,
        "kind": document.ref.stream.kind,
        "scope": document.ref.stream.scope,
        **({"url": document.url} if document.url else {}),
        **({"updatedAt": document.updated_at.isoformat()} if document.updated_at else {}),
        **({"name": file.name} if file else {}),
    }
    source = storable(source)
    title = " ".join(strip_unstorable(document.title).split())[:_MAX_TITLE] or document.ref.source_id
    body = strip_unstorable(document.body)
    return NewItem(
        "record",
        title,
        document.ref.source_id,
        source=source,
        body=body if blob is None else None,
        blob=None if blob is None else blob.hash,
        size_bytes=len(body.encode()) if blob is None else blob.size,
        acl=acl,
        metadata=storable(document.metadata),
    )


def _attachment_item(attachment: Attachment, blob: Blob) -> NewItem:
    name = strip_unstorable(attachment.name)
    return NewItem(
        "file",
        name[:_MAX_TITLE] or attachment.source_id,
        attachment.source_id,
        source={"name": name, "attachmentId": attachment.source_id},
        blob=blob.hash,
        size_bytes=blob.size,
    )


async def _log_outcome(tx: Tx, run: ConnectorRun, prepared: PreparedBatch) -> None:
    batch = prepared.batch
    for line in (batch.note or "").splitlines():
        await store.add_log_line(tx, run.id, line)
    if batch.problem:
        await store.add_log_line(
            tx, run.id, f"{batch.stream.scope} {batch.stream.kind}: {batch.problem}", "warning"
        )
    if batch.lost:
        await store.add_log_line(
            tx,
            run.id,
            f"{batch.stream.scope} no longer exists, or these credentials can't read it.",
            "warning",
        )
    for message in prepared.skipped[:_MAX_LOGGED]:
        await store.add_log_line(tx, run.id, f"Skipped: {message}", "warning")
    for failure in [*batch.failures, *prepared.failures][:_MAX_LOGGED]:
        message = f"{failure.ref.source_id} can't be read: {failure.message} ({failure.code})"
        await store.add_log_line(tx, run.id, message, "warning")


async def remove_documents(
    tx: Tx, job: Job, row: ConnectorRow, run: ConnectorRun, source_ids: Sequence[str], bases: Sequence[Base]
) -> None:
    """Delete documents that the tool no longer has from every base."""
    await jobs.fence(tx, job)
    await store.require_unchanged(tx, row)
    by_id = {base.id: base for base in bases}
    for target in await store.find_containers(tx, row.id):
        base = by_id.get(target.base_id)
        if base is None or target.item_id is None:
            continue
        records = await document_store.record_ids(tx, target.item_id, source_ids)
        if records:
            held = await holds.find_held_roots(tx, base.id, list(records.values()))
            source_ids = [key for key in source_ids if records.get(key) not in held]  # the next run sees them
            await mark_for_deletion(tx, base, list(records.values()))
            await events.announce_ready(tx, [base.id])
    await document_store.delete_documents(tx, row.id, source_ids)
    await store.add_progress(tx, row.id, run.id, RunProgress(pruned=len(source_ids)))
