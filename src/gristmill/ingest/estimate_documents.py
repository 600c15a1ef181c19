"""The documents of an estimate: folders and sitemaps are listed, and each document knows how it is read. Nothing is stored."""

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from pathlib import Path, PurePath
from typing import Any

from gristmill import contents
from gristmill.catalog import Base, ItemId
from gristmill.db import Database
from gristmill.errors import GristmillError, NoText
from gristmill.ingest.estimate_sums import DocumentTexts, EstimatedDocument, EstimateSums
from gristmill.ingest.inspect_original import inspect_original
from gristmill.ingest.read import LIMITS, READER
from gristmill.operations.add import ItemToAdd
from gristmill.operations.source_factory import SourceFactory, disk_access
from gristmill.readers import Asset, AttachedFile, ReadReport, TextPart
from gristmill.readers.pool import ReaderPool
from gristmill.readers.supervisor import read_file
from gristmill.sources import Original
from gristmill.sources.directory import DirectoryEntry, IgnoreRules, list_folder
from gristmill.sources.file import FileSource
from gristmill.sources.site_rules import origin_of
from gristmill.sources.sitemap import SitemapRules, list_sitemap
from gristmill.usage import StoredDocument

_MAX_LISTED = 100_000
_MAX_DEPTH = 3  # of attachments
_MAX_IMAGES = 500  # of a document, as in indexing
_PAGE_BYTES = 30_000  # of a page whose size is not known

Read = Callable[[], Coroutine[None, None, DocumentTexts]]


class DocumentFinder:
    """Finds the documents of what is to be added, and reads them with the readers of this process."""

    def __init__(self, db: Database, sources: SourceFactory, readers: ReaderPool) -> None:
        self._db, self._sources, self._readers = db, sources, readers

    async def find_documents(
        self, base: Base, entry: ItemToAdd, state: EstimateSums
    ) -> list[EstimatedDocument]:
        """The documents that an item to add has or lists."""
        item = entry.item
        chunking = {**base.chunking, **item.chunking}
        match item.type:
            case "directory" if "path" in item.source:
                rules = IgnoreRules((*base.ignore, *item.source.get("ignore", [])), base.include_hidden)
                return await self._folder_documents(Path(item.key), rules, item.source, chunking, state)
            case "sitemap":
                return await self._sitemap_documents(item.source["url"], chunking, state)
            case "site":
                state.notes.append(
                    "Only a crawl finds the pages of a site. The estimate counts those that its sitemap lists."
                )
                return await self._sitemap_documents(origin_of(item.source["url"]) + "/", chunking, state)
            case "url":
                source = self._sources.url_source(item.source["url"])
                return [EstimatedDocument("page", _PAGE_BYTES, self._source_reader(source), chunking)]
            case _ if entry.source is not None:
                try:
                    size = await entry.source.probe()
                except GristmillError:
                    state.failed += 1
                    return []
                kind = PurePath(item.title).suffix.lower() if item.type == "file" else item.type
                return [EstimatedDocument(kind, size, self._source_reader(entry.source), chunking)]
            case _:
                return []

    def disk_document(
        self, source: FileSource, name: str, size: int, chunking: dict[str, Any]
    ) -> EstimatedDocument:
        """A file on this machine's disk."""

        async def fingerprint() -> bytes:
            return await asyncio.to_thread(_hash_file, source)

        suffix = PurePath(name).suffix.lower()
        return EstimatedDocument(suffix, size, self._source_reader(source), chunking, fingerprint)

    def content_document(self, row: StoredDocument, chunking: dict[str, Any]) -> EstimatedDocument:
        """A document whose content is stored."""

        async def fingerprint() -> bytes:
            return row.content

        return EstimatedDocument("stored", row.characters, self._content_reader(row), chunking, fingerprint)

    async def _folder_documents(
        self,
        path: Path,
        rules: IgnoreRules,
        source: dict[str, Any],
        chunking: dict[str, Any],
        state: EstimateSums,
    ) -> list[EstimatedDocument]:
        access = disk_access(self._sources.disk, source)
        files: list[DirectoryEntry] = []
        waiting = [path]
        while waiting and len(files) < _MAX_LISTED:
            async with aclosing(list_folder(waiting.pop(), rules, path, access=access)) as batches:
                async for batch in batches:
                    _collect(batch, files, waiting)
        if len(files) >= _MAX_LISTED:
            state.notes.append(f"Only the first {_MAX_LISTED:,} files of {path.name} are counted.")
        return [
            self.disk_document(
                self._sources.file_source(entry.path, access), entry.path.name, entry.size or 0, chunking
            )
            for entry in files
        ]

    async def _sitemap_documents(
        self, url: str, chunking: dict[str, Any], state: EstimateSums
    ) -> list[EstimatedDocument]:
        pages: list[str] = []
        try:
            async for batch in list_sitemap(url, SitemapRules(private=self._sources.allow_private)):
                pages += [page.url for page in batch]
                if len(pages) >= _MAX_LISTED:
                    state.notes.append(f"Only the first {_MAX_LISTED:,} pages of the sitemap are counted.")
                    break
        except GristmillError as error:
            state.notes.append(f"The sitemap can't be listed: {error.message}")
        return [
            EstimatedDocument(
                "page", _PAGE_BYTES, self._source_reader(self._sources.url_source(page)), chunking
            )
            for page in pages
        ]

    # ── read ─────────────────────────────────────────────────────────────────────────────────────────────

    def _source_reader(self, source: Any) -> Read:
        async def read() -> DocumentTexts:
            original = await source.read()
            content = DocumentTexts()
            try:
                await self._read_original(original, content, _MAX_DEPTH)
            finally:
                if original.temporary and original.path is not None:
                    original.path.unlink(missing_ok=True)
            return content

        return read

    def _content_reader(self, row: StoredDocument) -> Read:
        async def read() -> DocumentTexts:
            parts: list[TextPart] = []
            after = 0
            while True:
                async with self._db.connection() as tx:
                    stored = await contents.content_parts(tx, row.content, after)
                if not stored:
                    break
                parts += [TextPart(part.text, part.page) for part in stored]
                after = stored[-1].start + len(stored[-1].text)
            if not row.images:
                return DocumentTexts([parts])
            async with self._db.connection() as tx:
                assets = await contents.live_assets(tx, ItemId(row.item_id))
            described = [asset for asset in assets if asset.kind == "image" and asset.state == "described"]
            return DocumentTexts([parts], [asset.text for asset in described if asset.text])

        return read

    async def _read_original(self, original: Original, content: DocumentTexts, depth: int) -> None:
        """Add the texts and images of a document and of its attachments."""
        inspected = await asyncio.to_thread(inspect_original, original, other_reader=READER)
        if inspected.is_plain:
            with suppress(NoText):
                content.texts.append(await asyncio.to_thread(lambda: [part for part, _ in inspected.parts()]))
            return
        with tempfile.TemporaryDirectory(dir=self._sources.scratch, prefix="gristmill-estimate-") as folder:
            path = original.path or Path(folder) / "original"
            if original.path is None:
                await asyncio.to_thread(path.write_bytes, original.data)
            await self._read_with_reader(original, path, Path(folder), content, depth)

    async def _read_with_reader(
        self, original: Original, path: Path, folder: Path, content: DocumentTexts, depth: int
    ) -> None:
        parts: list[TextPart] = []
        images: list[str] = []
        content.texts.append(parts)
        results = read_file(
            self._readers,
            path,
            name=original.name,
            media_type=original.media_type,
            scratch=folder,
            limits=LIMITS,
        )
        async with aclosing(results):
            async for result in results:
                match result:
                    case TextPart():
                        parts.append(result)
                    case AttachedFile() if depth > 0:
                        inner = Original(b"", result.name, path=result.path)
                        try:
                            await self._read_original(inner, content, depth - 1)
                        except GristmillError:
                            content.failed += 1
                    case Asset(kind="image", small=False):
                        images.append(result.hash)
                    case ReadReport():
                        images = [digest for digest in images if digest not in result.ocr_hashes]
                    case _:
                        pass
        content.images += images[:_MAX_IMAGES]


def _hash_file(source: FileSource) -> bytes:
    digest = hashlib.sha256()
    with source.open() as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.digest()


def _collect(entries: Sequence[DirectoryEntry], files: list[DirectoryEntry], folders: list[Path]) -> None:
    """Sort the entries of a listing: files, and folders that are to be listed by themselves."""
    for entry in entries:
        if entry.error is not None:
            continue
        if entry.kind == "directory" and entry.contents is None:
            folders.append(entry.path)
        elif entry.contents is not None:
            _collect(entry.contents.entries, files, folders)
        else:
            files.append(entry)
