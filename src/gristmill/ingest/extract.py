"""extract: from a document's bytes to windows of pieces, and to what it holds beside its text.

    text, markdown, web pages      decoded and cut in a thread of this process
    read before, whole             from what is kept of it: nothing is opened
    read before, in part           its finished pages from what is kept, the others by a reader: for documents that
                                   are read page by page
    everything else                by a reader, in a child process that can be killed

Documents found inside it are put into the blob store as they come; their hashes travel with the document, and are
written with its next parts. Killed anywhere: what was written is where the next attempt goes on.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from gristmill import contents, niceness
from gristmill.contents import ContentAsset, ContentAttachment
from gristmill.db import Database
from gristmill.identity import scoped_digest
from gristmill.ingest import read, tables
from gristmill.ingest.batcher import Batcher
from gristmill.ingest.chunk import Chunker, TextChunk, token_limit
from gristmill.ingest.document import Document, ReadWindow
from gristmill.ingest.offload import CpuOffload
from gristmill.operations import uploads
from gristmill.operations.source_factory import SourceFactory
from gristmill.readers import Asset, AttachedFile, ReadLimits, ReadReport, TextPart, reader_identity
from gristmill.readers.pool import ReaderPool
from gristmill.readers.supervisor import read_file
from gristmill.sources import Original

CHUNK_THREADS = 2  # threads that decode and cut
MAX_SMALL_BATCH = 64  # small documents that are cut together
_SMALL_BYTES = 1 << 16  # bytes of a document that is cut whole
WINDOW_CHUNKS = 64  # pieces that are cut before they are handed on
# What is inside a document is laid down, and not opened: each is an item of its own (embedded.py).
LIMITS = ReadLimits(depth=1)
READER = reader_identity(LIMITS)
_RESUMABLE = b"%PDF-"  # how documents begin whose reading can go on behind a page


@dataclass(frozen=True)
class _SmallDocument:
    """A document that is cut whole."""

    tokenizer: Tokenizer
    limit: int
    parts: list[TextPart]


class ReadStage:
    """Reads documents."""

    def __init__(
        self, db: Database, originals: SourceFactory, pool: ReaderPool | None, crew: CpuOffload
    ) -> None:
        self._db, self._originals, self._pool, self._crew = db, originals, pool, crew
        self._chunk_threads = ThreadPoolExecutor(
            CHUNK_THREADS, thread_name_prefix="cut", initializer=niceness.lower_thread_priority
        )
        self._small_documents: Batcher[_SmallDocument, list[TextChunk]] = Batcher(
            self._chunk_small_documents, size=MAX_SMALL_BATCH
        )

    def close(self) -> None:
        """Nothing more will come."""
        self._chunk_threads.shutdown(wait=False)

    async def inspect(self, original: Original) -> read.InspectedOriginal:
        """Look at the bytes, and see who reads them."""
        return await self._in_chunk_thread(
            partial(read.inspect_original, other_reader=READER if self._pool else None), original
        )

    async def load_known_assets(self, document: Document) -> None:
        """What is known to be inside a document that was read before."""
        async with self._db.connection() as tx:
            document.attachments = await contents.content_attachments(tx, document.digest)
            document.assets = await contents.content_assets(tx, document.digest)

    async def save_page(self, document: Document, reading: read.InspectedOriginal) -> None:
        """Keep a page's bytes as they were fetched, and what tells later whether it changed."""
        data = reading.original.data

        async def data_stream() -> AsyncGenerator[bytes]:
            yield data

        blob = await uploads.store_upload(
            self._db, self._originals.blobs, data_stream, org=document.base.org_id
        )
        document.original = blob.hash
        document.validators = {**reading.original.metadata, "reader": reading.reader}

    async def windows(
        self, document: Document, reading: read.InspectedOriginal, chunker: Chunker
    ) -> AsyncGenerator[ReadWindow]:
        """The document's windows: from its bytes, or from what was made of them before."""
        if reading.is_plain:
            return self._chunk_plain_text(document, reading, chunker)
        async with self._db.connection() as tx:
            warnings = await contents.complete_content_warnings(tx, reading.digest)
        if warnings is not None:
            document.warnings = warnings
            await self.load_known_assets(document)
            return self._chunk_parts(document, self._stored_parts(reading.digest), chunker)
        return self._chunk_parts(document, self._read_with_reader(document, reading), chunker)

    async def _chunk_parts(
        self, document: Document, parts: AsyncGenerator[TextPart], chunker: Chunker
    ) -> AsyncGenerator[ReadWindow]:
        """Windows of parts that come one by one; how many will come is not known."""
        parts_read: list[TextPart] = []
        pieces: list[TextChunk] = []
        remaining = 1.0
        async with aclosing(parts):
            async for part in parts:
                started = time.monotonic()
                parts_read.append(part)
                pieces += await self._in_chunk_thread(chunker.feed, part.text, part.page)
                document.timings.read += time.monotonic() - started
                if len(pieces) >= WINDOW_CHUNKS:
                    remaining *= 0.9
                    yield ReadWindow(parts_read, pieces, 1 - remaining)
                    parts_read, pieces = [], []
        yield ReadWindow(parts_read, [*pieces, *await self._in_chunk_thread(chunker.finish)], 1.0, last=True)

    async def _stored_parts(self, digest: bytes, before: int | None = None) -> AsyncGenerator[TextPart]:
        """The parts of a content that were made before, up to a place."""
        after = 0
        while True:
            async with self._db.connection() as tx:
                stored = await contents.content_parts(tx, digest, after)
            for part in stored:
                if before is not None and part.start >= before:
                    return
                yield TextPart(part.text, part.page)
            if not stored:
                return
            after = stored[-1].start + len(stored[-1].text)

    async def _read_with_reader(
        self, document: Document, reading: read.InspectedOriginal
    ) -> AsyncGenerator[TextPart]:
        """The parts that a reader makes of the document; what else it finds goes onto the document."""
        assert self._pool is not None
        original = reading.original
        page, first_offset = await self._resume_point(document, reading)
        start = first_offset
        if start:
            async with aclosing(self._stored_parts(reading.digest, before=start)) as stored:
                async for part in stored:
                    yield part
        with tempfile.TemporaryDirectory(dir=self._originals.scratch, prefix="gristmill-read-") as folder:
            path = original.path or Path(folder) / "original"
            if original.path is None:
                await asyncio.to_thread(path.write_bytes, original.data)
            results = read_file(
                self._pool,
                path,
                name=original.name,
                media_type=original.media_type,
                scratch=Path(folder),
                limits=LIMITS,
                resume_after_page=page,
            )
            async with aclosing(results):
                async for result in results:
                    match result:
                        case TextPart():
                            tables.find_tables(document, result, start)
                            start += len(result.text)
                            yield result
                        case AttachedFile():
                            await self._save_attachment(document, result)
                        case Asset():
                            await self._save_asset(document, result, first_offset)
                        case ReadReport():
                            document.warnings = [*result.warnings]
                            document.inline = [
                                scoped_digest(document.base.org_id, bytes.fromhex(digest))
                                for digest in result.ocr_hashes
                            ]

    async def _resume_point(self, document: Document, reading: read.InspectedOriginal) -> tuple[int, int]:
        """The last page that need not be read again, and where what follows it begins in the content."""
        if reading.head[: len(_RESUMABLE)] != _RESUMABLE:
            return 0, 0
        async with self._db.connection() as tx:
            point = await contents.resume_point(tx, reading.digest)
        if point is None:
            return 0, 0
        await self.load_known_assets(document)
        document.timings.pages_kept = point.page - 1
        return point.page - 1, point.start

    async def _save_attachment(self, document: Document, attachment: AttachedFile) -> None:
        blob = await uploads.store_file(
            self._db, self._originals.blobs, attachment.path, document.base.org_id
        )
        await asyncio.to_thread(attachment.path.unlink)
        record = ContentAttachment(len(document.attachments) + 1, attachment.name, blob.hash, blob.size)
        if document.has_attachment(record):
            return
        document.attachments.append(record)
        document.unsaved_attachments.append(record)

    async def _save_asset(self, document: Document, asset: Asset, first_offset: int) -> None:
        """`begun` is where the content begins that the reader counts from."""
        blob = await uploads.store_file(self._db, self._originals.blobs, asset.path, document.base.org_id)
        place = first_offset + asset.start
        document.add_asset(
            ContentAsset(
                blob.hash,
                len(document.assets) + 1,
                asset.kind,
                asset.media_type,
                blob.size,
                asset.page,
                place,
                place,
                asset.text,
                asset.small,
                blob.hash,
            )
        )

    async def _chunk_plain_text(
        self, document: Document, reading: read.InspectedOriginal, chunker: Chunker
    ) -> AsyncGenerator[ReadWindow]:
        if reading.size <= _SMALL_BYTES:
            started = time.monotonic()
            parts = await self._in_chunk_thread(_all_parts, reading)
            limit = token_limit(document.embedder, document.base.chunking)
            pieces = await self._small_documents.submit(
                _SmallDocument(document.embedder.tokenizer, limit, parts)
            )
            document.timings.read += time.monotonic() - started
            yield ReadWindow(parts, pieces, 1.0, last=True)
            return
        windows = _chunk_windows(reading, chunker)
        while True:
            started = time.monotonic()
            window = await self._in_chunk_thread(next, windows, None)
            document.timings.read += time.monotonic() - started
            if window is None:
                return
            yield window

    async def _chunk_small_documents(self, documents: Sequence[_SmallDocument]) -> list[list[TextChunk]]:
        """The pieces of each; those that are cut alike go together."""
        results: dict[int, list[TextChunk]] = {}
        groups: dict[tuple[Tokenizer, int], list[int]] = {}
        for position, document in enumerate(documents):
            groups.setdefault((document.tokenizer, document.limit), []).append(position)
        for (tokenizer, limit), positions in groups.items():
            chunked = await self._crew.chunk_documents(
                tokenizer, limit, [documents[place].parts for place in positions]
            )
            results |= zip(positions, chunked, strict=True)
        return [results[place] for place in range(len(documents))]

    async def _in_chunk_thread(self, work: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._chunk_threads, work, *arguments)


def _all_parts(reading: read.InspectedOriginal) -> list[TextPart]:
    return [part for part, _ in reading.parts()]


def _chunk_windows(reading: read.InspectedOriginal, chunker: Chunker) -> Iterator[ReadWindow]:
    """Windows of some pieces; a small document is one."""
    parts: list[TextPart] = []
    pieces: list[TextChunk] = []
    for part, share in reading.parts():
        parts.append(part)
        pieces += chunker.feed(part.text, part.page)
        if len(pieces) >= WINDOW_CHUNKS:
            yield ReadWindow(parts, pieces, share)
            parts, pieces = [], []
    yield ReadWindow(parts, [*pieces, *chunker.finish()], 1.0, last=True)
