"""Fills a base that is being imported with the rows of an archive, some in each transaction.

Ids are new and keep their order. Hashes of blobs and contents are those of the organisation, so that equal ones that it has are used. What
only makes sense on the installation that wrote the archive is left out: the permission to read paths of its disk, and when sources
are checked. A document that was not indexed there is failed here, until someone indexes it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

from gristmill import catalog, contents, faults, jobs
from gristmill.catalog import Base, ItemId
from gristmill.catalog.access import parse_acl
from gristmill.catalog.item import index_title
from gristmill.contents import ContentAsset, ContentAttachment, NewAsset, NewContentPart, NewVersion
from gristmill.db import Database, Tx
from gristmill.errors import Transient
from gristmill.identity import scoped_digest
from gristmill.ingest.import_values import (
    CONTAINERS,
    ItemState,
    derive_statuses,
    first_id,
    item_state,
    parse_hash,
    parse_uuid,
)
from gristmill.ingest.offload import CpuOffload
from gristmill.jobs import Job, JobId
from gristmill.operations.source_factory import ADDED_LOCALLY
from gristmill.operations.uploads import store_upload
from gristmill.portable import AccessLists, ArchiveReader, Row, damage_error
from gristmill.portable.archive import json_column
from gristmill.search import Chunk, chunk_marks, publish
from gristmill.search.publish import PreparedWrite, VersionChunks
from gristmill.sources.blobs import BlobStore

REMOVAL_DELAY = timedelta(minutes=30)
_ORIGINALS_AT_ONCE = 8
_CHUNKS = 2_000  # of one segment
_PARTS = 200


@dataclass(frozen=True)
class HiddenBase:
    """A base that is being imported, and the job that removes it if the import does not end."""

    job: Job
    base: Base
    removal: JobId


@dataclass(frozen=True)
class _Item:
    """What is remembered of an item: its id here and its status; for a document also its version and title for searches."""

    id: ItemId
    status: str
    version: int | None
    index_title: str = ""


class RowImporter:
    """Writes the rows of one archive into one base."""

    def __init__(
        self, db: Database, blobs: BlobStore, offload: CpuOffload, hidden: HiddenBase, reader: ArchiveReader
    ) -> None:
        self._db, self._blobs, self._offload = db, blobs, offload
        self._hidden, self._reader, self._org = hidden, reader, hidden.base.org_id
        self._items: dict[str, _Item] = {}
        self._chunks = 0

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Tx]:
        """A transaction for the holder of the job's lease, while the base is not being removed; it puts the removal off."""
        async with self._db.transaction() as tx:
            await jobs.fence(tx, self._hidden.job)
            if not await jobs.put_off(tx, self._hidden.removal, REMOVAL_DELAY):
                raise Transient("The import took too long between two steps.", code="import_lost")
            yield tx
            await faults.point("import.before_commit")

    async def fill(self, *, with_chunks: bool, access: AccessLists) -> None:
        """Write everything that the archive has."""
        await self._import_originals()
        await self._number_items()
        await self._each("items", lambda tx, rows: self._import_items(tx, rows, access))
        await self._each("contents", self._import_contents)
        await self._each("content_parts", self._import_parts, _PARTS)
        await self._each("attachments", self._import_attachments)
        await self._each("assets", self._import_assets)
        await self._each("contents", self._complete_contents)
        await self._each("versions", self._import_versions)
        await self._each("descriptions", self._import_descriptions)
        if with_chunks:
            await self._import_chunks()
        await self._each("chunk_marks", self._import_marks)
        await self._each("exclusions", self._import_exclusions)

    def documents(self) -> list[ItemId]:
        """The ids of the documents that have a content."""
        return [item.id for item in self._items.values() if item.version is not None]

    def counts(self) -> dict[str, int]:
        """What was imported."""
        manifest = self._reader.manifest
        return {
            "items": len(self._items),
            "documents": len(self.documents()),
            "chunks": self._chunks,
            "originals": len(self._reader.originals()),
            "formatVersion": manifest.version,
        }

    async def _each(self, table: str, write: Callable[[Tx, list[Row]], Any], batch_rows: int = 500) -> None:
        async for rows in self._batches(table, batch_rows):
            async with self.transaction() as tx:
                await write(tx, rows)

    async def _batches(self, table: str, batch_rows: int) -> AsyncGenerator[list[Row]]:
        batches = self._reader.rows(table, batch_rows)
        while (rows := await asyncio.to_thread(_next_batch, batches)) is not None:
            yield rows

    # ── originals and items ──────────────────────────────────────────────────────────────────────────────

    async def _import_originals(self) -> None:
        slots = asyncio.Semaphore(_ORIGINALS_AT_ONCE)

        async def store(digest: str) -> None:
            async with slots:
                await self._store_original(digest)

        digests = self._reader.originals()
        for start in range(0, len(digests), 200):
            try:
                async with asyncio.TaskGroup() as group:
                    for digest in digests[start : start + 200]:
                        group.create_task(store(digest))
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
            async with self.transaction():
                pass

    async def _store_original(self, digest: str) -> None:
        expected = self._blob(digest)
        async with self._db.connection() as tx:
            if expected is not None and await contents.touch_blob(tx, expected) is not None:
                return
        reader = self._reader

        async def read() -> AsyncGenerator[bytes]:
            pieces = reader.stream(f"originals/{digest}")
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                yield piece

        await store_upload(self._db, self._blobs, read, org=self._org)

    async def _number_items(self) -> None:
        """Choose the new ids, and the statuses: those of containers follow from their children."""
        states: dict[str, ItemState] = {}
        async for rows in self._batches("items", 2_000):
            for row in rows:
                if row["id"] in states or (row["parent"] is not None and row["parent"] not in states):
                    raise damage_error("it has an item twice, or before the folder that it is in")
                states[row["id"]] = item_state(row)
        statuses, first = derive_statuses(states), first_id()
        for number, old_id in enumerate(sorted(states)):
            new_id = ItemId(UUID(int=first + number))
            self._items[old_id] = _Item(new_id, statuses[old_id], states[old_id].version)

    async def _import_items(self, tx: Tx, rows: list[Row], access: AccessLists) -> None:
        await catalog.insert_imported_items(
            tx, self._hidden.base.id, [self._item_row(row, access) for row in rows]
        )

    def _item_row(self, row: Row, access: AccessLists) -> Row:
        item = self._items[row["id"]]
        source, document = json_column(row, "source", dict), json_column(row, "document", dict)
        source.pop(ADDED_LOCALLY, None)
        acl = None if row["acl"] is None else parse_acl(json_column(row, "acl", list))
        self._items[row["id"]] = _Item(
            item.id, item.status, item.version, index_title(row["title"], document) if item.version else ""
        )
        failed = item.status == "failed"
        code = "all_failed" if row["type"] in CONTAINERS else "not_indexed"
        message = row["error_message"] or "It was not indexed when the base was exported. Re-index it."
        content = row["attachments_content"]
        return {
            **{
                name: row[name]
                for name in ("type", "title", "source_key", "body", "size_bytes", "chunk_count")
            },
            **{name: json_column(row, name, dict) for name in ("left_out", "metadata", "chunking")},
            "id": str(item.id),
            "parent": None if row["parent"] is None else str(self._item(row["parent"]).id),
            "status": item.status,
            "error_code": (row["error_code"] or code) if failed else None,
            "error_message": message if failed else None,
            "warnings": json_column(row, "warnings", list),
            "source": source,
            "blob": None if row["original"] is None else self._digest(row["original"]).hex(),
            "version": item.version or row["wanted_version"],
            "live_version": item.version,
            "attachments_version": row["attachments_version"],
            "attachments_content": None if content is None else self._digest(content).hex(),
            "acl": acl if access == "keep" or acl is None else [],
            "document": document,
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
        }

    # ── contents ─────────────────────────────────────────────────────────────────────────────────────────

    async def _import_contents(self, tx: Tx, rows: list[Row]) -> None:
        await contents.ensure_contents(tx, [self._digest(row["hash"]) for row in rows])

    async def _import_parts(self, tx: Tx, rows: list[Row]) -> None:
        parts = [
            NewContentPart(
                self._digest(row["content"]), row["start"], row["text"], row["page"], row["boxes"] or b""
            )
            for row in rows
        ]
        await contents.insert_content_parts(tx, parts)

    async def _import_attachments(self, tx: Tx, rows: list[Row]) -> None:
        attachments = [
            (
                self._digest(row["content"]),
                ContentAttachment(row["number"], row["name"], self._digest(row["original"]), row["size"]),
            )
            for row in rows
        ]
        await contents.insert_attachments(tx, attachments)

    async def _import_assets(self, tx: Tx, rows: list[Row]) -> None:
        names = ("number", "kind", "media_type", "size", "page", "start", "end", "caption", "inline")
        assets = [
            (
                self._digest(row["content"]),
                ContentAsset(
                    hash=parse_hash(row["hash"]),
                    blob_hash=self._blob(row["original"]),
                    **{name: row[name] for name in names},
                ),
            )
            for row in rows
        ]
        await contents.insert_content_assets(tx, assets)

    async def _complete_contents(self, tx: Tx, rows: list[Row]) -> None:
        complete = {
            self._digest(row["hash"]): (row["characters"], json_column(row, "warnings", list)) for row in rows
        }
        documents = {self._digest(row["hash"]): json_column(row, "document", dict) for row in rows}
        await contents.mark_contents_complete(tx, complete, documents)

    async def _import_versions(self, tx: Tx, rows: list[Row]) -> None:
        versions = [
            NewVersion(
                self._item(row["item"]).id,
                row["version"],
                self._digest(row["content"]),
                row["recipe"],
                self._blob(row["original"]),
                json_column(row, "validators", dict),
            )
            for row in rows
        ]
        await contents.save_versions(tx, versions)

    async def _import_descriptions(self, tx: Tx, rows: list[Row]) -> None:
        assets = [
            (
                self._item(row["item"]).id,
                row["version"],
                NewAsset(parse_hash(row["hash"]), row["analyst"], row["text"]),
            )
            for row in rows
        ]
        await contents.insert_version_assets(tx, assets)

    # ── chunks ───────────────────────────────────────────────────────────────────────────────────────────

    async def _import_chunks(self) -> None:
        async for rows in self._batches("chunks", _CHUNKS):
            versions = [
                self._version_chunks(old_id, list(group))
                for old_id, group in groupby(rows, lambda row: row["item"])
            ]
            segment = await self._offload.build_segment(*publish.segment_input(versions))
            async with self.transaction() as tx:
                await publish.write(tx, self._hidden.base.chunk_set, PreparedWrite(versions, segment))
            self._chunks += len(rows)
            await faults.point("import.chunks_written")

    def _version_chunks(self, old_id: str, rows: Sequence[Row]) -> VersionChunks:
        item = self._item(old_id)
        if item.version is None:
            raise damage_error("it has chunks of an item without a version")
        chunks = [
            Chunk(
                row["index"],
                row["text"],
                row["start"],
                row["end"],
                tuple(map(str, json_column(row, "headings", list))),
                row["vector"],
                row["page"],
            )
            for row in rows
        ]
        return VersionChunks(item.id, item.index_title, item.version, chunks)

    async def _import_marks(self, tx: Tx, rows: list[Row]) -> None:
        marks = [(self._item(row["item"]).id, parse_uuid(row["text_hash"]), row["mark"]) for row in rows]
        await chunk_marks.insert_imported_marks(tx, marks)

    async def _import_exclusions(self, tx: Tx, rows: list[Row]) -> None:
        exclusions = [
            (self._item(row["root"]).id, row["type"], row["source_key"], row["title"]) for row in rows
        ]
        await catalog.insert_imported_exclusions(tx, self._hidden.base.id, exclusions)

    # ── ids and hashes ───────────────────────────────────────────────────────────────────────────────────

    def _item(self, old_id: str) -> _Item:
        item = self._items.get(old_id)
        if item is None:
            raise damage_error("it refers to an item that it does not have")
        return item

    def _digest(self, text: str | None) -> bytes:
        return scoped_digest(self._org, parse_hash(text))

    def _blob(self, text: str | None) -> bytes | None:
        return None if text is None else self._digest(text)


def _next_batch(batches: Iterator[list[Row]]) -> list[Row] | None:
    return next(batches, None)
