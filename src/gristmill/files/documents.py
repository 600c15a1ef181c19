"""The documents of bases as files: their status, their numbers, and lists that can be read in both directions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from gristmill.catalog import Base, BaseId, Item, ItemId, Viewer
from gristmill.db import Tx
from gristmill.files.paging import Place
from gristmill.files.store import queries
from gristmill.files.stored_file import FileId
from gristmill.identity import OrgId

FileStatus = Literal["in_progress", "completed", "failed", "cancelled"]


@dataclass(frozen=True)
class StoreDocument(Item):
    """A document of a base with its status as a file."""

    file_status: FileStatus = "in_progress"


@dataclass(frozen=True)
class BatchCount:
    """How many files of a batch have this status."""

    status: FileStatus
    count: int


@dataclass(frozen=True)
class StoreCount:
    """How many documents, or containers, of a base have this status, and their bytes."""

    base_id: BaseId
    is_container: bool
    status: FileStatus
    count: int
    bytes: int


async def store_counts(tx: Tx, base_ids: Sequence[BaseId], viewer: Viewer) -> list[StoreCount]:
    """The documents and containers of bases that the viewer sees, counted by status."""
    if not base_ids:
        return []
    return await queries.many(
        tx, StoreCount, "store_counts", bases=list(base_ids), principals=viewer.principals
    )


async def page_bases(tx: Tx, org: OrgId, viewer: Viewer, place: Place) -> list[Base]:
    """Bases that the viewer sees; one more than a page has, if there are more."""
    return await queries.many(
        tx, Base, "page_bases", org=org, principals=viewer.principals, **place.parameters()
    )


async def page_documents(
    tx: Tx,
    base_id: BaseId,
    viewer: Viewer,
    place: Place,
    *,
    status: FileStatus | None = None,
    batch_id: UUID | None = None,
) -> list[StoreDocument]:
    """Documents of a base that the viewer sees; one more than a page has, if there are more."""
    return await queries.many(
        tx,
        StoreDocument,
        "page_documents",
        base=base_id,
        principals=viewer.principals,
        status=status,
        batch=batch_id,
        **place.parameters(),
    )


async def find_document(tx: Tx, base_id: BaseId, file_id: FileId, viewer: Viewer) -> StoreDocument | None:
    """The document of a base that was made from a file, or that has this id itself."""
    return await queries.maybe(
        tx, StoreDocument, "find_document", base=base_id, file=file_id, principals=viewer.principals
    )


@dataclass(frozen=True)
class _ItemFile:
    id: ItemId
    file_id: FileId


async def file_ids_of_items(tx: Tx, ids: Sequence[ItemId]) -> dict[ItemId, FileId]:
    """The files that items were made from, or that they are."""
    return {
        row.id: row.file_id for row in await queries.many(tx, _ItemFile, "file_ids_of_items", ids=list(ids))
    }
