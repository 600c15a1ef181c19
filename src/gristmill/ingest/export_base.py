"""Write an archive of a base: the job `export_base`.

    rows        all tables, in one snapshot, to a temporary file: the archive shows one moment
    originals   the bytes that these rows name, after the snapshot has ended. If one has just been deleted, everything begins again
    file        the archive becomes a file that expires after a day, in the transaction that completes the job

No lock is held, and nothing waits for a receiver: whoever downloads the file reads it from the blob store. Killed anywhere, nothing is
left: the temporary file has no name, and the next attempt begins again.
"""

import asyncio
import re
import tempfile
from collections.abc import AsyncGenerator
from typing import IO

from gristmill import __version__, catalog, contents, faults, files, jobs, portable
from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.errors import Permanent, SourceGone, Transient
from gristmill.jobs import Activity, Done, Job, Outcome
from gristmill.operations.source_factory import SourceFactory
from gristmill.operations.uploads import store_upload
from gristmill.portable import TABLES, ArchivedBase, ArchiveManifest, ArchiveWriter
from gristmill.work import ExportBase

PURPOSE = "base_export"
KEPT_SECONDS = 86_400
_PIECE = 1 << 20


class BaseExporter:
    """Runs the jobs."""

    def __init__(self, db: Database, sources: SourceFactory) -> None:
        self._db, self._sources = db, sources

    async def run(self, job: Job) -> Outcome:
        """Write the archive, and keep it as a file."""
        base_id = ExportBase.of(job).base_id
        with tempfile.TemporaryFile(dir=self._sources.scratch) as file:
            try:
                with job.during(Activity.AWAY):
                    base, manifest = await self._write(base_id, file)
            except SourceGone as error:
                raise Transient(
                    "A document was deleted while the base was exported. The export begins again.",
                    code="base_changed",
                ) from error
            await faults.point("export.written")
            await self._keep(job, base, manifest, file)
        return Done()

    async def _write(self, base_id: catalog.BaseId, file: IO[bytes]) -> tuple[Base, ArchiveManifest]:
        async with self._db.snapshot() as tx:
            base = await catalog.find_base(tx, base_id)
            if base is None:
                raise Permanent("The base was deleted.", code="base_not_found")
            (moment,) = await (await tx.execute("select now()")).fetchone() or (None,)
            assert moment is not None
            await tx.execute(
                "set local cursor_tuple_fraction = 1"
            )  # all rows are wanted, not the first ones soon
            writer = ArchiveWriter(file, base.dimensions)
            for table in TABLES:
                async for rows in portable.export_table(tx, base, table):
                    await asyncio.to_thread(writer.add_rows, table, rows)
            originals = await portable.original_names(tx, base)
        await faults.point("export.rows_written")
        for original in originals:
            pieces = self._sources.blobs.read(original.name)
            await writer.add_original(original.digest, original.size, pieces)
        return base, await asyncio.to_thread(writer.finish, settings_for_archive(base), moment, __version__)

    async def _keep(self, job: Job, base: Base, manifest: ArchiveManifest, file: IO[bytes]) -> None:
        """Make the archive a file of the base's organisation, which only admins see."""

        async def read() -> AsyncGenerator[bytes]:
            file.seek(0)
            while piece := await asyncio.to_thread(file.read, _PIECE):
                yield piece

        with job.during(Activity.AWAY):
            blob = await store_upload(self._db, self._sources.blobs, read, org=base.org_id)
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            if not await contents.lock_blobs_shared(tx, [blob.hash]):
                raise Transient("An equal archive was being deleted at the same moment.", code="upload_lost")
            stored = await files.insert_file(
                tx,
                base.org_id,
                name=archive_name(base.name),
                purpose=PURPOSE,
                blob=blob.hash,
                size=blob.size,
                acl=[],
                seconds=KEPT_SECONDS,
            )
            result = {
                "fileId": f"file-{stored.id.hex}",
                "name": stored.name,
                "bytes": blob.size,
                "items": manifest.rows["items"],
                "chunks": manifest.rows["chunks"],
                "originals": len(manifest.members)
                - sum(name.startswith("tables/") for name in manifest.members),
                "asOf": manifest.created_at.isoformat(),
            }
            await jobs.save_result(tx, job, result)
            await jobs.complete(tx, job)


def settings_for_archive(base: Base) -> ArchivedBase:
    """The settings of a base that an archive has. When sources are checked is left out: elsewhere there may be other ones."""
    return ArchivedBase(
        name=base.name,
        embedder=base.embedder,
        embedder_identity=base.embedder_identity,
        dimensions=base.dimensions,
        chunking=base.chunking,
        acl=base.acl,
        file_processor=base.file_processor,
        on_restart=base.on_restart,
        settings=base.settings,
        description=base.description,
        metadata=base.metadata,
        expire_days=base.expire_days,
    )


def archive_name(base_name: str) -> str:
    """A name for the archive of a base that every file system accepts."""
    stem = re.sub(r"[^\w.-]+", "-", base_name).strip("-.")[:80]
    return f"{stem or 'base'}.gristmill"
