"""The moves of an item, one function each, in the caller's transaction. Each tells whether it took place."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.catalog.item import Item, ItemId
from gristmill.catalog.lifecycle import ItemStatus
from gristmill.catalog.store import queries
from gristmill.db import Tx


async def resume_version(tx: Tx, item_id: ItemId, version: int, status: ItemStatus) -> bool:
    """Show how far a version is; False when it is no longer wanted."""
    return bool(await queries.values(tx, "set_stage", id=item_id, version=version, status=str(status)))


async def is_wanted(tx: Tx, item_id: ItemId, version: int) -> bool:
    """Whether a version is still wanted, and not there yet."""
    return bool(await queries.values(tx, "wanted", id=item_id, version=version))


async def fail_version(tx: Tx, item_id: ItemId, version: int, code: str, message: str) -> bool:
    """The attempt at a version failed for good; False when it is no longer wanted."""
    moved = bool(
        await queries.values(tx, "set_failed", id=item_id, version=version, code=code, message=message)
    )
    if moved:
        await derive_status(tx, item_id)
        await derive_statuses_above(tx, [item_id])
    return moved


async def mark_expanded(tx: Tx, item_id: ItemId, version: int, left_out: Mapping[str, int]) -> bool:
    """All children of a container's version are filed: from here on they say how it is. `left_out` counts by reason
    what its source has beside them."""
    moved = bool(
        await queries.values(tx, "set_expanded", id=item_id, version=version, left_out=Jsonb(dict(left_out)))
    )
    if moved:
        await derive_status(tx, item_id)
    return moved


async def abandon(tx: Tx, item_id: ItemId, code: str, message: str) -> bool:
    """Fail an item that is being worked on, and want nothing of that work; False when it was at rest."""
    moved = bool(await queries.values(tx, "abandon", id=item_id, code=code, message=message))
    if moved:
        await derive_status(tx, item_id)
        await derive_statuses_above(tx, [item_id])
    return moved


async def request_version(tx: Tx, ids: Sequence[ItemId], cause: UUID) -> list[Item]:
    """completed | failed → active, with a new version; what answers goes on answering."""
    items = await queries.many(tx, Item, "want_anew", ids=list(ids), cause=cause)
    await derive_statuses_above(tx, [item.id for item in items])
    return items


async def mark_deleting(tx: Tx, roots: Sequence[ItemId]) -> int:
    """any → deleting, for whole subtrees: hidden from now on; how many items."""
    marked = await queries.values(tx, "mark_deleting", roots=list(roots))
    await derive_statuses_above(tx, roots)
    return len(marked)


async def derive_status(tx: Tx, item_id: ItemId) -> None:
    """Derive a container, and those above it."""
    await queries.run(tx, "settle", id=item_id)


async def derive_statuses_above(tx: Tx, ids: Sequence[ItemId]) -> None:
    """Derive the containers above these items."""
    if ids:
        await queries.run(tx, "settle_above", ids=list(ids))
