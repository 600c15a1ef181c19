"""What people deleted from containers: their listings leave it out until someone adds it again or removes the exclusion."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from gristmill.catalog.base import BaseId
from gristmill.catalog.item import ItemId, NewItem
from gristmill.catalog.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class Exclusion:
    """A source that is left out of the container `root_id`: a path, an address or the id of a record."""

    id: UUID
    base_id: BaseId
    root_id: ItemId
    type: str
    source_key: str
    title: str
    created_at: datetime


async def exclude_items(tx: Tx, ids: Sequence[ItemId]) -> None:
    """Leave these items out of later listings, if listings or connector runs had found them. Call it before they are deleted."""
    await queries.run(tx, "exclude_items", ids=list(ids))


async def find_excluded(tx: Tx, root_id: ItemId, sources: Sequence[tuple[str, str]]) -> set[int]:
    """Which of these sources, by type and key, are left out of a container that people added: their indexes."""
    if not sources:
        return set()
    places = await queries.values(
        tx,
        "find_excluded",
        root=root_id,
        types=[kind for kind, _ in sources],
        keys=[key for _, key in sources],
    )
    return {place - 1 for place in places}


async def list_exclusions(
    tx: Tx, base_id: BaseId, *, limit: int, after: UUID | None = None, container: UUID | None = None
) -> list[Exclusion]:
    """What is left out of the containers of a base, or of one of them, the oldest first."""
    return await queries.many(
        tx, Exclusion, "list_exclusions", base=base_id, limit=limit, after=after, container=container
    )


async def remove_exclusions(tx: Tx, base_id: BaseId, ids: Sequence[UUID] | None) -> list[Exclusion]:
    """Forget exclusions of a base: these, or all; those that existed."""
    return await queries.many(
        tx, Exclusion, "remove_exclusions", base=base_id, ids=None if ids is None else list(ids)
    )


async def remove_exclusions_by_source(tx: Tx, base_id: BaseId, items: Sequence[NewItem]) -> None:
    """Forget the exclusions of sources that people add again."""
    if items:
        await queries.run(
            tx,
            "remove_exclusions_by_source",
            base=base_id,
            types=[item.type for item in items],
            keys=[item.key for item in items],
        )


async def top_container(tx: Tx, item_id: ItemId) -> ItemId | None:
    """The container that people added, above a container or itself."""
    ids = await queries.values(tx, "top_container", id=item_id)
    return ids[0] if ids else None
