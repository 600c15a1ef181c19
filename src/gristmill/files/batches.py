"""Batches: files that were put into a base by one request. Whether a batch is done follows from its items."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NewType
from uuid import UUID

from gristmill.catalog import BaseId, ItemId
from gristmill.db import Tx
from gristmill.files.documents import BatchCount, FileStatus
from gristmill.files.store import queries
from gristmill.files.stored_file import FileId

BatchId = NewType("BatchId", UUID)


@dataclass(frozen=True)
class FileBatch:
    """A row of `file_batch`."""

    id: BatchId
    base_id: BaseId
    cancelled_at: datetime | None
    created_at: datetime


async def insert_batch(tx: Tx, base_id: BaseId, items: Mapping[FileId, ItemId]) -> FileBatch:
    """Create a batch of these files and the items that were made from them."""
    batch = await queries.one(tx, FileBatch, "insert_batch", base=base_id)
    await queries.run(tx, "insert_batch_items", batch=batch.id, files=list(items), items=list(items.values()))
    return batch


async def find_batch(tx: Tx, base_id: BaseId, batch_id: BatchId) -> FileBatch | None:
    """A batch of this base."""
    return await queries.maybe(tx, FileBatch, "find_batch", id=batch_id, base=base_id)


async def mark_batch_cancelled(tx: Tx, batch_id: BatchId) -> FileBatch:
    """Note that a batch was cancelled."""
    return await queries.one(tx, FileBatch, "mark_batch_cancelled", id=batch_id)


async def active_batch_items(tx: Tx, batch_id: BatchId) -> list[ItemId]:
    """Items of a batch that are still being processed."""
    return await queries.values(tx, "active_batch_items", batch=batch_id)


async def batch_counts(tx: Tx, batch_id: BatchId) -> dict[FileStatus, int]:
    """How many files of a batch have which status. A file that was deleted since counts as cancelled."""
    rows = await queries.many(tx, BatchCount, "batch_counts", batch=batch_id)
    return {row.status: row.count for row in rows}
