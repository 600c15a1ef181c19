"""Build what a set of chunks lacks: items by their stored contents, a batch of chunks in each transaction.

    read        the stored parts of the live version's content, and the descriptions of its images; nothing is fetched or parsed
    chunk       as the set wants it; a large document part by part
    embed       texts whose vectors no set of the same embedder has
    write       one fenced transaction: lock the base shared and the items, check that the versions are still live, copy the
                chunks in, and note that items which are complete are not missing any more

An item whose live version changes meanwhile is left out, and built again: it is still missing. Killed anywhere, the chunks that
are written stay, and the next attempt makes the others.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from gristmill import catalog, contents, faults, jobs, usage
from gristmill.catalog import Base, ChunkSet, ItemId, MissingItem, Swap
from gristmill.db import Database, Tx
from gristmill.embedding import Embedder, embed_each
from gristmill.errors import WorkError
from gristmill.ingest.chunk import Chunker, TextChunk, token_limit, token_overlap
from gristmill.ingest.embed import Vector
from gristmill.ingest.images import description_chunks
from gristmill.ingest.offload import CpuOffload
from gristmill.ingest.reserve import Purse
from gristmill.jobs import Activity, Job
from gristmill.readers import TextPart
from gristmill.search import Chunk, publish
from gristmill.search.publish import PreparedWrite, VersionChunks, text_hash
from gristmill.usage import Spending

BATCH_CHUNKS = 64
_ITEMS = 64  # of which a batch is made
_REUSE_SETS = 16  # of other bases that are searched for a text's vector


@dataclass(frozen=True)
class _Piece:
    """Chunks of one item that are written together. `first_image` is the index of its first chunk of an image, in the last
    piece."""

    item: MissingItem
    chunks: Sequence[TextChunk]
    first_image: int | None = None

    @property
    def is_last(self) -> bool:
        """Whether the item is complete with it."""
        return self.first_image is not None


@dataclass(frozen=True)
class _Vectors:
    """The vectors of texts by hash, and how many of them were made for this."""

    by_hash: dict[bytes, Vector]
    reused: int
    spending: Spending


@dataclass(frozen=True)
class _Build:
    """What is built, and by which job."""

    job: Job
    base: Base
    swap: Swap | None  # None: items on their way from another base
    chunk_set: ChunkSet
    embedder: Embedder
    vector_sets: Sequence[UUID] = ()  # where else vectors of the same embedder may be


class ChunkSetBuilder:
    """Builds sets of chunks."""

    def __init__(self, db: Database, offload: CpuOffload, purse: Purse) -> None:
        self._db, self._offload, self._purse = db, offload, purse

    async def build(self, job: Job, base: Base, swap: Swap, chunk_set: ChunkSet, embedder: Embedder) -> bool:
        """Build some of the items that a set lacks; False when it lacks none."""
        return await self._build(_Build(job, base, swap, chunk_set, embedder), None)

    async def build_items(
        self,
        job: Job,
        base: Base,
        chunk_set: ChunkSet,
        embedder: Embedder,
        items: Sequence[ItemId],
        vector_sets: Sequence[UUID],
    ) -> bool:
        """Build some of these items of another base, as far as the set lacks them; False when it lacks none."""
        return await self._build(_Build(job, base, None, chunk_set, embedder, vector_sets), items)

    async def _build(self, build: _Build, only: Sequence[ItemId] | None) -> bool:
        async with self._db.connection() as tx:
            items = await catalog.next_missing(tx, build.chunk_set.id, _ITEMS, only)
        if not items:
            return False
        await build.embedder.load()
        pieces: list[_Piece] = []
        for item in items:
            async for piece in self._pieces(build, item):
                pieces.append(piece)
                if sum(len(piece.chunks) for piece in pieces) >= BATCH_CHUNKS:
                    if not await self._write(build, pieces):
                        return True
                    pieces = []
        await self._write(build, pieces)
        return True

    # ── read and chunk ───────────────────────────────────────────────────────────────────────────────────

    async def _pieces(self, build: _Build, item: MissingItem) -> AsyncGenerator[_Piece]:
        """The chunks of an item that are not written yet; those of its images in any case, because there may be more of them."""
        chunking = {**build.chunk_set.chunking, **item.chunking}
        tokenizer, limit = build.embedder.tokenizer, token_limit(build.embedder, chunking)
        overlap = token_overlap(build.embedder, chunking)
        async with self._db.connection() as tx:
            written = await publish.existing_chunk_indexes(tx, build.chunk_set.id, item.id, item.version)
        chunker, waiting, count = Chunker(tokenizer, limit, overlap), list[TextChunk](), 0
        after, is_last = 0, False
        while not is_last:
            async with self._db.connection() as tx:
                stored = await contents.content_parts(tx, item.content, after)
            is_last = not stored
            parts = [TextPart(part.text, part.page) for part in stored]
            chunker, chunks = await self._offload.feed(tokenizer, chunker, parts, is_last=is_last)
            count += len(chunks)
            waiting += [chunk for chunk in chunks if chunk.index not in written]
            while len(waiting) > BATCH_CHUNKS:
                yield _Piece(item, waiting[:BATCH_CHUNKS])
                waiting = waiting[BATCH_CHUNKS:]
            if stored:
                after = stored[-1].start + len(stored[-1].text)
        images = await self._image_chunks(item, build.embedder, limit)
        numbered = [replace(chunk, index=count + number) for number, chunk in enumerate(images)]
        yield _Piece(item, [*waiting, *numbered], first_image=count)

    async def _image_chunks(self, item: MissingItem, embedder: Embedder, limit: int) -> list[TextChunk]:
        async with self._db.connection() as tx:
            assets = await contents.live_assets(tx, item.id)
        described = [
            (asset.text, asset.start, asset.page)
            for asset in assets
            if asset.kind == "image" and asset.state == "described" and asset.text
        ]
        return await asyncio.to_thread(description_chunks, described, embedder, limit)

    # ── embed ────────────────────────────────────────────────────────────────────────────────────────────

    async def _embed(self, build: _Build, pieces: Sequence[_Piece]) -> _Vectors:
        texts = {text_hash(chunk.text): chunk.text for piece in pieces for chunk in piece.chunks}
        async with self._db.connection() as tx:
            sets = await catalog.find_sets_by_embedder(
                tx, build.base.id, build.embedder.identity, _REUSE_SETS
            )
            every_set = [build.chunk_set.id, *build.vector_sets, *sets]
            known = await publish.reusable_vectors(tx, every_set, list(texts))
        new = {digest: text for digest, text in texts.items() if digest not in known}
        if not new:
            return _Vectors(known, len(texts), Spending(build.embedder.name))
        longest_first = sorted(new, key=lambda digest: -len(new[digest]))
        ordered = [new[digest] for digest in longest_first]
        grant = await self._purse.reserve_for_job(build.embedder, build.job, build.base, ordered)
        try:
            if grant.wait is not None:  # pieces are written whole
                raise grant.wait
            await faults.point("swap.before_call")
            with build.job.during(Activity.AWAY):
                vectors = await embed_each(build.embedder, ordered)
            for digest, vector in zip(longest_first, vectors, strict=True):
                if isinstance(vector, WorkError):
                    raise vector
                known[digest] = vector
        except BaseException:
            await self._give_back(grant.spending)
            raise
        return _Vectors(known, len(texts) - len(new), grant.spending)

    async def _give_back(self, spending: Spending) -> None:
        if spending.reservation is not None:
            await self._purse.release([spending.reservation])

    # ── write ────────────────────────────────────────────────────────────────────────────────────────────

    async def _write(self, build: _Build, pieces: Sequence[_Piece]) -> bool:
        """Embed and write pieces. False if the swap has ended, or an item has changed: the others are written all the same,
        because their vectors are paid."""
        vectors = await self._embed(build, pieces) if pieces else None
        await faults.point("swap.embedded")
        wanted = list(pieces)
        while wanted and vectors is not None:
            versions = [_version_chunks(piece, vectors) for piece in wanted]
            segment = await self._offload.build_segment(*publish.segment_input(versions))
            async with self._db.transaction() as tx:
                await catalog.lock_base_shared(tx, build.base.id)
                await jobs.fence(tx, build.job)
                left = await self._lock_wanted(tx, build, wanted)
                if len(left) == len(wanted):
                    await self._write_pieces(tx, build, wanted, PreparedWrite(versions, segment))
                    await self._count(tx, build, vectors)
                    await faults.point("swap.before_write")
                    break
            wanted = left
        if vectors is not None:
            await self._give_back(vectors.spending)  # nothing is left of it if it was written
        await faults.point("swap.batch_written")
        return len(wanted) == len(pieces)

    async def _lock_wanted(self, tx: Tx, build: _Build, pieces: Sequence[_Piece]) -> list[_Piece]:
        """The pieces of items that are as they were when they were read, locked; none if the swap has ended."""
        if build.swap is not None:
            swap = await catalog.find_swap(tx, build.swap.id)
            if swap is None or swap.state != "building":
                return []
        items = {piece.item.id: piece.item.version for piece in pieces}
        locked = await catalog.lock_missing(tx, list(items.items()))
        if build.swap is None:  # another move to the same base may have built them
            locked &= set(await catalog.still_missing(tx, build.chunk_set.id, list(locked)))
        return [piece for piece in pieces if piece.item.id in locked]

    async def _count(self, tx: Tx, build: _Build, vectors: _Vectors) -> None:
        if build.swap is not None:
            await catalog.count_embedded(
                tx,
                build.swap.id,
                embedded=vectors.spending.texts,
                reused=vectors.reused,
                tokens=vectors.spending.tokens,
            )
        kind = "swap" if build.swap is not None else "move"
        cause = build.swap.id if build.swap is not None else build.job.id
        await usage.settle_base(tx, build.base.org_id, build.base.id, kind, vectors.spending, cause=cause)
        await jobs.reset_attempts(tx, [build.job])

    async def _write_pieces(
        self, tx: Tx, build: _Build, pieces: Sequence[_Piece], prepared: PreparedWrite
    ) -> None:
        set_id = build.chunk_set.id
        complete = [piece.item.id for piece in pieces if piece.is_last]
        for piece in pieces:
            if piece.first_image is not None:
                await publish.discard_from_index(
                    tx, set_id, piece.item.id, piece.item.version, piece.first_image
                )
        await publish.write(tx, set_id, prepared)
        await publish.discard_other_versions(tx, set_id, complete)
        await catalog.forget_missing(tx, set_id, complete)


def _version_chunks(piece: _Piece, vectors: _Vectors) -> VersionChunks:
    chunks = [
        Chunk(
            chunk.index,
            chunk.text,
            chunk.start,
            chunk.end,
            chunk.headings,
            vectors.by_hash[text_hash(chunk.text)],
            chunk.page,
        )
        for chunk in piece.chunks
    ]
    return VersionChunks(piece.item.id, piece.item.title, piece.item.version, chunks)
