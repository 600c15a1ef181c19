"""Files: a name and an id for a blob, and the items that are made from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NewType
from uuid import UUID

from gristmill.catalog import ADMIN, BaseId, ItemId, Viewer
from gristmill.db import Tx
from gristmill.files.paging import Place
from gristmill.files.store import queries
from gristmill.identity import OrgId

FileId = NewType("FileId", UUID)


@dataclass(frozen=True)
class StoredFile:
    """A file; `item_id` is set for a document that was added to a base by other means, `blob` for bytes that are stored."""

    id: FileId
    name: str
    purpose: str
    blob: bytes | None
    size: int
    created_at: datetime
    expires_at: datetime | None
    item_id: ItemId | None = None


@dataclass(frozen=True)
class FileItem:
    """An item that is made from a file, and its base."""

    base_id: BaseId
    item_id: ItemId


async def insert_file(
    tx: Tx,
    org: OrgId,
    *,
    name: str,
    purpose: str,
    blob: bytes,
    size: int,
    acl: Sequence[str],
    seconds: int | None,
) -> StoredFile:
    """Give a blob a name and an id, for so many seconds, or without a limit."""
    return await queries.one(
        tx,
        StoredFile,
        "insert_file",
        org=org,
        name=name,
        purpose=purpose,
        blob=blob,
        size=size,
        acl=list(acl),
        seconds=seconds,
    )


async def find_file(tx: Tx, file_id: FileId, viewer: Viewer = ADMIN) -> StoredFile | None:
    """A file that the viewer sees: an uploaded one, or a document of a base."""
    parameters = {"id": file_id, "org": viewer.org, "principals": viewer.principals}
    stored = await queries.maybe(tx, StoredFile, "find_file", **parameters)
    return stored or await queries.maybe(tx, StoredFile, "find_item_file", **parameters)


async def find_files(tx: Tx, file_ids: Sequence[FileId], viewer: Viewer) -> dict[FileId, StoredFile]:
    """Those of the files that the viewer sees, by id."""
    rows = await queries.many(
        tx, StoredFile, "find_files", ids=list(file_ids), org=viewer.org, principals=viewer.principals
    )
    visible = {row.id: row for row in rows}
    for file_id in dict.fromkeys(file_ids):
        if file_id not in visible and (other := await find_file(tx, file_id, viewer)) is not None:
            visible[file_id] = other
    return visible


async def list_files(
    tx: Tx, org: OrgId, viewer: Viewer, place: Place, purpose: str | None
) -> list[StoredFile]:
    """Uploaded files that the viewer sees; one more than a page has, if there are more."""
    return await queries.many(
        tx,
        StoredFile,
        "list_files",
        org=org,
        principals=viewer.principals,
        purpose=purpose,
        **place.parameters(),
    )


async def delete_file(tx: Tx, file_id: FileId) -> bytes | None:
    """Delete a file; its blob, None when there was no such file."""
    blobs = await queries.values(tx, "delete_file", id=file_id)
    return blobs[0] if blobs else None


async def find_expired_files(tx: Tx, limit: int) -> list[FileId]:
    """Files that have expired."""
    return await queries.values(tx, "find_expired_files", limit=limit)


async def items_of_file(tx: Tx, file_id: FileId, org: OrgId | None = None) -> list[FileItem]:
    """The items that are made from a file, in any base of the organisation."""
    return await queries.many(tx, FileItem, "items_of_file", id=file_id, org=org)
