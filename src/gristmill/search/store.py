"""The tables of search, one function per question or change, in the caller's transaction."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from gristmill.catalog import ADMIN, Viewer
from gristmill.db import Database, Queries, Tx
from gristmill.search import rows, segment
from gristmill.search.lexicon import Postings
from gristmill.search.scope import Scope
from gristmill.search.segment import Segment, Words

queries = Queries(__package__ or "gristmill.search")

Vector = NDArray[np.float32]
SMALL = 4096  # chunks of a segment whose postings are read whole: some 2 MB
_AT_ONCE = 256 * 1024  # bytes that a COPY sends together

# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Written:
    """Chunks of one version of an item, to be written."""

    item_id: UUID
    title: str
    version: int
    chunks: Sequence[rows.Chunk]


@dataclass(frozen=True)
class Prepared:
    """The same, lexed: all that can be done before a transaction begins."""

    written: Sequence[Written]
    segment: Segment


def to_lex(written: Sequence[Written]) -> tuple[list[Words], NDArray[np.uint64]]:
    """What the segment of these chunks is built from (`segment.build`)."""
    words = [
        Words(0, one.item_id, one.title, chunk.headings, chunk.text)
        for one in written
        for chunk in one.chunks
    ]
    return words, segment.codes_of(chunk.embedding for one in written for chunk in one.chunks)


def prepare(written: Sequence[Written]) -> Prepared:
    """Chunks, ready to be written."""
    return Prepared(written, segment.build(*to_lex(written)))


async def write(tx: Tx, base_id: UUID, prepared: Prepared) -> None:
    """Append chunks to versions that do not answer yet: their rows, and one segment for all of them."""
    entries = [(one, chunk) for one in prepared.written for chunk in one.chunks]
    if not entries:
        return
    nos: list[int] = await queries.values(tx, "numbers", count=len(entries))
    await _copy(
        tx,
        f"copy chunk ({rows.COLUMNS}) from stdin (format binary)".encode(),
        (
            rows.encode(base_id, one.item_id, one.version, no, chunk)
            for no, (one, chunk) in zip(nos, entries, strict=True)
        ),
    )
    await insert_segment(tx, base_id, prepared.segment.numbered(nos))


async def _copy(tx: Tx, statement: bytes, lines: Iterable[bytes]) -> None:
    async with tx.cursor() as cursor, cursor.copy(statement) as copy:
        waiting = bytearray(rows.HEADER)
        for line in lines:
            waiting += line
            if len(waiting) > _AT_ONCE:
                await copy.write(bytes(waiting))
                waiting.clear()
        await copy.write(bytes(waiting) + rows.TRAILER)


async def insert_segment(tx: Tx, base_id: UUID, made: Segment) -> None:
    """Store a segment."""
    stored = segment.store_form(made.arrays)
    await queries.run(
        tx,
        "insert_segment",
        base=base_id,
        recipe=made.recipe,
        chunks=len(made.arrays.nos),
        tokens=made.tokens,
        languages=sorted(made.languages),
        nos=stored.nos,
        items=stored.items,
        lengths=stored.lengths,
        codes=stored.codes,
        lexicon=made.words.lexicon.data,
        places=made.words.places.tobytes(),
        counts=made.words.counts.tobytes(),
    )


async def written(tx: Tx, base_id: UUID, item_id: UUID, version: int) -> set[int]:
    """Which chunks of a version are there."""
    return set(await queries.values(tx, "written", base=base_id, item=item_id, version=version))


async def vectors(tx: Tx, bases: Sequence[UUID], hashes: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
    """The vectors that these texts have in any of the bases, by the texts' hashes."""
    wanted = [UUID(bytes=digest) for digest in hashes]
    async with tx.cursor(binary=True) as cursor:
        await cursor.execute(queries["vectors"], {"bases": list(bases), "hashes": wanted})
        return {row[0].bytes: rows.vector(row[1]) for row in await cursor.fetchall()}


async def drop_unpublished(tx: Tx, base_id: UUID, item_id: UUID) -> None:
    """Remove what was written under versions that do not answer."""
    await queries.run(tx, "drop_unpublished", base=base_id, item=item_id)


async def drop_other_versions(tx: Tx, base_id: UUID, item_ids: Sequence[UUID]) -> None:
    """Remove every version of these items but the one that answers."""
    await queries.run(tx, "drop_other_versions", base=base_id, items=list(item_ids))


async def drop_version(tx: Tx, base_id: UUID, item_id: UUID, version: int) -> None:
    """Remove what was written of one version."""
    await queries.run(tx, "drop_version", base=base_id, item=item_id, version=version)


async def cut_back(tx: Tx, base_id: UUID, item_id: UUID, version: int, first: int) -> None:
    """Remove what was written of one version, from the chunk of this number on."""
    await queries.run(tx, "cut_back", base=base_id, item=item_id, version=version, first=first)


async def drop_items(tx: Tx, base_id: UUID, item_ids: Sequence[UUID]) -> int:
    """Remove every chunk of these items; how many there were."""
    return await queries.run(tx, "drop_items", base=base_id, items=list(item_ids))


# ── searching ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SegmentRow:
    """A segment, without its arrays."""

    id: int
    recipe: int
    chunks: int
    languages: list[str]


@dataclass(frozen=True)
class ArraysRow:
    """The arrays of a segment and its lexicon, as stored; of a small one its postings too, else they are empty."""

    id: int
    nos: bytes
    items: bytes
    lengths: bytes
    codes: bytes
    lexicon: bytes
    places: bytes
    counts: bytes


@dataclass(frozen=True)
class Stretch:
    """Postings of a segment, from one up to another."""

    segment: int
    start: int
    end: int


@dataclass(frozen=True)
class Scored:
    """A chunk that answers."""

    id: UUID
    no: int
    score: float


@asynccontextmanager
async def reading(db: Database) -> AsyncGenerator[Tx]:
    """A transaction for searching: all its statements see the same moment, each is planned for its own values."""
    async with db.transaction() as tx:
        await queries.run(tx, "one_snapshot")
        await queries.run(tx, "plan_each")
        yield tx


async def segments(tx: Tx, base_id: UUID) -> list[SegmentRow]:
    """The segments of a base, oldest first."""
    return await queries.many(tx, SegmentRow, "segments", base=base_id)


async def segment_arrays(tx: Tx, base_id: UUID, ids: Sequence[int]) -> list[ArraysRow]:
    """What searching keeps of segments."""
    async with tx.cursor(binary=True) as cursor:
        await cursor.execute(queries["segment_arrays"], {"base": base_id, "ids": list(ids), "small": SMALL})
        return [ArraysRow(*row) for row in await cursor.fetchall()]


async def postings(tx: Tx, base_id: UUID, wanted: Sequence[Stretch]) -> list[Postings]:
    """The postings of these stretches, in their order; of a segment that is gone meanwhile none."""
    async with tx.cursor(binary=True) as cursor:
        await cursor.execute(
            queries["postings"],
            {
                "base": base_id,
                "segments": [one.segment for one in wanted],
                "starts": [one.start for one in wanted],
                "sizes": [one.end - one.start for one in wanted],
            },
        )
        return [
            Postings(np.frombuffer(places or b"", "<u2"), np.frombuffer(counts or b"", np.uint8))
            for places, counts in await cursor.fetchall()
        ]


async def scope(tx: Tx, base_id: UUID, asked: Scope, limit: int) -> list[UUID]:
    """The items that a search may answer from, at most `limit`."""
    return await queries.values(tx, "scope", base=base_id, limit=limit, **asked.parameters())


async def nearest(tx: Tx, base_id: UUID, asked: Scope, vector: Vector, limit: int) -> list[Scored]:
    """The nearest of all chunks that answer, best first."""
    return await queries.many(
        tx, Scored, "nearest", base=base_id, vector=literal(vector), limit=limit, **asked.parameters()
    )


async def nearest_of_items(
    tx: Tx, base_id: UUID, asked: Scope, vector: Vector, items: Sequence[UUID], limit: int
) -> list[Scored]:
    """The nearest of these items' chunks, best first."""
    return await queries.many(
        tx,
        Scored,
        "nearest_of_items",
        base=base_id,
        vector=literal(vector),
        items=list(items),
        limit=limit,
        **asked.parameters(),
    )


async def measured(tx: Tx, base_id: UUID, asked: Scope, vector: Vector, nos: Sequence[int]) -> list[Scored]:
    """Those of the chunks that answer, with how near they are."""
    return await queries.many(
        tx, Scored, "measured", base=base_id, vector=literal(vector), nos=list(nos), **asked.parameters()
    )


async def answering(tx: Tx, base_id: UUID, asked: Scope, nos: Sequence[int]) -> dict[int, UUID]:
    """Those of the chunks that answer: number and id."""
    found = await queries.many(tx, Scored, "answering", base=base_id, nos=list(nos), **asked.parameters())
    return {row.no: row.id for row in found}


async def texts(tx: Tx, base_id: UUID, nos: Sequence[int]) -> list[Words]:
    """What is searched of chunks by words."""
    return await queries.many(tx, Words, "texts", base=base_id, nos=list(nos))


def literal(vector: Vector) -> str:
    """A vector as a parameter takes it."""
    return "[" + ",".join(f"{value:.5g}" for value in vector.tolist()) + "]"


# ── showing ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ChunkRow:
    """A chunk that answers, with what its item adds."""

    id: UUID
    item_id: UUID
    base_id: UUID
    version: int
    index: int
    no: int
    text: str
    start: int
    end: int
    page: int | None
    headings: list[str]
    title: str
    type: str
    source: dict[str, Any]
    metadata: dict[str, Any]


async def chunks(tx: Tx, base_id: UUID, asked: Scope, nos: Sequence[int]) -> dict[int, ChunkRow]:
    """The chunks of these numbers that answer at this moment, by number."""
    found = await queries.many(tx, ChunkRow, "chunks", base=base_id, nos=list(nos), **asked.parameters())
    return {row.no: row for row in found}


@dataclass(frozen=True)
class Neighbour:
    """A chunk beside a hit."""

    item_id: UUID
    index: int
    text: str


async def neighbours(
    tx: Tx, base_id: UUID, middles: Sequence[ChunkRow], around: int
) -> dict[tuple[UUID, int], str]:
    """The texts of the chunks around these, by item and place; the caller may see the items."""
    found = await queries.many(
        tx,
        Neighbour,
        "neighbours",
        base=base_id,
        items=[row.item_id for row in middles],
        versions=[row.version for row in middles],
        indexes=[row.index for row in middles],
        around=around,
    )
    return {(row.item_id, row.index): row.text for row in found}


async def list_chunks(
    tx: Tx,
    base_id: UUID,
    item_id: UUID,
    *,
    limit: int,
    after: tuple[UUID, int] | None = None,
    viewer: Viewer = ADMIN,
) -> list[ChunkRow]:
    """The chunks that answer, of an item and all below it, in order."""
    after_item, after_index = after or (None, None)
    return await queries.many(
        tx,
        ChunkRow,
        "list_chunks",
        base=base_id,
        item=item_id,
        limit=limit,
        after_item=after_item,
        after_index=after_index,
        eyes=viewer.eyes,
    )
