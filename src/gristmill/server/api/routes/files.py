"""`/api/knowledge-bases/{id}/files`: uploads, streamed to the blob store and never held in memory as a whole."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Annotated
from uuid import UUID

from fastapi import File, Form, Response, UploadFile
from pydantic import Json

from gristmill.catalog import ItemId, NewItem, access
from gristmill.errors import Permanent
from gristmill.identity import OrgId
from gristmill.operations import add, guards
from gristmill.operations.source_factory import SourceFactory
from gristmill.operations.uploads import remove_unused, retry_lost_upload, store_upload
from gristmill.server.api.context import ApiContext, CurrentCaller, CurrentContext, PathBase
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes.estimates import estimate_add
from gristmill.server.api.schemas.common import Acl, StorableJson
from gristmill.server.api.schemas.items import AddedOut, EstimateOut
from gristmill.sources import Original
from gristmill.sources.source import MAX_IN_MEMORY
from gristmill.validation import is_printable

router = ApiRouter("/api", tag="items")

_PIECE_BYTES = 1 << 20


@router.post("/knowledge-bases/{base_id}/files", status_code=202, responses={200: {"model": EstimateOut}})
async def upload_files(
    base_id: PathBase,
    context: CurrentContext,
    caller: CurrentCaller,
    response: Response,
    files: Annotated[list[UploadFile], File(description="One or many files.")],
    parent_id: Annotated[UUID | None, Form(alias="parentId")] = None,
    on_conflict: Annotated[add.OnConflict, Form(alias="onConflict")] = "rename",
    acl: Annotated[
        Acl | None, Form(description="Access list of the files: one form field per entry.")
    ] = None,
    metadata: Annotated[
        Json[StorableJson] | None, Form(description="Metadata of the files, as a JSON object.")
    ] = None,
    dry_run: Annotated[bool, Form(alias="dryRun", description="Only estimate what they would cost.")] = False,
) -> AddedOut | EstimateOut:
    """Upload files. The response means that they are durably stored and accepted, not that they are searchable. With `dryRun`,
    nothing is stored, and the response says what would be embedded and what it costs."""
    if dry_run:
        response.status_code = 200
        uploads = [_entry_to_estimate(file, context.sources) for file in files]
        return await estimate_add(context, base_id, uploads)
    acl_entries = None if acl is None else access.parse_acl(acl)
    async with context.db.connection() as tx:
        await guards.require_base(tx, base_id)
    # Blobs of rejected and skipped files, and those that a replacement made unused.
    unused_blobs: list[bytes] = []

    async def store_and_add() -> add.AddResult:
        entries: list[add.ItemToAdd | add.InvalidEntry] = []
        for file in files:
            entry = await _store_upload(context, caller.org, file)
            if isinstance(entry, add.ItemToAdd):
                entry = replace(entry, item=replace(entry.item, acl=acl_entries, metadata=metadata or {}))
                unused_blobs.extend([] if entry.item.blob is None else [entry.item.blob])
            entries.append(entry)
        return await add.add(
            context.db,
            base_id,
            entries,
            context.queue_limits,
            parent_id=ItemId(parent_id) if parent_id else None,
            on_conflict=on_conflict,
        )

    try:
        added = await retry_lost_upload(store_and_add)
        unused_blobs += added.released
    finally:
        await remove_unused(context.db, context.sources.blobs, unused_blobs)
    return AddedOut.of(added)


def upload_name(file: UploadFile) -> str:
    """The name of an uploaded file, without folders and control characters."""
    return "".join(c for c in PurePath(file.filename or "").name if is_printable(c))[:255] or "file"


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


@dataclass(frozen=True)
class _UploadedFile:
    """A file of the current request: it is read for an estimate, and not stored."""

    file: UploadFile
    name: str
    scratch: Path

    async def probe(self) -> int:
        """The number of bytes."""
        return self.file.size or 0

    async def read(self) -> Original:
        """The bytes, or a temporary file with them when there are many."""
        await self.file.seek(0)
        if await self.probe() <= MAX_IN_MEMORY:
            return Original(await self.file.read(), self.name)
        handle, name = await asyncio.to_thread(tempfile.mkstemp, dir=self.scratch, prefix="gristmill-")
        path = Path(name)
        try:
            with os.fdopen(handle, "wb") as copy:
                async for piece in read_pieces(self.file):
                    await asyncio.to_thread(copy.write, piece)
        except BaseException:
            path.unlink(missing_ok=True)  # noqa: ASYNC240 - also when the request is cancelled
            raise
        return Original(b"", self.name, path=path, temporary=True)


def _entry_to_estimate(file: UploadFile, sources: SourceFactory) -> add.ItemToAdd | add.InvalidEntry:
    name, size = upload_name(file), file.size or 0
    if size > sources.limit:
        return add.InvalidEntry(
            name,
            Permanent(
                f"{name} has {size:,} bytes. Files of at most {sources.limit:,} bytes can be uploaded.",
                code="document_too_large",
            ),
        )
    item = NewItem("file", name, f"upload:{name}", source={"name": name})
    return add.ItemToAdd(item, _UploadedFile(file, name, sources.scratch))


async def read_pieces(file: UploadFile) -> AsyncIterator[bytes]:
    """The bytes of an uploaded file, piece by piece."""
    await file.seek(0)
    while piece := await file.read(_PIECE_BYTES):
        yield piece
