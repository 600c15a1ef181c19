"""File items in a base, and find those that are filed already, in the caller's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.catalog.base import BaseId
from gristmill.catalog.item import Item, ItemId, NewItem
from gristmill.catalog.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class ExistingItem:
    """An item that is the same thing as the one at `place` in the question, counted from 1."""

    place: int
    id: ItemId
    status: str


async def insert_items(
    tx: Tx,
    base_id: BaseId,
    parent_id: ItemId | None,
    new: Sequence[NewItem],
    *,
    listed_version: int = 0,
    cause: UUID | None = None,
) -> list[Item]:
    """File items under a parent, in order. `listed_version` is the parent's version whose listing found them, 0 for items
    that people added. `cause` is the request that they follow from; without one they have their parent's."""
    count = len(new)
    return await insert_children(tx, base_id, [parent_id] * count, [listed_version] * count, new, cause=cause)


async def insert_children(
    tx: Tx,
    base_id: BaseId,
    parents: Sequence[ItemId | None],
    listed_versions: Sequence[int],
    new: Sequence[NewItem],
    *,
    cause: UUID | None = None,
) -> list[Item]:
    """File items, each under its parent, in order; see `insert_items`."""
    if not new:
        return []
    return await queries.many(
        tx,
        Item,
        "insert_items",
        base=base_id,
        parents=list(parents),
        listed_versions=list(listed_versions),
        cause=cause,
        types=[item.type for item in new],
        titles=[item.title for item in new],
        statuses=[str(item.status) for item in new],
        sources=[Jsonb(item.source) for item in new],
        keys=[item.key for item in new],
        blobs=[item.blob for item in new],
        bodies=[item.body for item in new],
        sizes=[item.size_bytes for item in new],
        codes=[item.error.code if item.error else None for item in new],
        messages=[item.error.message if item.error else None for item in new],
        acls=[Jsonb(item.acl) for item in new],
        metadata=[Jsonb(item.metadata) for item in new],
        chunkings=[Jsonb(item.chunking) for item in new],
        files=[item.file_id for item in new],
        fingerprints=[item.fingerprint for item in new],
        titled_by_source=[item.titled_by_source for item in new],
    )


async def find_existing(
    tx: Tx, base_id: BaseId, parent_id: ItemId | None, new: Sequence[NewItem]
) -> dict[int, ItemId]:
    """Which of `new` are filed under the parent already: their index, and the item."""
    rows = await queries.many(
        tx,
        ExistingItem,
        "find_existing",
        base=base_id,
        parent=parent_id,
        types=[item.type for item in new],
        keys=[item.key for item in new],
    )
    return {row.place - 1: row.id for row in reversed(rows)}


async def find_existing_children(
    tx: Tx, base_id: BaseId, parents: Sequence[ItemId], new: Sequence[NewItem]
) -> dict[int, ItemId]:
    """Which of `new` are filed already, each under its parent: their index, and the item."""
    rows = await queries.many(
        tx,
        ExistingItem,
        "find_existing_children",
        base=base_id,
        parents=list(parents),
        types=[item.type for item in new],
        keys=[item.key for item in new],
    )
    return {row.place - 1: row.id for row in reversed(rows)}
