"""Documents inside a document become its children: attachments, objects, entries of an archive.

    found       its reader lays each down in a file; the bytes go into the blob store, the name and their hash are kept
                with the content
    filed       when all of it is read, before it is published: one fenced transaction, in the base's turn

    the document's new content …      the child
    has it, as nothing was filed      is filed, with its job
    has it still                      is wanted anew with the bytes of now; equal ones end without being embedded again
    has it no more                    is deleted
    is the one that was filed         stays as it is; one that failed is wanted anew, one that was deleted stays away

At most `DEPTH` documents inside each other and `MOST` below the outermost are filed; the others are counted in the warning
`embedded_left_out`. Killed before the commit: nothing was filed. Killed after: the next attempt finds that it is done.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import PurePosixPath

from gristmill import catalog, contents, events, faults, jobs
from gristmill.catalog import AttachmentItem, Base, Item, NewItem
from gristmill.contents import ContentAttachment
from gristmill.db import Database, Tx
from gristmill.errors import Transient
from gristmill.events import EmbeddedDocumentsExtracted
from gristmill.ingest.document import Document
from gristmill.jobs import Outcome, Priority, QueueLimits, Snooze
from gristmill.operations.delete import mark_for_deletion
from gristmill.operations.next_job import enqueue_next_jobs, has_room, record_filed_events

MAX_DEPTH = 3
MAX_DOCUMENTS = 10_000
_MAX_INTERACTIVE = 10  # children of a document that somebody waits for, who is then waited for too
_PAUSE = timedelta(seconds=30)


class AttachmentFiler:
    """Files what documents hold."""

    def __init__(self, db: Database, limits: QueueLimits | None = None) -> None:
        self._db, self._limits = db, limits

    async def file(self, document: Document) -> Outcome | None:
        """File the documents that were found inside; an outcome when that has to wait."""
        attachments, item = document.attachments, document.item
        if not attachments and not item.holds:
            return None
        released_blobs: list[bytes] = []
        async with self._db.transaction() as tx:
            base = await catalog.lock_base(tx, document.base.id)
            await jobs.fence(tx, document.job)
            if base is None or not await catalog.is_wanted(tx, item.id, document.version):
                return None
            children = await catalog.attachment_items(tx, item.id)
            if await catalog.has_filed_attachments(tx, item.id, document.version, document.digest):
                _warn_left_out(document, len(attachments) - len(children))
                return None
            if not await has_room(tx, base, self._limits):
                return Snooze(_PAUSE)
            if item.attachments_content == document.digest:
                wanted = await self._retry_failed(tx, document, children)
            else:
                wanted = await self._sync_children(tx, base, document, children, released_blobs)
            await enqueue_next_jobs(tx, base, wanted, _priority(document, wanted))
            await catalog.mark_attachments_filed(tx, item.id, document.version, document.digest)
            await contents.remove_unused_blobs(tx, released_blobs)
            await faults.point("embedded.before_commit")
        await faults.point("embedded.filed")
        return None

    async def _retry_failed(
        self, tx: Tx, document: Document, children: Sequence[AttachmentItem]
    ) -> list[Item]:
        """The document is as it was: only what failed is wanted anew."""
        by_name = _by_unique_name(document.attachments)
        failed = [
            (child.id, by_name[child.source_key])
            for child in children
            if child.status == "failed" and child.source_key in by_name
        ]
        retried = {item_id for item_id, _ in failed}
        await catalog.mark_still_listed(
            tx, [child.id for child in children if child.id not in retried], document.version
        )
        return await catalog.request_attachment_versions(tx, failed, document.version)

    async def _sync_children(
        self,
        tx: Tx,
        base: Base,
        document: Document,
        children: Sequence[AttachmentItem],
        released_blobs: list[bytes],
    ) -> list[Item]:
        """What the document holds now is filed, what it holds no more is deleted."""
        item, version = document.item, document.version
        accepted = await _attachments_to_file(tx, document)
        _warn_left_out(document, len(document.attachments) - len(accepted))
        if not await contents.lock_blobs_shared(tx, [one.blob for one in accepted.values()]):
            raise Transient("What it holds was stored too long ago, and is stored again.", code="upload_lost")
        known = {child.source_key: child for child in children}
        removed = [child.id for child in children if child.source_key not in accepted]
        if removed:
            await mark_for_deletion(tx, base, removed)
        known_children = [(known[key].id, one) for key, one in accepted.items() if key in known]
        released_blobs += [
            child.blob
            for key, child in known.items()
            if key in accepted and child.blob is not None and child.blob != accepted[key].blob
        ]
        wanted = await catalog.request_attachment_versions(tx, known_children, version)
        new_children = [
            _new_item(key, one, item.depth + 1) for key, one in accepted.items() if key not in known
        ]
        if new_children:
            inserted = await catalog.insert_items(tx, base.id, item.id, new_children, listed_version=version)
            await record_filed_events(tx, inserted)
            wanted += inserted
        if accepted:
            await events.record(tx, EmbeddedDocumentsExtracted(base.id, item.id, version, len(accepted)))
        return wanted


async def _attachments_to_file(tx: Tx, document: Document) -> dict[str, ContentAttachment]:
    """Those of the embedded documents that are filed, by their keys."""
    if document.item.depth >= MAX_DEPTH:
        return {}
    elsewhere = await catalog.count_other_attachments(tx, document.item.id)
    by_key = _by_unique_name(document.attachments)
    return dict(list(by_key.items())[: max(0, MAX_DOCUMENTS - elsewhere)])


def _by_unique_name(attachments: Sequence[ContentAttachment]) -> dict[str, ContentAttachment]:
    """Embedded documents by keys of their own: a second one of the same name has a number behind it."""
    repeats = Counter[str]()
    by_key: dict[str, ContentAttachment] = {}
    for attachment in attachments:
        key = attachment.name
        while key in by_key:
            repeats[attachment.name] += 1
            key = f"{attachment.name} ({repeats[attachment.name] + 1})"
        by_key[key] = attachment
    return by_key


def _new_item(key: str, attachment: ContentAttachment, depth: int) -> NewItem:
    name = PurePosixPath(key).name or key
    source = {
        "name": PurePosixPath(attachment.name).name or attachment.name,
        "within": attachment.name,
        "depth": depth,
    }
    return NewItem("file", name[:500], key, source=source, blob=attachment.blob, size_bytes=attachment.size)


def _warn_left_out(document: Document, left_out: int) -> None:
    if left_out > 0:
        document.warnings = [*document.warnings, f"embedded_left_out:{left_out}"]


def _priority(document: Document, wanted: Sequence[Item]) -> Priority:
    return Priority.INTERACTIVE if document.is_urgent and len(wanted) <= _MAX_INTERACTIVE else Priority.NORMAL
