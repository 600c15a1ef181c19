"""Files: put them into bases as items, remove them from every base, and cancel batches of them.

    attach          resolve the files → add their items (`add.py`); a file that is in the base already gets a new version with
                    the new metadata and chunking; the batch, if there is one, is recorded in the same transaction
    remove_file     delete its items, one transaction a base → delete the file → remove its blob if nothing uses it
    cancel_batch    mark the batch → abandon its unfinished items, some in each transaction

Killed in the middle of a removal: the file is still there, in fewer bases, and the request can be repeated. Killed in the
middle of a cancellation: the batch is cancelled, and the items that were not reached are indexed.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby
from typing import Any

from gristmill import catalog, faults, files
from gristmill.catalog import BaseId, Item, NewItem, Viewer
from gristmill.catalog.deletion_report import DeletionReason
from gristmill.db import Database, Tx
from gristmill.errors import Invalid, NotFound
from gristmill.files import BatchId, FileBatch, FileId, StoredFile
from gristmill.identity import OrgId
from gristmill.jobs import QueueLimits
from gristmill.operations import add, bases, guards
from gristmill.operations.cancel import abandon_items
from gristmill.operations.delete import delete
from gristmill.operations.uploads import remove_unused
from gristmill.sources.blobs import BlobStore

_CANCEL_BATCH = 100  # items in one transaction, so that other changes of the base get in between
_EXPIRED_BATCH = 100
_EXPIRY_GRACE = timedelta(days=1)  # an expired base can be given a new expiry so long


@dataclass(frozen=True)
class FileToAttach:
    """A file to put into a base, with the metadata of the item and what differs from the base's chunking."""

    file_id: FileId
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    chunking: dict[str, Any] = field(default_factory=dict[str, Any])


async def attach(
    db: Database,
    base_id: BaseId,
    requests: Sequence[FileToAttach],
    viewer: Viewer,
    limits: QueueLimits,
    *,
    on_filed: Callable[[Tx, Sequence[Item]], Awaitable[None]] | None = None,
) -> list[Item]:
    """Put files that the viewer sees into a base, each as an item."""
    async with db.connection() as tx:
        visible = await files.find_files(tx, [request.file_id for request in requests], viewer)
    entries = [
        add.ItemToAdd(_item_of(_require_file(visible, request), request), None) for request in requests
    ]
    added = await add.add(db, base_id, entries, limits, on_conflict="replace", on_filed=on_filed)
    return added.created


async def attach_batch(
    db: Database,
    base_id: BaseId,
    requests: Sequence[FileToAttach],
    viewer: Viewer,
    limits: QueueLimits,
) -> FileBatch:
    """Put files into a base by one request that can be followed and cancelled as a whole."""
    batches: list[FileBatch] = []

    async def record_batch(tx: Tx, items: Sequence[Item]) -> None:
        documents = {FileId(item.file_id or item.id): item.id for item in items}
        batches.append(await files.insert_batch(tx, base_id, documents))
        await faults.point("files.batch_recorded")

    await attach(db, base_id, requests, viewer, limits, on_filed=record_batch)
    return batches[-1]


def _require_file(visible: dict[FileId, StoredFile], request: FileToAttach) -> StoredFile:
    file = visible.get(request.file_id)
    if file is None:
        raise no_such_file(request.file_id)
    if file.blob is None:
        raise Invalid(
            f"{file.name!r} is not an uploaded file, so it can't be put into another base. Add it there from its source.",
            code="file_not_stored",
        )
    return file


def no_such_file(file_id: FileId) -> NotFound:
    """The error for a file that does not exist, has expired or is hidden from the viewer."""
    return NotFound(f"There is no file file-{file_id.hex}.", code="no_such_file")


def _item_of(file: StoredFile, request: FileToAttach) -> NewItem:
    return NewItem(
        "file",
        file.name,
        f"file:{file.id.hex}",
        source={"name": file.name},
        blob=file.blob,
        size_bytes=file.size,
        metadata=request.metadata,
        chunking=request.chunking,
        file_id=file.id,
    )


async def remove_file(
    db: Database,
    blobs: BlobStore,
    file_id: FileId,
    org: OrgId | None = None,
    *,
    actor: str | None = None,
    reason: DeletionReason = "person",
) -> None:
    """Delete a file, and its items in every base. If a legal hold covers one of them, nothing is deleted."""
    async with db.connection() as tx:
        items = await files.items_of_file(tx, file_id, org)
        for item in items:
            await guards.refuse_held_items(tx, await guards.require_base(tx, item.base_id), [item.item_id])
    for base_id, group in groupby(items, key=lambda item: item.base_id):
        await delete(db, base_id, [item.item_id for item in group], actor=actor, reason=reason)
        await faults.point("files.removed_from_base")
    async with db.transaction() as tx:
        blob = await files.delete_file(tx, file_id)
    if blob is not None:
        await remove_unused(db, blobs, [blob])


async def cancel_batch(db: Database, base_id: BaseId, batch_id: BatchId) -> FileBatch:
    """Cancel what is not finished of a batch."""
    async with db.transaction() as tx:
        batch = await files.mark_batch_cancelled(tx, batch_id)
        active = await files.active_batch_items(tx, batch_id)
    for start in range(0, len(active), _CANCEL_BATCH):
        async with db.transaction() as tx:
            await catalog.lock_base(tx, base_id)
            await abandon_items(tx, base_id, active[start : start + _CANCEL_BATCH])
    return batch


async def remove_expired(db: Database, blobs: BlobStore) -> int:
    """Delete files that have expired, and bases that expired a day ago; how many."""
    removed = 0
    while True:
        async with db.connection() as tx:
            expired_files = await files.find_expired_files(tx, _EXPIRED_BATCH)
            expired_bases = await catalog.find_expired_bases(tx, _EXPIRY_GRACE, _EXPIRED_BATCH)
        for file_id in expired_files:
            await remove_file(db, blobs, file_id, reason="expiry")
        for base_id in expired_bases:
            await _delete_base(db, base_id)
        removed += len(expired_files) + len(expired_bases)
        if not expired_files and not expired_bases:
            return removed


async def _delete_base(db: Database, base_id: BaseId) -> None:
    try:
        await bases.delete(db, base_id, reason="expiry")
    except NotFound:
        return  # someone deleted it at the same moment
