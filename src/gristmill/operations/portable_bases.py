"""Export a base to an archive, and create one from an archive: each is a job.

    start_export   one transaction: the base exists → the job; a second request gets the job that is under way
    start_import   the archive is stored as a file that expires → one transaction: the file and the job

Killed in between, bytes without a file are left, which are removed as those of other uploads.
"""

from collections.abc import AsyncIterable, Callable

from gristmill import contents, files, jobs
from gristmill.catalog import BaseId
from gristmill.db import Database
from gristmill.errors import Transient
from gristmill.identity import OrgId
from gristmill.jobs import JobId, NewJob
from gristmill.operations import guards
from gristmill.operations.uploads import remove_unused, retry_lost_upload, store_upload
from gristmill.portable import AccessLists
from gristmill.sources.blobs import BlobStore
from gristmill.work import ExportBase, ImportBase

IMPORT_PURPOSE = "base_import"
_KEPT_SECONDS = 7 * 86_400  # an archive that is never imported, because no worker runs


async def start_export(db: Database, base_id: BaseId) -> JobId:
    """Begin to write an archive of a base; the job that does it."""
    async with db.transaction() as tx:
        base = await guards.require_base(tx, base_id)
        (job,) = await jobs.enqueue(tx, NewJob(ExportBase(base.id), lane=base.lane))
    return job.id


async def start_import(
    db: Database,
    blobs: BlobStore,
    read: Callable[[], AsyncIterable[bytes]],
    file_name: str,
    org: OrgId,
    *,
    name: str | None,
    re_embed: bool,
    embedder: str | None,
    access: AccessLists,
) -> JobId:
    """Store an archive, and begin to import it; the job that does it."""

    async def store_and_queue() -> JobId:
        blob = await store_upload(db, blobs, read, org=org)
        try:
            async with db.transaction() as tx:
                if not await contents.lock_blobs_shared(tx, [blob.hash]):
                    raise Transient(
                        "An equal file was being deleted at the same moment. Upload the archive again.",
                        code="upload_lost",
                    )
                stored = await files.insert_file(
                    tx,
                    org,
                    name=file_name,
                    purpose=IMPORT_PURPOSE,
                    blob=blob.hash,
                    size=blob.size,
                    acl=[],
                    seconds=_KEPT_SECONDS,
                )
                work = ImportBase(org, stored.id, name, re_embed, embedder, access)
                lane = ImportBase.lane(org)
                await jobs.set_lane_owner(tx, lane, org)
                (job,) = await jobs.enqueue(tx, NewJob(work, lane=lane))
        except BaseException:
            await remove_unused(db, blobs, [blob.hash])
            raise
        return job.id

    return await retry_lost_upload(store_and_queue)
