"""Attachments: documents inside a document become its children. Mail attachments, embedded objects, archive entries.

    found       the reader writes each attachment to a file; the bytes go to the blob store, the name and hash to the content
    filed       when the document has been read, before it is published: one fenced transaction under the base's lock

    in the document's new content, the attachment …   its item
    is new                                            is inserted, with its job
    was there before                                  gets a new version with the new bytes; equal bytes are not embedded
                                                      again
    is missing                                        is deleted
    (the content is the one that was filed)           stays as it is; a failed one gets a new version, a deleted one
                                                      stays deleted

Attachments are filed up to a nesting of `MAX_DEPTH` and `MAX_DOCUMENTS` below the outermost document. The others are counted
in the warning `embedded_left_out`. Killed before the commit: nothing was filed. Killed after: the next attempt sees that it
is done.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gristmill import catalog, contents, events, faults, jobs
from gristmill.catalog import AttachmentItem, Base, Item, NewItem
from gristmill.contents import ContentAttachment
from gristmill.db import Database, Tx
from gristmill.errors import Transient
from gristmill.events import EmbeddedDocumentsExtracted
from gristmill.ingest.task import IndexTask
from gristmill.jobs import Outcome, Priority, QueueLimits
from gristmill.operations.delete import mark_for_deletion
from gristmill.operations.next_job import enqueue_next_jobs, has_room, pause_until_room, record_filed_events
from gristmill.operations.quotas import fail_beyond_quota

MAX_DEPTH = 3
MAX_DOCUMENTS = 10_000
_MAX_INTERACTIVE = 10  # if a user waits for the document, up to so many attachments are urgent too


@dataclass(frozen=True)
class FiledAttachments:
    """The result of filing: how many attachments were left out, or when to try again."""

    left_out: int = 0
    postponed: Outcome | None = None


class AttachmentFiler:
    """Creates items for the attachments of documents."""

    def __init__(self, db: Database, limits: QueueLimits | None = None) -> None:
        self._db, self._limits = db, limits

    async def file(
        self, task: IndexTask, digest: bytes, attachments: Sequence[ContentAttachment]
    ) -> FiledAttachments:
        """Bring the children of the document in line with the attachments of its content `digest`."""
        item, version = task.item, task.version
        if not attachments and not item.holds:
            return FiledAttachments()
        async with self._db.transaction() as tx:
            base = await catalog.lock_base(tx, task.base.id)
            await jobs.fence(tx, task.job)
            if base is None or not await catalog.is_wanted(tx, item.id, version):
                return FiledAttachments()
            children = await catalog.attachment_items(tx, item.id)
            if await catalog.has_filed_attachments(tx, item.id, version, digest):
                return FiledAttachments(max(0, len(attachments) - len(children)))
            if not await has_room(tx, base, self._limits):
                return FiledAttachments(postponed=pause_until_room("The attachments are added"))
            if item.attachments_content == digest:
                left_out, released = 0, list[bytes]()
                wanted = await self._retry_failed(tx, task, attachments, children)
            else:
                accepted = await _attachments_to_file(tx, task, attachments)
                left_out, released = len(attachments) - len(accepted), _blobs_to_release(children, accepted)
                wanted = await self._sync_children(tx, base, task, accepted, children)
            await enqueue_next_jobs(tx, base, wanted, _priority(task, wanted))
            await catalog.mark_attachments_filed(tx, item.id, version, digest)
            await contents.remove_unused_blobs(tx, released)
            await faults.point("embedded.before_commit")
        await faults.point("embedded.filed")
        return FiledAttachments(left_out)

    async def _retry_failed(
        self,
        tx: Tx,
        task: IndexTask,
        attachments: Sequence[ContentAttachment],
        children: Sequence[AttachmentItem],
    ) -> list[Item]:
        """The content has not changed: request new versions only of the children that failed."""
        by_key = _by_unique_name(attachments)
        failed = [
            (child.id, by_key[child.source_key])
            for child in children
            if child.status == "failed" and child.source_key in by_key
        ]
        retried = {item_id for item_id, _ in failed}
        await catalog.mark_still_listed(
            tx, [child.id for child in children if child.id not in retried], task.version
        )
        return await catalog.request_attachment_versions(tx, failed, task.version)

    async def _sync_children(
        self,
        tx: Tx,
        base: Base,
        task: IndexTask,
        accepted: Mapping[str, ContentAttachment],
        children: Sequence[AttachmentItem],
    ) -> list[Item]:
        """Insert children for new attachments, request new versions of known ones, and delete the others."""
        item, version = task.item, task.version
        if not await contents.lock_blobs_shared(tx, [attachment.blob for attachment in accepted.values()]):
            raise Transient("The attachments expired before they were filed.", code="upload_lost")
        known = {child.source_key: child.id for child in children}
        removed = [child.id for child in children if child.source_key not in accepted]
        if removed:
            await mark_for_deletion(tx, base, removed)
        wanted = await catalog.request_attachment_versions(
            tx, [(known[key], attachment) for key, attachment in accepted.items() if key in known], version
        )
        new_items = [
            _new_item(key, attachment, item.depth + 1)
            for key, attachment in accepted.items()
            if key not in known
        ]
        if new_items:
            new_items = await fail_beyond_quota(tx, base.id, new_items)
            inserted = await catalog.insert_items(tx, base.id, item.id, new_items, listed_version=version)
            await record_filed_events(tx, inserted)
            wanted += inserted
        if accepted:
            await events.record(tx, EmbeddedDocumentsExtracted(base.id, item.id, version, len(accepted)))
        return wanted


async def _attachments_to_file(
    tx: Tx, task: IndexTask, attachments: Sequence[ContentAttachment]
) -> dict[str, ContentAttachment]:
    """The attachments within the limits, by their keys."""
    if task.item.depth >= MAX_DEPTH:
        return {}
    elsewhere = await catalog.count_other_attachments(tx, task.item.id)
    by_key = _by_unique_name(attachments)
    return dict(list(by_key.items())[: max(0, MAX_DOCUMENTS - elsewhere)])


def _blobs_to_release(
    children: Sequence[AttachmentItem], accepted: Mapping[str, ContentAttachment]
) -> list[bytes]:
    """The blobs of children that get other bytes now."""
    return [
        child.blob
        for child in children
        if child.source_key in accepted
        and child.blob is not None
        and child.blob != accepted[child.source_key].blob
    ]


def _by_unique_name(attachments: Sequence[ContentAttachment]) -> dict[str, ContentAttachment]:
    """The attachments by unique keys: a second one with the same name gets a number."""
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


def _priority(task: IndexTask, wanted: Sequence[Item]) -> Priority:
    return Priority.INTERACTIVE if task.is_urgent and len(wanted) <= _MAX_INTERACTIVE else Priority.NORMAL
