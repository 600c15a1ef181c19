"""The read stage: from a document's bytes to windows of parts and chunks, and to what it contains besides text.

    text, markdown, web pages        decoded in a thread of this process, small texts at once (inspect_original.py)
    read completely before           from the stored content: the original is not opened
    read partly before (PDF)         finished pages from the stored content, the others by a reader
    everything else                  by a reader, in a child process that can be killed (readers/)

What was read is chunked in a thread, or in the offload process if the document is large (offload.py).
Attachments and images are stored in the blob store as they are found; their hashes travel with the next window. Killed
anywhere: the next attempt continues after what was written.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from gristmill import contents, jobs, niceness
from gristmill.contents import ContentAsset, ContentAttachment
from gristmill.db import Database
from gristmill.identity import OrgId, scoped_digest
from gristmill.ingest.batcher import Batcher
from gristmill.ingest.chunk import Chunker, TextChunk, token_limit, token_overlap
from gristmill.ingest.findings import Findings
from gristmill.ingest.inspect_original import TEXT_READER, InspectedOriginal, inspect_original
from gristmill.ingest.offload import CpuOffload
from gristmill.ingest.tables import MAX_ASSETS, find_tables
from gristmill.ingest.task import IndexTask, ReadWindow
from gristmill.operations import uploads
from gristmill.operations.source_factory import SourceFactory
from gristmill.readers import (
    Asset,
    AttachedFile,
    DocumentFields,
    ReadLimits,
    ReadReport,
    ReadResult,
    TextPart,
    reader_identity,
)
from gristmill.readers.pool import ReaderPool
from gristmill.readers.supervisor import read_file
from gristmill.sources import Original
from gristmill.stage_gate import Requester, StageGate

MAX_SMALL_BATCH = 64  # small documents that are chunked together
_SMALL_BYTES = 1 << 16  # a document up to this size is chunked at once
WINDOW_CHUNKS = 64  # a window is handed on when it has so many chunks
# Attachments are stored but not opened: each becomes an item of its own (attachments.py).
LIMITS = ReadLimits(depth=1)
READER = reader_identity(LIMITS)
_RESUMABLE = b"%PDF-"  # documents that start like this can be read from a later page on


@dataclass(frozen=True)
class _SmallDocument:
    """A document that is chunked at once."""

    tokenizer: Tokenizer
    limit: int
    overlap: int
    parts: list[TextPart]


class ReadStage:
    """Reads documents."""

    def __init__(
        self,
        db: Database,
        sources: SourceFactory,
        pool: ReaderPool | None,
        offload: CpuOffload,
        threads: StageGate,
    ) -> None:
        self._db, self._sources, self._pool, self._offload = db, sources, pool, offload
        # More threads than places: one whose caller was cancelled goes on for a while.
        self._gate, self._threads = (
            threads,
            ThreadPoolExecutor(
                4 * threads.size, thread_name_prefix="chunk", initializer=niceness.lower_thread_priority
            ),
        )
        self._small_documents: Batcher[_SmallDocument, list[TextChunk]] = Batcher(
            self._chunk_small_documents, size=MAX_SMALL_BATCH
        )

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=False)

    async def inspect(self, original: Original, task: IndexTask) -> InspectedOriginal:
        """Hash the bytes, and decide who reads them."""
        other_reader = READER if self._pool else None
        work = partial(inspect_original, other_reader=other_reader)
        if original.path is None and len(original.data) <= _SMALL_BYTES:
            inspected = work(original)  # it takes less time than to hand it to a thread
        else:
            inspected = await self._in_thread(jobs.requester(task.job), work, original)
        return replace(inspected, org=task.base.org_id)

    async def load_findings(
        self, digest: bytes
    ) -> tuple[Sequence[ContentAttachment], Sequence[ContentAsset]]:
        """The attachments and assets of a content that was read before."""
        async with self._db.connection() as tx:
            return await contents.content_attachments(tx, digest), await contents.content_assets(tx, digest)

    async def store_page(self, org: OrgId, data: bytes) -> bytes:
        """Store a web page's bytes as fetched, and return the hash of the blob."""

        async def data_stream() -> AsyncGenerator[bytes]:
            yield data

        blob = await uploads.store_upload(self._db, self._sources.blobs, data_stream, org=org)
        return blob.hash

    async def windows(self, task: IndexTask, inspected: InspectedOriginal) -> AsyncGenerator[ReadWindow]:
        """The document's windows, from its bytes or from its stored content. Only the last one has an `end`."""
        if inspected.is_plain:
            return self._plain_windows(task, inspected)
        chunker = _new_chunker(task)
        async with self._db.connection() as tx:
            complete = await contents.find_complete_content(tx, inspected.digest)
        if complete is not None:
            findings = Findings(*await self.load_findings(inspected.digest))
            findings.warnings, findings.document = complete.warnings, complete.document
            return self._chunk_parts(task, findings, self._load_parts(inspected.digest), chunker)
        return await self._reader_windows(task, inspected, chunker)

    async def _chunk_parts(
        self, task: IndexTask, findings: Findings, parts: AsyncGenerator[TextPart], chunker: Chunker
    ) -> AsyncGenerator[ReadWindow]:
        """The windows of parts that arrive one by one, in an unknown number."""
        parts_read: list[TextPart] = []
        chunks: list[TextChunk] = []
        remaining = 1.0
        async with aclosing(parts):
            async for part in parts:
                started = time.monotonic()
                parts_read.append(part)
                chunker, completed = await self._feed(task, chunker, [part])
                chunks += completed
                findings.seconds += time.monotonic() - started
                if len(chunks) >= WINDOW_CHUNKS:
                    remaining *= 0.9
                    yield findings.window(parts_read, chunks, 1 - remaining)
                    parts_read, chunks = [], []
        _, last = await self._feed(task, chunker, [], is_last=True)
        yield findings.window(parts_read, [*chunks, *last], 1.0, is_last=True)

    async def _load_parts(self, digest: bytes, before: int | None = None) -> AsyncGenerator[TextPart]:
        """The stored parts of a content, up to the position `before`."""
        after = 0
        while True:
            async with self._db.connection() as tx:
                stored = await contents.content_parts(tx, digest, after)
            for part in stored:
                if before is not None and part.start >= before:
                    return
                yield TextPart(part.text, part.page, part.boxes or b"")
            if not stored:
                return
            after = stored[-1].start + len(stored[-1].text)

    # ── by a reader ──────────────────────────────────────────────────────────────────────────────────────

    async def _reader_windows(
        self, task: IndexTask, inspected: InspectedOriginal, chunker: Chunker
    ) -> AsyncGenerator[ReadWindow]:
        findings, page, first_offset = Findings(), 0, 0
        if (point := await self._resume_point(inspected)) is not None:
            page, first_offset = point
            findings = Findings(*await self.load_findings(inspected.digest))
            findings.pages_reused = page
        parts = self._read_with_reader(task, inspected, findings, page, first_offset)
        return self._chunk_parts(task, findings, parts, chunker)

    async def _resume_point(self, inspected: InspectedOriginal) -> tuple[int, int] | None:
        """The last page that an earlier attempt has read completely, and where the content after it starts."""
        if inspected.head[: len(_RESUMABLE)] != _RESUMABLE:
            return None
        async with self._db.connection() as tx:
            point = await contents.resume_point(tx, inspected.digest)
        return None if point is None else (point.page - 1, point.start)

    async def _read_with_reader(
        self, task: IndexTask, inspected: InspectedOriginal, findings: Findings, page: int, first_offset: int
    ) -> AsyncGenerator[TextPart]:
        """The parts that a reader makes of the document. What else it returns goes into `findings`."""
        start, org = first_offset, task.base.org_id
        if start:
            async with aclosing(self._load_parts(inspected.digest, before=start)) as stored:
                async for part in stored:
                    yield part
        async with aclosing(self._reader_results(task, inspected, page)) as results:
            async for result in results:
                match result:
                    case TextPart():
                        for table in find_tables(result, start):
                            if len(findings.assets) < MAX_ASSETS:
                                findings.add_asset(table)
                        start += len(result.text)
                        yield result
                    case AttachedFile():
                        blob = await uploads.store_file(self._db, self._sources.blobs, result.path, org)
                        await asyncio.to_thread(result.path.unlink)
                        findings.add_attachment(result.name, blob.hash, blob.size)
                    case DocumentFields():
                        findings.describe(result.fields)
                    case Asset():
                        findings.add_asset(await self._store_asset(result, org, first_offset))
                    case ReadReport():
                        findings.warnings = tuple(result.warnings)
                        findings.inline = tuple(
                            scoped_digest(org, bytes.fromhex(digest)) for digest in result.ocr_hashes
                        )

    async def _reader_results(
        self, task: IndexTask, inspected: InspectedOriginal, page: int
    ) -> AsyncGenerator[ReadResult]:
        assert self._pool is not None
        original = inspected.original
        with tempfile.TemporaryDirectory(dir=self._sources.scratch, prefix="gristmill-read-") as folder:
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
                requester=jobs.requester(task.job),
            )
            async with aclosing(results):
                async for result in results:
                    yield result

    async def _store_asset(self, asset: Asset, org: OrgId, first_offset: int) -> ContentAsset:
        """Store an image. `first_offset` is where the text that the reader returns starts in the content."""
        blob = await uploads.store_file(self._db, self._sources.blobs, asset.path, org)
        position = first_offset + asset.start
        return ContentAsset(
            blob.hash,
            0,
            asset.kind,
            asset.media_type,
            blob.size,
            asset.page,
            position,
            position,
            asset.text,
            asset.small,
            blob.hash,
        )

    # ── in this process ──────────────────────────────────────────────────────────────────────────────────

    async def _plain_windows(
        self, task: IndexTask, inspected: InspectedOriginal
    ) -> AsyncGenerator[ReadWindow]:
        findings = Findings()
        started = time.monotonic()
        if inspected.size <= _SMALL_BYTES:
            if inspected.reader == TEXT_READER and inspected.original.path is None:
                parts = _all_parts(inspected)
            else:
                parts = await self._in_thread(_requester(task), _all_parts, inspected)
            limit, overlap = _chunk_size(task)
            small = _SmallDocument(task.embedder.tokenizer, limit, overlap, parts)
            chunks = await self._small_documents.submit(small)
            if parts:
                findings.describe(inspected.document_fields(parts[0].text))
            findings.seconds += time.monotonic() - started
            yield findings.window(parts, chunks, 1.0, is_last=True)
            return
        chunker, texts = _new_chunker(task), inspected.parts()
        parts, chunks, is_first, is_last = list[TextPart](), list[TextChunk](), True, False
        while not is_last:
            part, share = await self._in_thread(_requester(task), next, texts, (None, 1.0))
            is_last = part is None
            new_parts = [] if is_last else [part]
            if new_parts and is_first:
                findings.describe(inspected.document_fields(part.text))
                is_first = False
            chunker, completed = await self._feed(task, chunker, new_parts, is_last=is_last)
            parts += new_parts
            chunks += completed
            findings.seconds += time.monotonic() - started
            if is_last or len(chunks) >= WINDOW_CHUNKS:
                yield findings.window(parts, chunks, share, is_last=is_last)
                parts, chunks = [], []
            started = time.monotonic()

    async def _feed(
        self, task: IndexTask, chunker: Chunker, parts: Sequence[TextPart], *, is_last: bool = False
    ) -> tuple[Chunker, list[TextChunk]]:
        async with self._gate.place(_requester(task)):
            return await self._offload.feed(task.embedder.tokenizer, chunker, parts, is_last=is_last)

    async def _chunk_small_documents(self, documents: Sequence[_SmallDocument]) -> list[list[TextChunk]]:
        """The chunks of each document. Those with the same tokenizer and limit are chunked together."""
        results: dict[int, list[TextChunk]] = {}
        groups: dict[tuple[Tokenizer, int, int], list[int]] = {}
        for position, document in enumerate(documents):
            key = (document.tokenizer, document.limit, document.overlap)
            groups.setdefault(key, []).append(position)
        for (tokenizer, limit, overlap), positions in groups.items():
            parts = [documents[position].parts for position in positions]
            chunked = await self._offload.chunk_documents(tokenizer, limit, overlap, parts)
            results |= zip(positions, chunked, strict=True)
        return [results[position] for position in range(len(documents))]

    async def _in_thread(self, requester: Requester, work: Any, *arguments: Any) -> Any:
        async with self._gate.place(requester):
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


def _requester(task: IndexTask) -> Requester:
    """For a document that is past its first stage: its short waits don't hold up the queue."""
    return Requester(task.job.lane, task.job.priority)


def _new_chunker(task: IndexTask) -> Chunker:
    return Chunker(task.embedder.tokenizer, *_chunk_size(task))


def _chunk_size(task: IndexTask) -> tuple[int, int]:
    """How many tokens a chunk may have, and how many of them the next one repeats."""
    return token_limit(task.embedder, task.chunking), token_overlap(task.embedder, task.chunking)


def _all_parts(inspected: InspectedOriginal) -> list[TextPart]:
    return [part for part, _ in inspected.parts()]
