"""Estimate what would be embedded, by reading and chunking as indexing does, without storing anything.

    add         notes, files and pages are read; folders and sitemaps are listed first
    stored      the stored contents are chunked: what a re-index of unchanged sources, or another embedder, would embed

Reading stops after `TIME_LIMIT` or `MAX_READ` documents. Documents that were not read by then are estimated from those that were: their tokens per byte, by
type of file. Documents are read in a random order, so that the ones read are a fair sample. A text that is known, or occurs
twice, costs nothing, as in indexing. Attachments are read like documents; images are counted, and not described.
"""

import asyncio
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from gristmill import catalog, contents
from gristmill.catalog import Base, ItemId
from gristmill.db import Database
from gristmill.embedding import Embedder, Embedders
from gristmill.errors import GristmillError, NoText
from gristmill.ingest.chunk import token_limit, token_overlap
from gristmill.ingest.estimate_sums import (
    EstimatedDocument,
    EstimateSums,
    MeasuredSums,
    add_measured,
    describe_limits,
)
from gristmill.ingest.inspect_original import inspect_original
from gristmill.ingest.offload import CpuOffload
from gristmill.ingest.open import recipe_of
from gristmill.ingest.read import LIMITS, READER
from gristmill.ingest.tokens import token_counter
from gristmill.operations.add import ItemToAdd
from gristmill.operations.estimates import CostEstimate
from gristmill.operations.source_factory import SourceFactory, disk_access
from gristmill.readers import Asset, AttachedFile, TextPart
from gristmill.readers.pool import ReaderPool
from gristmill.readers.supervisor import read_file
from gristmill.search import publish
from gristmill.search.publish import text_hash
from gristmill.sources import Original
from gristmill.sources.directory import DirectoryEntry, IgnoreRules, list_folder
from gristmill.sources.sitemap import SitemapRules, list_sitemap
from gristmill.usage import list_stored_documents, price_of_tokens

TIME_LIMIT = 20.0  # seconds
MAX_READ = 5_000  # documents
_MAX_LISTED = 100_000
_MAX_DEPTH = 3  # of attachments
_AT_ONCE = 4
_REUSE_SETS = 16
_HASHES_PER_QUERY = 500
_PAGE_BYTES = 30_000  # of a page whose size is not known


class Estimator:
    """Makes estimates, with the readers of this process."""

    def __init__(
        self,
        db: Database,
        embedders: Embedders,
        sources: SourceFactory,
        readers: ReaderPool,
        vision_price: float | None,
        time_limit: float = TIME_LIMIT,
        max_read: int = MAX_READ,
    ) -> None:
        self._db, self._embedders, self._sources, self._readers = db, embedders, sources, readers
        self._vision_price, self._time_limit, self._max_read = vision_price, time_limit, max_read
        self._offload = CpuOffload(max_subprocesses=1)

    def close(self) -> None:
        """Stop the threads."""
        self._offload.close()

    async def estimate_add(
        self, base: Base, embedder: Embedder, entries: Sequence[ItemToAdd]
    ) -> CostEstimate:
        """What adding these items would embed."""
        state = EstimateSums()
        documents: list[EstimatedDocument] = []
        for entry in entries:
            documents += await self._documents_of(base, entry, state)
        return await self._measure(base, embedder, documents, state)

    async def estimate_stored(
        self, base: Base, embedder: Embedder, chunking: dict[str, Any], roots: Sequence[ItemId] | None
    ) -> CostEstimate:
        """What embedding the stored contents below these roots, or of the whole base, would take."""
        state = EstimateSums()
        async with self._db.connection() as tx:
            stored = await list_stored_documents(tx, base.id, roots)
        documents: list[EstimatedDocument] = []
        for row in stored:
            merged = {**chunking, **row.chunking}
            if row.recipe != recipe_of(embedder, merged):
                documents.append(
                    EstimatedDocument("stored", row.characters, self._content_reader(row.content), merged)
                )
        unchanged = len(stored) - len(documents)
        if roots is not None:
            state.notes.append(
                "It rests on the contents as they were last read. Of a source that has changed since, the new texts are embedded too."
            )
        estimate = await self._measure(base, embedder, documents, state)
        return replace(
            estimate,
            documents=estimate.documents + unchanged,
            read_documents=estimate.read_documents + unchanged,
        )

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────

    async def _documents_of(
        self, base: Base, entry: ItemToAdd, state: EstimateSums
    ) -> list[EstimatedDocument]:
        item = entry.item
        chunking = {**base.chunking, **item.chunking}
        match item.type:
            case "directory" if "path" in item.source:
                rules = IgnoreRules((*base.ignore, *item.source.get("ignore", [])), base.include_hidden)
                return await self._folder_documents(Path(item.key), rules, item.source, chunking, state)
            case "sitemap":
                return await self._sitemap_documents(item.source["url"], chunking, state)
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
            EstimatedDocument(
                entry.path.suffix.lower(),
                entry.size or 0,
                self._source_reader(self._sources.file_source(entry.path, access)),
                chunking,
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

    def _source_reader(
        self, source: Any
    ) -> Callable[[EstimateSums], Coroutine[None, None, list[list[TextPart]]]]:
        async def read(state: EstimateSums) -> list[list[TextPart]]:
            original = await source.read()
            try:
                return await self._read_original(original, state, _MAX_DEPTH)
            finally:
                if original.temporary and original.path is not None:
                    original.path.unlink(missing_ok=True)

        return read

    def _content_reader(
        self, digest: bytes
    ) -> Callable[[EstimateSums], Coroutine[None, None, list[list[TextPart]]]]:
        async def read(_state: EstimateSums) -> list[list[TextPart]]:
            parts: list[TextPart] = []
            after = 0
            while True:
                async with self._db.connection() as tx:
                    stored = await contents.content_parts(tx, digest, after)
                if not stored:
                    return [parts]
                parts += [TextPart(part.text, part.page) for part in stored]
                after = stored[-1].start + len(stored[-1].text)

        return read

    async def _read_original(
        self, original: Original, state: EstimateSums, depth: int
    ) -> list[list[TextPart]]:
        """The texts of a document and of its attachments."""
        inspected = await asyncio.to_thread(inspect_original, original, other_reader=READER)
        if inspected.is_plain:
            try:
                return [await asyncio.to_thread(lambda: [part for part, _ in inspected.parts()])]
            except NoText:
                return []
        with tempfile.TemporaryDirectory(dir=self._sources.scratch, prefix="gristmill-estimate-") as folder:
            path = original.path or Path(folder) / "original"
            if original.path is None:
                await asyncio.to_thread(path.write_bytes, original.data)
            return await self._read_with_reader(original, path, Path(folder), state, depth)

    async def _read_with_reader(
        self, original: Original, path: Path, folder: Path, state: EstimateSums, depth: int
    ) -> list[list[TextPart]]:
        parts: list[TextPart] = []
        attached: list[list[TextPart]] = []
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
                            attached += await self._read_original(inner, state, depth - 1)
                        except GristmillError:
                            state.failed += 1
                    case Asset(kind="image", small=False):
                        state.images += 1
                    case _:
                        pass
        return [parts, *attached]

    # ── measure ──────────────────────────────────────────────────────────────────────────────────────────

    async def _measure(
        self, base: Base, embedder: Embedder, documents: list[EstimatedDocument], state: EstimateSums
    ) -> CostEstimate:
        await embedder.load()
        async with self._db.connection() as tx:
            sets = await catalog.find_sets_by_embedder(tx, base.id, embedder.identity, _REUSE_SETS)
        if embedder.identity == base.embedder_identity:
            sets = [base.chunk_set, *sets]
        deadline = time.monotonic() + self._time_limit
        order = random.Random(len(documents)).sample(documents, len(documents))  # noqa: S311 - a sample, not a secret
        queue = iter(order)

        async def work() -> None:
            for document in queue:
                if time.monotonic() > deadline or state.begun >= self._max_read:
                    state.left.append(document)
                    continue
                state.begun += 1
                try:
                    texts = await document.read(state)
                    await self._count(embedder, document, texts, sets, state)
                    state.read += 1
                except GristmillError:
                    state.failed += 1

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_AT_ONCE):
                tasks.create_task(work())
        return self._sum_up(embedder, documents, state)

    async def _count(
        self,
        embedder: Embedder,
        document: EstimatedDocument,
        texts: Sequence[Sequence[TextPart]],
        sets: Sequence[Any],
        state: EstimateSums,
    ) -> None:
        limit, overlap = token_limit(embedder, document.chunking), token_overlap(embedder, document.chunking)
        chunked = await self._offload.chunk_documents(embedder.tokenizer, limit, overlap, texts)
        chunks = [chunk.text for document_chunks in chunked for chunk in document_chunks]
        new = {text_hash(text): text for text in chunks}
        new = {digest: text for digest, text in new.items() if digest not in state.seen}
        state.seen |= new.keys()
        async for known in self._find_known_hashes(sets, list(new)):
            new.pop(known, None)
        counts = await asyncio.to_thread(token_counter(embedder.tokenizer).counts, list(new.values()))
        measured = state.by_kind[document.kind]
        measured.size += document.size
        measured.chunks += len(chunks)
        measured.texts += len(new)
        measured.tokens += sum(counts)

    async def _find_known_hashes(self, sets: Sequence[Any], hashes: list[bytes]) -> AsyncGenerator[bytes]:
        for start in range(0, len(hashes), _HASHES_PER_QUERY):
            async with self._db.connection() as tx:
                known = await publish.reusable_vectors(
                    tx, list(sets), hashes[start : start + _HASHES_PER_QUERY]
                )
            for digest in known:
                yield digest

    def _sum_up(
        self, embedder: Embedder, documents: Sequence[EstimatedDocument], state: EstimateSums
    ) -> CostEstimate:
        sums = MeasuredSums()
        for measured in state.by_kind.values():
            add_measured(sums, measured, 1.0)
        overall = MeasuredSums(sums.size, sums.chunks, sums.texts, sums.tokens)
        unread: dict[str, int] = defaultdict(int)
        for document in state.left:
            unread[document.kind] += document.size
        for kind, size in unread.items():
            sample = state.by_kind[kind] if state.by_kind[kind].size else overall
            add_measured(sums, sample, size / sample.size if sample.size else 0.0)
        price = self._embedders.price_of(embedder)
        cost = None if price is None else float(price_of_tokens(sums.tokens, price))
        images = round(state.images * (len(documents) / state.read if state.read else 1))
        if images and self._vision_price is not None:
            cost = (cost or 0.0) + images * self._vision_price
        return CostEstimate(
            documents=len(documents),
            read_documents=state.read,
            chunks=sums.chunks,
            texts=sums.texts,
            tokens=sums.tokens,
            cost=None if cost is None else round(cost, 6),
            images=images,
            is_exact=not state.left and not state.failed and not state.images and not state.notes,
            notes=tuple(describe_limits(documents, state)),
        )


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
