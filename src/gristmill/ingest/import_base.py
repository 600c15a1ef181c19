"""Create a base from an archive: the job `import_base`.

    check      the archive, in a child process; and that this installation has the embedder, or shall embed again
    hide       one transaction: a base that nothing shows, and the delayed job that removes it
    fill       originals, items, contents, versions, chunks: some rows in each transaction, which puts the removal off
    embed      only if asked for: chunks are made again from the stored contents; nothing is fetched or read
    reveal     one transaction: the base gets its name and is shown, its removal is cancelled, the job is complete

Killed anywhere before the last step, nothing shows the base, its removal becomes due, and the next attempt begins with another one. A
second worker that believes to have the job is stopped by the lease in every transaction.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg

from gristmill import catalog, contents, events, faults, files, jobs, portable
from gristmill.catalog import NewHiddenBase
from gristmill.catalog.access import parse_acl
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, Embedders, hold_embedder
from gristmill.errors import Conflict, Permanent, RequestError, Transient
from gristmill.events import BaseCreated
from gristmill.ingest.build_chunk_set import ChunkSetBuilder
from gristmill.ingest.import_rows import REMOVAL_DELAY, HiddenBase, RowImporter
from gristmill.ingest.import_values import clean_settings
from gristmill.ingest.offload import CpuOffload
from gristmill.ingest.open import recipe_of
from gristmill.ingest.reserve import Purse
from gristmill.jobs import Activity, Done, Job, NewJob, Outcome
from gristmill.operations.files import remove_file
from gristmill.operations.source_factory import SourceFactory
from gristmill.portable import ArchiveManifest, ArchiveReader, ImportBase, damage_error
from gristmill.work import DeleteBase

_ITEMS_AT_ONCE = 200


class BaseImporter:
    """Runs the jobs."""

    def __init__(
        self, db: Database, embedders: Embedders, sources: SourceFactory, offload: CpuOffload
    ) -> None:
        self._db, self._embedders, self._sources, self._offload = db, embedders, sources, offload
        self._builder = ChunkSetBuilder(db, offload, Purse(db, embedders))

    async def run(self, job: Job) -> Outcome:
        """Import the archive that the job names, and delete it. One that can't be imported is deleted too."""
        work = ImportBase.of(job)
        try:
            await self._run(job, work)
        except Permanent:
            await remove_file(self._db, self._sources.blobs, work.file_id, work.org_id)
            raise
        await remove_file(self._db, self._sources.blobs, work.file_id, work.org_id)
        return Done()

    async def _run(self, job: Job, work: ImportBase) -> None:
        try:
            async with self._open_archive(work) as path:
                with job.during(Activity.AWAY):
                    await portable.check_archive(path)
                with path.open("rb") as file:
                    await self._import(job, work, await asyncio.to_thread(ArchiveReader, file))
        except RequestError as error:
            raise Permanent(error.message, code=error.code) from error
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            raise Permanent(
                damage_error("it has values that don't fit").message, code="archive_damaged"
            ) from error

    async def _import(self, job: Job, work: ImportBase, reader: ArchiveReader) -> None:
        embedder = await self._choose_embedder(work, reader.manifest)
        hidden = await self._hide(job, work, reader.manifest, embedder)
        try:
            importer = RowImporter(self._db, self._sources.blobs, self._offload, hidden, reader)
            await importer.fill(with_chunks=not work.re_embed, access=work.access)
            if work.re_embed:
                await self._embed(hidden, embedder, importer)
            await self._reveal(hidden, work, reader.manifest, importer)
        except BaseException:
            with contextlib.suppress(Exception):  # else it is removed when its time comes
                async with self._db.transaction() as tx:
                    await jobs.run_now(tx, [hidden.base.id])
            raise

    @asynccontextmanager
    async def _open_archive(self, work: ImportBase) -> AsyncGenerator[Path]:
        """The archive as a file on this machine's disk."""
        async with self._db.connection() as tx:
            file = await files.find_file(tx, work.file_id)
            name = (
                await contents.blob_name(tx, file.blob)
                if file is not None and file.blob is not None
                else None
            )
        if name is None:
            raise Permanent(
                "The archive was deleted before it was imported. Upload it again.", code="no_such_file"
            )
        if (path := self._sources.blobs.local_path(name)) is not None:
            yield path
            return
        handle, copy = await asyncio.to_thread(
            tempfile.mkstemp, dir=self._sources.scratch, prefix="gristmill-"
        )
        try:
            with os.fdopen(handle, "wb") as target:
                async for piece in self._sources.blobs.read(name):
                    await asyncio.to_thread(target.write, piece)
            yield Path(copy)
        finally:
            await asyncio.to_thread(Path(copy).unlink, missing_ok=True)

    async def _choose_embedder(self, work: ImportBase, manifest: ArchiveManifest) -> Embedder:
        """The embedder that made the vectors of the archive, whatever its name here; or the one that makes other ones."""
        async with self._db.connection() as tx:
            if work.re_embed:
                if work.embedder is not None:
                    return await self._embedders.find(tx, work.embedder, work.org_id)
                return await self._embedders.find_default(tx, work.org_id)
            usable = await self._embedders.find_all(tx, work.org_id)
        same = [each for each in usable if each.identity == manifest.base.embedder_identity]
        named = [each for each in same if each.name == manifest.base.embedder]
        if not same or same[0].dimensions != manifest.base.dimensions:
            raise Permanent(
                f"The vectors of this archive were made by the embedder {manifest.base.embedder!r}, which this installation does "
                "not have. Configure the same embedder, or import with new vectors (--re-embed).",
                code="embedder_differs",
            )
        return (named or same)[0]

    async def _hide(
        self, job: Job, work: ImportBase, manifest: ArchiveManifest, embedder: Embedder
    ) -> HiddenBase:
        archived = manifest.base
        new = NewHiddenBase(
            org=work.org_id,
            name=work.name or archived.name,
            embedder=embedder.name,
            embedder_identity=embedder.identity,
            dimensions=embedder.dimensions,
            acl=[] if work.access == "admins" else parse_acl(archived.acl),
            **clean_settings(archived, embedder.max_tokens),
        )
        async with self._db.transaction() as tx:
            await jobs.fence(tx, job)
            await _check_name(tx, work, new.name)
            await hold_embedder(tx, embedder)
            base = await catalog.insert_hidden_base(tx, new)
            removal = NewJob(DeleteBase(base.id), lane=base.lane, delay=REMOVAL_DELAY)
            (enqueued,) = await jobs.enqueue(tx, removal)
        await faults.point("import.hidden")
        return HiddenBase(job, base, enqueued.id)

    async def _embed(self, hidden: HiddenBase, embedder: Embedder, importer: RowImporter) -> None:
        """Make the chunks of all documents from their contents."""
        base, ids = hidden.base, importer.documents()
        async with self._db.connection() as tx:
            (chunk_set,) = await catalog.find_chunk_sets(tx, base.id)
        for start in range(0, len(ids), _ITEMS_AT_ONCE):
            some = ids[start : start + _ITEMS_AT_ONCE]
            async with importer.transaction() as tx:
                await catalog.mark_missing_in(tx, base.chunk_set, some, [])
            while await self._builder.build_items(hidden.job, base, chunk_set, embedder, some, []):
                async with importer.transaction():
                    pass
            async with importer.transaction() as tx:
                await catalog.refresh_items(tx, base.chunk_set, some)
                await contents.set_recipe(tx, some, recipe_of(embedder, base.chunking))

    async def _reveal(
        self, hidden: HiddenBase, work: ImportBase, manifest: ArchiveManifest, importer: RowImporter
    ) -> None:
        name, job = work.name or manifest.base.name, hidden.job
        await faults.point("import.filled")
        try:
            async with self._db.transaction() as tx:
                await catalog.lock_base(tx, hidden.base.id)
                await jobs.fence(tx, job)
                if (await jobs.cancel(tx, [hidden.removal])).removed != 1:
                    raise Transient("The import took too long between two steps.", code="import_lost")
                await catalog.reveal_base(tx, hidden.base.id, name)
                result = {"baseId": str(hidden.base.id), "name": name, **importer.counts()}
                await jobs.save_result(tx, job, result)
                await jobs.complete(tx, job)
                await events.record(tx, BaseCreated(hidden.base.id, name, hidden.base.embedder), cause=job.id)
                await faults.point("import.before_reveal")
        except psycopg.errors.UniqueViolation:
            raise _name_taken(name) from None


async def _check_name(tx: Tx, work: ImportBase, name: str) -> None:
    if await catalog.find_base_by_name(tx, name, catalog.Viewer(None, work.org_id)) is not None:
        raise _name_taken(name)


def _name_taken(name: str) -> Conflict:
    return Conflict(
        f"A knowledge base named {name!r} already exists. Choose another name for the import.",
        code="base_name_taken",
    )
