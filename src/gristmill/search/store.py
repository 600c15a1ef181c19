"""The tables of search: one function per statement, in the caller's transaction."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg.types.json import Jsonb

from gristmill.catalog import ADMIN, Base, Viewer
from gristmill.db import Database, Queries, Tx
from gristmill.search import binary_copy, segment
from gristmill.search.literals import number_array, vector_literal
from gristmill.search.scope import Scope
from gristmill.search.segment import ChunkText, Segment

queries = Queries(__package__ or "gristmill.search")
Vector = NDArray[np.float32]
_COPY_BUFFER = 256 * 1024  # bytes

# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class VersionChunks:
    """The chunks of one version of an item."""

    item_id: UUID
    title: str
    version: int
    chunks: Sequence[binary_copy.Chunk]


@dataclass(frozen=True)
class PreparedWrite:
    """Chunks and their segment, ready to be written: everything that needs no transaction is done."""

    versions: Sequence[VersionChunks]
    segment: Segment


def segment_input(versions: Sequence[VersionChunks]) -> tuple[list[ChunkText], NDArray[np.uint64]]:
    """The arguments of `segment.build` for these chunks."""
    texts = [
        ChunkText(0, version.item_id, version.title, chunk.headings, chunk.text)
        for version in versions
        for chunk in version.chunks
    ]
    return texts, segment.pack_signs(chunk.embedding for version in versions for chunk in version.chunks)


def prepare_write(versions: Sequence[VersionChunks]) -> PreparedWrite:
    """Build the segment of these chunks."""
    return PreparedWrite(versions, segment.build(*segment_input(versions)))


async def write(tx: Tx, set_id: UUID, prepared: PreparedWrite) -> None:
    """Insert chunks of versions that are not live yet, and one segment for all of them."""
    if nos := await insert_chunks(tx, set_id, prepared.versions):
        await insert_segment(tx, set_id, prepared.segment.with_numbers(nos))


async def insert_chunks(tx: Tx, set_id: UUID, versions: Sequence[VersionChunks]) -> list[int]:
    """Insert chunks of versions that are not live yet; their numbers, in order."""
    entries = [(version, chunk) for version in versions for chunk in version.chunks]
    if not entries:
        return []
    nos: list[int] = await queries.values(tx, "next_chunk_numbers", count=len(entries))
    await _copy(
        tx,
        f"copy chunk ({binary_copy.COLUMNS}) from stdin (format binary)".encode(),
        (
            binary_copy.encode_chunk(set_id, version.item_id, version.version, no, chunk)
            for no, (version, chunk) in zip(nos, entries, strict=True)
        ),
    )
    return nos


async def _copy(tx: Tx, statement: bytes, encoded_rows: Iterable[bytes]) -> None:
    async with tx.cursor() as cursor, cursor.copy(statement) as copy:
        buffer = bytearray(binary_copy.HEADER)
        for encoded_row in encoded_rows:
            buffer += encoded_row
            if len(buffer) > _COPY_BUFFER:
                await copy.write(bytes(buffer))
                buffer.clear()
        await copy.write(bytes(buffer) + binary_copy.TRAILER)


async def insert_segment(tx: Tx, set_id: UUID, new: Segment) -> None:
    """Store a segment."""
    encoded = segment.encode_arrays(new.arrays)
    await queries.run(
        tx,
        "insert_segment",
        set=set_id,
        lexer_version=new.lexer_version,
        chunks=len(new.arrays.nos),
        tokens=new.tokens,
        languages=sorted(new.languages),
        chunks_by_language=Jsonb(dict(new.chunks_by_language)),
        nos=encoded.nos,
        items=encoded.items,
        lengths=encoded.lengths,
        signs=encoded.signs,
        terms=new.index.terms.data,
        ordinals=new.index.ordinals.tobytes(),
        counts=new.index.counts.tobytes(),
    )


async def existing_indexes(tx: Tx, set_id: UUID, item_id: UUID, version: int) -> set[int]:
    """The indexes of the chunks of a version."""
    return set(await queries.values(tx, "existing_indexes", set=set_id, item=item_id, version=version))


async def next_index(tx: Tx, set_id: UUID, item_id: UUID, version: int) -> int:
    """The index after that of the last chunk of a version."""
    return (await queries.values(tx, "next_index", set=set_id, item=item_id, version=version))[0]


async def find_vectors(
    tx: Tx, sets: Sequence[UUID], hashes: Sequence[bytes]
) -> dict[bytes, NDArray[np.float32]]:
    """Vectors of these texts from any of the sets, by text hash."""
    digests = [UUID(bytes=digest) for digest in hashes]
    async with tx.cursor(binary=True) as cursor:
        await cursor.execute(queries["find_vectors"], {"sets": list(sets), "hashes": digests})
        return {row[0].bytes: binary_copy.decode_vector(row[1]) for row in await cursor.fetchall()}


async def drop_unpublished(tx: Tx, base_id: UUID, item_id: UUID) -> None:
    """Delete the chunks of versions that are not live."""
    await queries.run(tx, "drop_unpublished", base=base_id, item=item_id)


async def drop_other_versions(tx: Tx, base_id: UUID, item_ids: Sequence[UUID]) -> None:
    """Delete the chunks of all versions of these items except the live one."""
    await queries.run(tx, "drop_other_versions", base=base_id, items=list(item_ids))


async def drop_begun(tx: Tx, base_id: UUID, set_id: UUID) -> None:
    """Delete the chunks of versions of active items that are not live."""
    await queries.run(tx, "drop_begun", base=base_id, set=set_id)


async def drop_not_live(tx: Tx, set_id: UUID, item_ids: Sequence[UUID]) -> None:
    """Delete the chunks of versions of these items that are not live."""
    await queries.run(tx, "drop_not_live", set=set_id, items=list(item_ids))


async def drop_version(tx: Tx, set_id: UUID, item_id: UUID, version: int) -> None:
    """Delete the chunks of one version."""
    await queries.run(tx, "drop_version", set=set_id, item=item_id, version=version)


async def drop_from_index(tx: Tx, set_id: UUID, item_id: UUID, version: int, first_index: int) -> None:
    """Delete the chunks of one version from `first_index` on."""
    await queries.run(
        tx, "drop_from_index", set=set_id, item=item_id, version=version, first_index=first_index
    )


async def drop_items(tx: Tx, base_id: UUID, item_ids: Sequence[UUID]) -> int:
    """Delete every chunk of these items; returns how many there were."""
    return await queries.run(tx, "drop_items", base=base_id, items=list(item_ids))


async def drop_leftovers(tx: Tx, base_id: UUID, limit: int) -> int:
    """Remove chunks of versions that were never published, and of items that no longer exist; of how many items."""
    return len(await queries.values(tx, "drop_leftovers", base=base_id, limit=limit))


# ── searching ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SegmentRow:
    """A segment without its data."""

    id: int
    lexer_version: int
    chunks: int
    languages: list[str]
    chunks_by_language: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class ArraysRow:
    """The arrays and terms of a segment, as stored."""

    id: int
    nos: bytes
    items: bytes
    lengths: bytes
    signs: bytes
    terms: bytes


@dataclass(frozen=True)
class ScoredChunk:
    """A visible chunk with its score."""

    id: UUID
    no: int
    score: float
    visible: int = 1  # how many of the chunks that it was chosen from are visible


def read_transaction(db: Database) -> AbstractAsyncContextManager[Tx]:
    """A read-only transaction with one snapshot; PostgreSQL plans each statement for its actual parameters."""
    return db.snapshot()


async def list_segments(tx: Tx, set_id: UUID) -> list[SegmentRow]:
    """The segments of a set, oldest first."""
    return await queries.many(tx, SegmentRow, "list_segments", set=set_id)


async def read_segment_arrays(tx: Tx, set_id: UUID, ids: Sequence[int]) -> list[ArraysRow]:
    """The arrays and terms of segments."""
    async with tx.cursor(binary=True) as cursor:
        await cursor.execute(queries["read_segment_arrays"], {"set": set_id, "ids": list(ids)})
        return [ArraysRow(*row) for row in await cursor.fetchall()]


async def items_in_scope(tx: Tx, base_id: UUID, scope: Scope, limit: int) -> list[UUID]:
    """The items in scope, at most `limit`."""
    return await queries.values(tx, "items_in_scope", base=base_id, limit=limit, **scope.parameters())


async def item_ids_in_scope(tx: Tx, base_id: UUID, scope: Scope, limit: int) -> bytes:
    """The ids of the items in scope, at most `limit`, 16 bytes each."""
    if scope.viewer.principals is None:
        items = await items_in_scope(tx, base_id, scope, limit)
        return b"".join(item.bytes for item in items)
    ids: list[bytes | None] = await queries.values(
        tx, "visible_items", base=base_id, limit=limit, **scope.parameters()
    )
    return ids[0] or b""


async def nearest_chunks(tx: Tx, base: Base, scope: Scope, vector: Vector, limit: int) -> list[ScoredChunk]:
    """The nearest visible chunks, best first."""
    return await queries.many(
        tx,
        ScoredChunk,
        "nearest_chunks",
        base=base.id,
        set=base.chunk_set,
        vector=vector_literal(vector),
        limit=limit,
        **scope.parameters(),
    )


async def nearest_chunks_of_items(
    tx: Tx, base: Base, scope: Scope, vector: Vector, items: Sequence[UUID], limit: int
) -> list[ScoredChunk]:
    """The nearest visible chunks of these items, best first."""
    return await queries.many(
        tx,
        ScoredChunk,
        "nearest_chunks_of_items",
        base=base.id,
        set=base.chunk_set,
        vector=vector_literal(vector),
        items=list(items),
        limit=limit,
        **scope.parameters(),
    )


async def similarities(
    tx: Tx, base: Base, scope: Scope, vector: Vector, nos: Sequence[int], limit: int
) -> tuple[list[ScoredChunk], int]:
    """The visible ones of these chunks that are nearest, best first, and how many are visible."""
    rows = await queries.many(
        tx,
        ScoredChunk,
        "similarities",
        base=base.id,
        set=base.chunk_set,
        vector=vector_literal(vector),
        nos=number_array(nos),
        limit=limit,
        **scope.parameters(),
    )
    return rows, rows[0].visible if rows else 0


async def visible_chunk_ids(tx: Tx, base: Base, scope: Scope, nos: Sequence[int]) -> dict[int, UUID]:
    """The ids of the visible ones of these chunks, by number."""
    rows = await queries.many(
        tx,
        ScoredChunk,
        "visible_chunk_ids",
        base=base.id,
        set=base.chunk_set,
        nos=number_array(nos),
        **scope.parameters(),
    )
    return {row.no: row.id for row in rows}


async def chunk_texts(tx: Tx, set_id: UUID, nos: Sequence[int]) -> list[ChunkText]:
    """The texts of chunks that keyword search indexes."""
    return await queries.many(tx, ChunkText, "chunk_texts", set=set_id, nos=list(nos))


# ── hits ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ChunkRow:
    """A live chunk with the columns of its item that hits show."""

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
    index_title: str  # the title with the words that the document adds to it
    type: str
    source: dict[str, Any]
    metadata: dict[str, Any]
    mark: str | None = None  # disabled or pinned


async def visible_chunks(tx: Tx, base: Base, scope: Scope, nos: Sequence[int]) -> dict[int, ChunkRow]:
    """The visible ones of these chunks, by number."""
    parameters = {"base": base.id, "set": base.chunk_set, "nos": number_array(nos)} | scope.parameters()
    rows = await queries.many(tx, ChunkRow, "visible_chunks", **parameters)
    return {row.no: row for row in rows}


@dataclass(frozen=True)
class Neighbour:
    """A chunk next to a hit."""

    item_id: UUID
    index: int
    text: str


async def neighbour_texts(
    tx: Tx, set_id: UUID, middles: Sequence[ChunkRow], around: int
) -> dict[tuple[UUID, int], str]:
    """The texts of the chunks around these, by item and index. The caller has checked that the items are visible."""
    rows = await queries.many(
        tx,
        Neighbour,
        "neighbour_texts",
        set=set_id,
        width=around,
        items=[row.item_id for row in middles],
        versions=[row.version for row in middles],
        indexes=[row.index for row in middles],
    )
    return {(row.item_id, row.index): row.text for row in rows}


async def list_chunks(
    tx: Tx,
    base_id: UUID,
    item_id: UUID,
    *,
    limit: int,
    after: tuple[UUID, int] | None = None,
    viewer: Viewer = ADMIN,
) -> list[ChunkRow]:
    """The live chunks of an item and of all items below it, in order."""
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
        principals=viewer.principals,
    )
