"""Sets of chunks: all chunks of a base, made with one embedder and one way of chunking. Searches read the live one.

A set that is being built or kept knows which items it lacks in their live version (`missing_item`): whoever changes an item's
live chunks calls `mark_missing` in the same transaction. So a set that lacks nothing can take over at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from psycopg.types.json import Jsonb

from gristmill.catalog.base import BaseId, ChunkSetId
from gristmill.catalog.item import ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx
from gristmill.identity.organisation import OrgId

ChunkSetState = Literal["building", "live", "kept", "removing"]


@dataclass(frozen=True)
class ChunkSet:
    """A row of `chunk_set`. What it says of the live one is in its base's row too."""

    id: ChunkSetId
    base_id: BaseId
    state: ChunkSetState
    embedder: str
    embedder_identity: str
    dimensions: int
    chunking: dict[str, Any]
    changed_at: datetime


class EmbedderUse(NamedTuple):
    """Chunks of a base that were made with an embedder."""

    base_id: BaseId
    base_name: str
    embedder_identity: str
    state: ChunkSetState


async def find_chunk_sets(tx: Tx, base_id: BaseId) -> list[ChunkSet]:
    """All sets of a base, the oldest first."""
    return await queries.many(tx, ChunkSet, "find_chunk_sets", base=base_id)


async def find_embedder_uses(tx: Tx, org: OrgId, name: str) -> list[EmbedderUse]:
    """Bases of an organisation with chunks of this embedder: that answer, are being built or are kept; oldest first."""
    return await queries.many(tx, EmbedderUse, "find_embedder_uses", org=org, name=name)


async def insert_chunk_set(
    tx: Tx, base_id: BaseId, *, embedder: str, identity: str, dimensions: int, chunking: dict[str, Any]
) -> ChunkSet:
    """Add a set that is to be built; the number of items that it lacks is counted by `mark_all_missing`."""
    return await queries.one(
        tx,
        ChunkSet,
        "insert_chunk_set",
        base=base_id,
        embedder=embedder,
        identity=identity,
        dimensions=dimensions,
        chunking=Jsonb(chunking),
    )


async def set_chunk_set_state(
    tx: Tx, set_id: ChunkSetId, state: Literal["building", "kept", "removing"]
) -> bool:
    """building | kept → building | kept | removing; False if it is live, or is being removed."""
    return bool(await queries.values(tx, "set_chunk_set_state", id=set_id, state=state))


async def switch_chunk_set(tx: Tx, base_id: BaseId, set_id: ChunkSetId) -> None:
    """Let searches read another set from now on, and keep the one before. The caller holds the base's exclusive lock."""
    await queries.run(tx, "switch_chunk_set", base=base_id, set=set_id)
    await queries.run(tx, "mark_chunk_set_live", id=set_id)


async def drop_chunk_set(tx: Tx, set_id: ChunkSetId) -> None:
    """Remove a set whose chunks are gone."""
    await queries.run(tx, "drop_chunk_set", id=set_id)


async def find_expired_sets(tx: Tx, retention: timedelta, limit: int) -> list[ChunkSet]:
    """Sets that have been kept for longer than `retention`."""
    return await queries.many(tx, ChunkSet, "find_expired_sets", retention=retention, limit=limit)


@dataclass(frozen=True)
class UnremovedSet:
    """A set that is being removed, without a job."""

    id: ChunkSetId
    base_id: BaseId


async def find_unremoved_sets(tx: Tx, base_id: BaseId | None, limit: int) -> list[UnremovedSet]:
    """Sets that are being removed, without a job that does it."""
    return await queries.many(tx, UnremovedSet, "find_unremoved_sets", base=base_id, limit=limit)


# ── what a set lacks ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class MissingItem:
    """An item that a set lacks, and the content of its live version."""

    id: ItemId
    title: str
    version: int
    content: bytes
    chunking: dict[str, Any]  # what differs from the set's


async def mark_missing(tx: Tx, items: Sequence[ItemId]) -> None:
    """Note, for the sets other than the live one, that the live chunks of these items have changed. The caller has locked them."""
    if items:
        await queries.run(tx, "mark_missing", items=list(items))


async def mark_all_missing(tx: Tx, base_id: BaseId, set_id: ChunkSetId) -> int:
    """Note that a new set lacks every document; how many."""
    return await queries.run(tx, "mark_all_missing", base=base_id, set=set_id)


async def count_missing(tx: Tx, set_id: ChunkSetId) -> int:
    """How many items a set lacks."""
    return (await queries.values(tx, "count_missing", set=set_id))[0]


async def next_missing(
    tx: Tx, set_id: ChunkSetId, limit: int, only: Sequence[ItemId] | None = None
) -> list[MissingItem]:
    """Some of the items that a set lacks, of all or of `only` these."""
    ids = None if only is None else list(only)
    return await queries.many(tx, MissingItem, "next_missing", set=set_id, limit=limit, only=ids)


async def lock_missing(tx: Tx, versions: Sequence[tuple[ItemId, int]]) -> set[ItemId]:
    """Lock those of the items whose version is still live."""
    return set(
        await queries.values(
            tx,
            "lock_missing",
            items=[item_id for item_id, _ in versions],
            versions=[version for _, version in versions],
        )
    )


async def forget_missing(tx: Tx, set_id: ChunkSetId, items: Sequence[ItemId]) -> None:
    """Note that a set has the live versions of these items, which the caller has locked."""
    await queries.run(tx, "forget_missing", set=set_id, items=list(items))
