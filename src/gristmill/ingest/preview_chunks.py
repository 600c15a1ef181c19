"""Chunk the beginning of a document in another way, and report the chunks: the job `preview_chunks`.

It reads the stored content of the live version, at most `MAX_CHARACTERS` of it, and chunks it where all chunking happens, apart from
the requests. Its result is the first chunks and how many there are. Nothing else is written: killed anywhere, the next attempt begins
again.
"""

from typing import Any

from gristmill import catalog, contents, jobs
from gristmill.db import Database
from gristmill.embedding import Embedder, Embedders
from gristmill.errors import Permanent
from gristmill.ingest.chunk import TextChunk, token_limit, token_overlap
from gristmill.ingest.offload import CpuOffload
from gristmill.ingest.open import embedder_of
from gristmill.ingest.task import base_of
from gristmill.jobs import Done, Job, Outcome
from gristmill.readers import TextPart
from gristmill.work import PreviewChunks

MAX_CHARACTERS = 200_000
_SHOWN_CHUNKS = 50


class ChunkPreviewer:
    """Runs the jobs."""

    def __init__(self, db: Database, embedders: Embedders, offload: CpuOffload) -> None:
        self._db, self._embedders, self._offload = db, embedders, offload

    async def run(self, job: Job) -> Outcome:
        """Chunk a document as the job wants it."""
        work = PreviewChunks.of(job)
        async with self._db.connection() as tx:
            base = await catalog.find_base(tx, base_of(job))
            item = await catalog.find_item(tx, work.item_id)
            if base is None or item is None:
                raise Permanent("The document was deleted.", code="item_not_found")
            embedder = await embedder_of(tx, base, self._embedders)
        wanted = {"maxTokens": work.max_tokens, "overlapTokens": work.overlap_tokens}
        changes = {name: value for name, value in wanted.items() if value is not None}
        merged = {**base.chunking, **item.chunking, **changes}
        chunking = {name: value for name, value in merged.items() if value != 0}  # 0 means the default
        await embedder.load()
        parts, is_whole = await self._read(work)
        limit, overlap = token_limit(embedder, chunking), token_overlap(embedder, chunking)
        (chunks,) = await self._offload.chunk_documents(embedder.tokenizer, limit, overlap, [parts])
        async with self._db.transaction() as tx:
            result = {
                "chunks": [_to_json(chunk, embedder) for chunk in chunks[:_SHOWN_CHUNKS]],
                "total": len(chunks),
                "characters": sum(len(part.text) for part in parts),
                "isWhole": is_whole,
                "maxTokens": limit,
                "overlapTokens": overlap,
            }
            await jobs.save_result(tx, job, result)
            await jobs.complete(tx, job)
        return Done()

    async def _read(self, work: PreviewChunks) -> tuple[list[TextPart], bool]:
        """The beginning of the stored content, and whether that is all of it."""
        parts: list[TextPart] = []
        after = 0
        while after < MAX_CHARACTERS:
            async with self._db.connection() as tx:
                stored = await contents.live_parts(tx, work.item_id, after=after)
            if not stored:
                return parts, True
            parts += [TextPart(part.text, part.page) for part in stored]
            after = stored[-1].start + len(stored[-1].text)
        return parts, False


def _to_json(chunk: TextChunk, embedder: Embedder) -> dict[str, Any]:
    return {
        "index": chunk.index,
        "text": chunk.text,
        "start": chunk.start,
        "end": chunk.end,
        "page": chunk.page,
        "headings": list(chunk.headings),
        "tokens": embedder.count_tokens(chunk.text),
    }
