"""The catalog's tables, one function per question or change, in the caller's transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from gristmill.catalog.base import Base, BaseId
from gristmill.catalog.item import Item, ItemId, NewItem
from gristmill.catalog.lifecycle import ItemStatus
from gristmill.db import Queries, Tx

queries = Queries(__package__ or "gristmill.catalog")


async def insert_base(
    tx: Tx, *, name: str, embedder: str, embedder_identity: str, dimensions: int, chunking: dict[str, Any]
) -> Base | None:
    """Create a base; None when the name is taken."""
    return await queries.maybe(
        tx,
        Base,
        "insert_base",
        name=name,
        embedder=embedder,
        embedder_identity=embedder_identity,
        dimensions=dimensions,
        chunking=Jsonb(chunking),
    )


async def find_base(tx: Tx, base_id: BaseId) -> Base | None:
    """The base of this id, unless it is being deleted."""
    return await queries.maybe(tx, Base, "base", id=base_id)


async def lock_base(tx: Tx, base_id: BaseId) -> Base | None:
    """The same, with the right to change what is in it until the transaction ends."""
    return await queries.maybe(tx, Base, "base_for_change", id=base_id)


async def find_base_named(tx: Tx, name: str) -> Base | None:
    """The base of this name, whatever its case."""
    return await queries.maybe(tx, Base, "base_by_name", name=name)


async def list_bases(tx: Tx, *, limit: int, after: BaseId | None = None) -> list[Base]:
    """Bases in the order of their making."""
    return await queries.many(tx, Base, "bases", after=after, limit=limit)


@dataclass(frozen=True)
class _Count:
    base_id: BaseId
    status: str
    count: int


async def count_items(tx: Tx, bases: Sequence[BaseId]) -> dict[BaseId, dict[str, int]]:
    """Items by status, for each of the bases."""
    found: dict[BaseId, dict[str, int]] = {base_id: {} for base_id in bases}
    for row in await queries.many(tx, _Count, "item_counts", bases=list(bases)):
        found[row.base_id][row.status] = row.count
    return found


async def insert_items(
    tx: Tx, base_id: BaseId, parent_id: ItemId | None, new: Sequence[NewItem]
) -> list[Item]:
    """File leaves under a parent, in order, as `processing`."""
    return await queries.many(
        tx,
        Item,
        "insert_items",
        base=base_id,
        parent=parent_id,
        types=[item.type for item in new],
        titles=[item.title for item in new],
        sources=[Jsonb(item.source) for item in new],
        bodies=[item.body for item in new],
        sizes=[item.size_bytes for item in new],
    )


async def find_item(tx: Tx, item_id: ItemId) -> Item | None:
    """The item of this id, unless it is being deleted."""
    return await queries.maybe(tx, Item, "item", id=item_id)


async def list_items(
    tx: Tx,
    base_id: BaseId,
    *,
    limit: int,
    after: ItemId | None = None,
    parent: ItemId | None = None,
    everywhere: bool = False,
    status: str | None = None,
    type: str | None = None,  # noqa: A002
) -> list[Item]:
    """Roots, children of `parent`, or with `everywhere` all items, in the order of their making."""
    return await queries.many(
        tx,
        Item,
        "items",
        base=base_id,
        limit=limit,
        after=after,
        parent=parent,
        everywhere=everywhere,
        status=status,
        type=type,
    )


async def note_text(tx: Tx, item_id: ItemId) -> str | None:
    """A note's text."""
    found = await queries.values(tx, "body", id=item_id)
    return found[0] if found else None


async def set_stage(tx: Tx, item_id: ItemId, version: int, status: ItemStatus) -> bool:
    """Show how far a version is; False when it is no longer wanted."""
    return bool(await queries.values(tx, "set_stage", id=item_id, version=version, status=str(status)))


async def set_failed(tx: Tx, item_id: ItemId, version: int, code: str, message: str) -> bool:
    """The attempt at a version failed for good; False when it is no longer wanted."""
    return bool(
        await queries.values(tx, "set_failed", id=item_id, version=version, code=code, message=message)
    )


async def abandon(tx: Tx, item_id: ItemId, code: str, message: str) -> bool:
    """Fail an item that is being worked on, and want nothing of that work; False when it was at rest."""
    return bool(await queries.values(tx, "abandon", id=item_id, code=code, message=message))


async def publish(tx: Tx, item_id: ItemId, version: int, *, chunks: int, warnings: Sequence[str]) -> bool:
    """Make `version` the one that answers; False when it is no longer wanted."""
    return bool(
        await queries.values(
            tx, "publish_item", id=item_id, version=version, chunks=chunks, warnings=list(warnings)
        )
    )


async def keep_content(
    tx: Tx, item_id: ItemId, version: int, *, digest: bytes, text: str, title: str | None
) -> None:
    """Store the canonical content of a version; equal content is stored once."""
    await queries.run(tx, "keep_content", hash=digest, text=text, title=title)
    await queries.run(tx, "keep_version", item=item_id, version=version, hash=digest)


async def live_content(tx: Tx, item_id: ItemId) -> str | None:
    """The canonical content of the version that answers."""
    found = await queries.values(tx, "live_content", id=item_id)
    return found[0] if found else None


async def find_stuck(tx: Tx) -> list[ItemId]:
    """Items that nothing will move on: a healthy system has none."""
    return await queries.values(tx, "without_job")
