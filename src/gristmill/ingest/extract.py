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

from gristmill import catalog, priority
from gristmill.catalog import ContentAsset, EmbeddedDocument
from gristmill.db import Database
from gristmill.ingest import read, readers, tables
from gristmill.ingest.chunk import Chunker, Piece, limit_of
from gristmill.ingest.crew import Crew
from gristmill.ingest.document import Document, Window
from gristmill.ingest.readers import Asset, Embedded, Part, ReaderPool, ReadLimits, Report
from gristmill.ingest.stage import Stage
from gristmill.operations import uploads
from gristmill.operations.originals import Originals
from gristmill.organisation import own
from gristmill.sources import Original

CUTTERS = 2  # threads that decode and cut
AT_ONCE = 64  # small documents that are cut together
_SMALL = 1 << 16  # bytes of a document that is cut whole
WINDOW = 64  # pieces that are cut before they are handed on
# What is inside a document is laid down, and not opened: each is an item of its own (embedded.py).
LIMITS = ReadLimits(depth=1)
READER = readers.reader_identity(LIMITS)
_PAGED = b"%PDF-"  # how documents begin whose reading can go on behind a page


@dataclass(frozen=True)
class _Small:
    """A document that is cut whole."""

    tokenizer: Tokenizer
    limit: int
    parts: list[Part]


class Extractor:
    """Reads documents."""

    def __init__(self, db: Database, originals: Originals, pool: ReaderPool | None, crew: Crew) -> None:
        self._db, self._originals, self._pool, self._crew = db, originals, pool, crew
        self._cutters = ThreadPoolExecutor(CUTTERS, thread_name_prefix="cut", initializer=priority.step_back)
        self._cutting: Stage[_Small, list[Piece]] = Stage(self._cut_small, size=AT_ONCE)

    def close(self) -> None:
        """Nothing more will come."""
        self._cutters.shutdown(wait=False)

    async def begin(self, original: Original) -> read.Reading:
        """Look at the bytes, and see who reads them."""
        return await self._cut(partial(read.begin, others=READER if self._pool else None), original)

    async def recall(self, document: Document) -> None:
        """What is known to be inside a document that was read before."""
        async with self._db.connection() as tx:
            document.embedded = await catalog.embedded_in(tx, document.digest)
            document.assets = await catalog.assets_in(tx, document.digest)

    async def snapshot(self, document: Document, reading: read.Reading) -> None:
        """Keep a page's bytes as they were fetched, and what tells later whether it changed."""
        data = reading.original.data

        async def once() -> AsyncGenerator[bytes]:
            yield data

        blob = await uploads.keep(self._db, self._originals.blobs, once, org=document.base.org_id)
        document.original = blob.hash
        document.validators = {**reading.original.metadata, "reader": reading.reader}

    async def windows(
        self, document: Document, reading: read.Reading, chunker: Chunker
    ) -> AsyncGenerator[Window]:
        """The document's windows: from its bytes, or from what was made of them before."""
        if reading.is_simple:
            return self._here(document, reading, chunker)
        async with self._db.connection() as tx:
            kept = await catalog.whole_content(tx, reading.digest)
        if kept is not None:
            document.warnings = kept
            await self.recall(document)
            return self._joined(document, self._kept(reading.digest), chunker)
        return self._joined(document, self._by_readers(document, reading), chunker)

    async def _joined(
        self, document: Document, parts: AsyncGenerator[Part], chunker: Chunker
    ) -> AsyncGenerator[Window]:
        """Windows of parts that come one by one; how many will come is not known."""
        waiting: list[Part] = []
        pieces: list[Piece] = []
        left = 1.0
        async with aclosing(parts):
            async for part in parts:
                started = time.monotonic()
                waiting.append(part)
                pieces += await self._cut(chunker.feed, part.text, part.page)
                document.spent.read += time.monotonic() - started
                if len(pieces) >= WINDOW:
                    left *= 0.9
                    yield Window(waiting, pieces, 1 - left)
                    waiting, pieces = [], []
        yield Window(waiting, [*pieces, *await self._cut(chunker.finish)], 1.0, last=True)

    async def _kept(self, digest: bytes, before: int | None = None) -> AsyncGenerator[Part]:
        """The parts of a content that were made before, up to a place."""
        after = 0
        while True:
            async with self._db.connection() as tx:
                found = await catalog.parts_of(tx, digest, after)
            for part in found:
                if before is not None and part.start >= before:
                    return
                yield Part(part.text, part.page)
            if not found:
                return
            after = found[-1].start + len(found[-1].text)

    async def _by_readers(self, document: Document, reading: read.Reading) -> AsyncGenerator[Part]:
        """The parts that a reader makes of the document; what else it finds goes onto the document."""
        assert self._pool is not None
        original = reading.original
        page, begun = await self._resume(document, reading)
        start = begun
        if start:
            async with aclosing(self._kept(reading.digest, before=start)) as kept:
                async for part in kept:
                    yield part
        with tempfile.TemporaryDirectory(dir=self._originals.scratch, prefix="gristmill-read-") as folder:
            path = original.path or Path(folder) / "original"
            if original.path is None:
                await asyncio.to_thread(path.write_bytes, original.data)
            results = readers.read(
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
                        case Part():
                            tables.find(document, result, start)
                            start += len(result.text)
                            yield result
                        case Embedded():
                            await self._keep_embedded(document, result)
                        case Asset():
                            await self._keep_asset(document, result, begun)
                        case Report():
                            document.warnings = [*result.warnings]
                            document.inline = [
                                own(document.base.org_id, bytes.fromhex(digest))
                                for digest in result.recognised
                            ]

    async def _resume(self, document: Document, reading: read.Reading) -> tuple[int, int]:
        """The last page that need not be read again, and where what follows it begins in the content."""
        if reading.head[: len(_PAGED)] != _PAGED:
            return 0, 0
        async with self._db.connection() as tx:
            found = await catalog.resume_point(tx, reading.digest)
        if found is None:
            return 0, 0
        await self.recall(document)
        document.spent.pages_kept = found.page - 1
        return found.page - 1, found.start

    async def _keep_embedded(self, document: Document, found: Embedded) -> None:
        blob = await uploads.keep_file(self._db, self._originals.blobs, found.path, document.base.org_id)
        await asyncio.to_thread(found.path.unlink)
        one = EmbeddedDocument(len(document.embedded) + 1, found.name, blob.hash, blob.size)
        if document.holds(one):
            return
        document.embedded.append(one)
        document.unkept.append(one)

    async def _keep_asset(self, document: Document, found: Asset, begun: int) -> None:
        """`begun` is where the content begins that the reader counts from."""
        blob = await uploads.keep_file(self._db, self._originals.blobs, found.path, document.base.org_id)
        place = begun + found.start
        document.add_asset(
            ContentAsset(
                blob.hash,
                len(document.assets) + 1,
                found.kind,
                found.media_type,
                blob.size,
                found.page,
                place,
                place,
                found.text,
                found.small,
                blob.hash,
            )
        )

    async def _here(
        self, document: Document, reading: read.Reading, chunker: Chunker
    ) -> AsyncGenerator[Window]:
        if reading.size <= _SMALL:
            started = time.monotonic()
            parts = await self._cut(_whole, reading)
            limit = limit_of(document.embedder, document.base.chunking)
            pieces = await self._cutting.put(_Small(document.embedder.tokenizer, limit, parts))
            document.spent.read += time.monotonic() - started
            yield Window(parts, pieces, 1.0, last=True)
            return
        windows = _cut(reading, chunker)
        while True:
            started = time.monotonic()
            window = await self._cut(next, windows, None)
            document.spent.read += time.monotonic() - started
            if window is None:
                return
            yield window

    async def _cut_small(self, documents: Sequence[_Small]) -> list[list[Piece]]:
        """The pieces of each; those that are cut alike go together."""
        found: dict[int, list[Piece]] = {}
        alike: dict[tuple[Tokenizer, int], list[int]] = {}
        for place, one in enumerate(documents):
            alike.setdefault((one.tokenizer, one.limit), []).append(place)
        for (tokenizer, limit), places in alike.items():
            cut = await self._crew.cut(tokenizer, limit, [documents[place].parts for place in places])
            found |= zip(places, cut, strict=True)
        return [found[place] for place in range(len(documents))]

    async def _cut(self, work: Any, *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._cutters, work, *given)


def _whole(reading: read.Reading) -> list[Part]:
    return [part for part, _ in reading.parts()]


def _cut(reading: read.Reading, chunker: Chunker) -> Iterator[Window]:
    """Windows of some pieces; a small document is one."""
    parts: list[Part] = []
    pieces: list[Piece] = []
    for part, share in reading.parts():
        parts.append(part)
        pieces += chunker.feed(part.text, part.page)
        if len(pieces) >= WINDOW:
            yield Window(parts, pieces, share)
            parts, pieces = [], []
    yield Window(parts, [*pieces, *chunker.finish()], 1.0, last=True)
