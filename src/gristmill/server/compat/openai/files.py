"""`/v1/files`: upload files, list, read and delete them."""

from typing import Annotated, Any, Literal

from fastapi import File, Form, Query, UploadFile
from fastapi.responses import StreamingResponse

from gristmill import contents, files
from gristmill.catalog import ItemId
from gristmill.errors import Invalid, Transient
from gristmill.files import FileId, StoredFile
from gristmill.operations.files import no_such_file, remove_file
from gristmill.operations.uploads import remove_unused, retry_lost_upload, store_upload
from gristmill.server.api import store_ids
from gristmill.server.api.context import CurrentCaller, CurrentContext, CurrentViewer
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes.bases import default_acl
from gristmill.server.api.routes.content import get_original
from gristmill.server.api.routes.files import read_pieces, upload_name
from gristmill.server.api.schemas.common import require_storable
from gristmill.server.compat.openai import objects
from gristmill.server.compat.openai.parameters import Cursor, Order, PathFile, place_of

router = ApiRouter("/v1/files", tag="OpenAI files")

_MIN_SECONDS, _MAX_SECONDS = 3600, 2_592_000


@router.post("", include_in_schema=False)
async def create_file(
    context: CurrentContext,
    caller: CurrentCaller,
    file: Annotated[UploadFile, File()],
    purpose: Annotated[str, Form(min_length=1, max_length=64)],
    anchor: Annotated[Literal["created_at"] | None, Form(alias="expires_after[anchor]")] = None,
    seconds: Annotated[
        int | None, Form(alias="expires_after[seconds]", ge=_MIN_SECONDS, le=_MAX_SECONDS)
    ] = None,
) -> dict[str, Any]:
    """Upload a file. It is in no store until it is put into one."""
    if (anchor is None) is not (seconds is None):
        raise Invalid("expires_after needs both anchor and seconds.")
    try:
        require_storable(purpose, "purpose")
    except ValueError as error:
        raise Invalid(f"purpose {error}.") from None

    async def store_and_insert() -> StoredFile:
        blob = await store_upload(
            context.db, context.sources.blobs, lambda: read_pieces(file), context.sources.limit, caller.org
        )
        try:
            async with context.db.transaction() as tx:
                if not await contents.lock_blobs_shared(tx, [blob.hash]):
                    raise Transient(
                        "An equal file was being deleted at the same moment. Upload the file again.",
                        code="upload_lost",
                    )
                stored = await files.insert_file(
                    tx,
                    caller.org,
                    name=upload_name(file),
                    purpose=purpose,
                    blob=blob.hash,
                    size=blob.size,
                    acl=default_acl(caller),
                    seconds=seconds,
                )
        except BaseException:
            await remove_unused(context.db, context.sources.blobs, [blob.hash])
            raise
        return stored

    return objects.file_object(await retry_lost_upload(store_and_insert))


@router.get("", include_in_schema=False)
async def list_files(
    context: CurrentContext,
    caller: CurrentCaller,
    viewer: CurrentViewer,
    purpose: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    order: Order = "desc",
    after: Cursor = None,
) -> dict[str, Any]:
    """List uploaded files. Documents that were added to a base by other means are listed with their store."""
    place = place_of(limit, order, after, None, store_ids.parse_file_id)
    async with context.db.connection() as tx:
        rows = await files.list_files(tx, caller.org, viewer, place, purpose)
    shown, has_more = place.page(rows)
    return objects.page(shown, objects.file_object, has_more=has_more)


@router.get("/{file_id}", include_in_schema=False)
async def get_file(file_id: PathFile, context: CurrentContext, viewer: CurrentViewer) -> dict[str, Any]:
    """Get a file: an uploaded one, or a document of a store."""
    async with context.db.connection() as tx:
        file = await files.find_file(tx, file_id, viewer)
    if file is None:
        raise no_such_file(file_id)
    return objects.file_object(file)


@router.get("/{file_id}/content", include_in_schema=False)
async def get_file_content(
    file_id: PathFile, context: CurrentContext, viewer: CurrentViewer
) -> StreamingResponse:
    """Download the bytes of a file."""
    async with context.db.connection() as tx:
        file = await files.find_file(tx, file_id, viewer)
        name = await contents.blob_name(tx, file.blob) if file is not None and file.blob is not None else None
    if file is None:
        raise no_such_file(file_id)
    if name is None:
        return await get_original(_require_item_id(file), context, viewer)
    blobs = context.sources.blobs
    headers = {"Content-Length": str(await blobs.size(name))}
    return StreamingResponse(blobs.read(name), media_type="application/octet-stream", headers=headers)


def _require_item_id(file: StoredFile) -> ItemId:
    if file.item_id is None:
        raise no_such_file(file.id)
    return file.item_id


@router.delete("/{file_id}", include_in_schema=False)
async def delete_file(file_id: PathFile, context: CurrentContext, caller: CurrentCaller) -> dict[str, Any]:
    """Delete a file, in every store that it is in."""
    await remove_file(context.db, context.sources.blobs, FileId(file_id), caller.org, actor=caller.actor)
    return objects.deletion(store_ids.file_id(file_id), "file")
