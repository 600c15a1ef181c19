"""`/api/knowledge-bases/{id}/export` and `/api/knowledge-bases/import`: bases as archives."""

from typing import Annotated

from fastapi import File, Form, UploadFile

from gristmill.operations.portable_bases import start_export, start_import
from gristmill.portable import AccessLists
from gristmill.server.api.context import CurrentCaller, CurrentContext, PathBase
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes.files import read_pieces, upload_name
from gristmill.server.api.schemas.bases import MovingBase
from gristmill.server.api.schemas.common import Name

router = ApiRouter("/api/knowledge-bases", tag="knowledge bases")


@router.post("/{base_id}/export", status_code=202)
async def export_base(base_id: PathBase, context: CurrentContext) -> MovingBase:
    """Write an archive of a base. The job's result names the file to download, which expires after a day."""
    return MovingBase(job_id=await start_export(context.db, base_id))


@router.post("/import", status_code=202)
async def import_base(
    context: CurrentContext,
    caller: CurrentCaller,
    file: Annotated[UploadFile, File(description="The archive.")],
    name: Annotated[
        Name | None, Form(description="Name of the new base; by default that of the archive.")
    ] = None,
    re_embed: Annotated[
        bool, Form(alias="reEmbed", description="Make new vectors, with `embedder` or the default one.")
    ] = False,
    embedder: Annotated[str | None, Form(max_length=200, description="For new vectors.")] = None,
    access: Annotated[
        AccessLists,
        Form(description="`keep` the access lists of the archive, or `admins` only see everything."),
    ] = "keep",
) -> MovingBase:
    """Create a base from an archive. The base appears when everything is there; the job's result has its id."""
    job_id = await start_import(
        context.db,
        context.sources.blobs,
        lambda: read_pieces(file),
        upload_name(file),
        caller.org,
        name=name,
        re_embed=re_embed,
        embedder=embedder,
        access=access,
    )
    return MovingBase(job_id=job_id)
