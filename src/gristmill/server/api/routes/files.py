"""`/api/knowledge-bases/{id}/files`: uploads, streamed to the blob store and never held in memory as a whole."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import PurePath
from typing import Annotated
from uuid import UUID

from fastapi import File, Form, UploadFile
from pydantic import Json

from gristmill.catalog import ItemId, NewItem, access
from gristmill.errors import Permanent
from gristmill.identity import OrgId
from gristmill.operations import add, guards
from gristmill.operations.uploads import remove_unused, store_upload
from gristmill.server.api.context import ApiContext, CurrentCaller, CurrentContext, PathBase
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import Acl, StorableJson
from gristmill.server.api.schemas.items import AddedOut

router = ApiRouter("/api", tag="items")

_PIECE_BYTES = 1 << 20


@router.post("/knowledge-bases/{base_id}/files", status_code=202)
async def upload_files(
    base_id: PathBase,
    context: CurrentContext,
    caller: CurrentCaller,
    files: Annotated[list[UploadFile], File(description="One or many files.")],
    parent_id: Annotated[UUID | None, Form(alias="parentId")] = None,
    on_conflict: Annotated[add.OnConflict, Form(alias="onConflict")] = "rename",
    acl: Annotated[
        Acl | None, Form(description="Access list of the files: one form field per entry.")
    ] = None,
    metadata: Annotated[
        Json[StorableJson] | None, Form(description="Metadata of the files, as a JSON object.")
    ] = None,
) -> AddedOut:
    """Upload files. The response means that they are durably stored and accepted, not that they are searchable."""
    acl_entries = None if acl is None else access.parse_acl(acl)
    async with context.db.connection() as tx:
        await guards.require_base(tx, base_id)
    entries: list[add.ItemToAdd | add.InvalidEntry] = []
    unused_blobs: list[bytes] = []
    try:
        for file in files:
            entry = await _store_upload(context, caller.org, file)
            if isinstance(entry, add.ItemToAdd):
                entry = replace(entry, item=replace(entry.item, acl=acl_entries, metadata=metadata or {}))
            entries.append(entry)
        added = await add.add(
            context.db,
            base_id,
            entries,
            context.queue_limits,
            parent_id=ItemId(parent_id) if parent_id else None,
            on_conflict=on_conflict,
        )
        unused_blobs += added.released
    finally:
        # Blobs of rejected and skipped files, and those that a replacement made unused.
        unused_blobs += [
            entry.item.blob
            for entry in entries
            if isinstance(entry, add.ItemToAdd) and entry.item.blob is not None
        ]
        await remove_unused(context.db, context.sources.blobs, unused_blobs)
    return AddedOut.of(added)


def upload_name(file: UploadFile) -> str:
    """The name of an uploaded file, without folders and control characters."""
    return "".join(c for c in PurePath(file.filename or "").name if c.isprintable())[:255] or "file"


async def _store_upload(
    context: ApiContext, org: OrgId, file: UploadFile
) -> add.ItemToAdd | add.InvalidEntry:
    """Store the bytes of a file. A file that is too large is not stored, and rejected without failing the others."""
    name = upload_name(file)
    item = NewItem("file", name, f"upload:{name}", source={"name": name})
    try:
        blob = await store_upload(
            context.db, context.sources.blobs, lambda: read_pieces(file), context.sources.limit, org
        )
    except Permanent as error:
        return add.InvalidEntry(name, error)
    return add.ItemToAdd(replace(item, blob=blob.hash, size_bytes=blob.size), None)


async def read_pieces(file: UploadFile) -> AsyncIterator[bytes]:
    """The bytes of an uploaded file, piece by piece."""
    await file.seek(0)
    while piece := await file.read(_PIECE_BYTES):
        yield piece
