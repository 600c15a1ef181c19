"""Legal holds: while one is placed on a base or an item, nothing that it covers is deleted.

    () ── place ──▶ placed ── lift ──▶ lifted, kept for the record

Whoever deletes asks in the transaction that deletes, under the base's lock, which placing a hold takes too. So a deletion is accepted
before the hold, or not at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from gristmill.catalog.base import Base, BaseId
from gristmill.catalog.item import Item, ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx
from gristmill.identity.organisation import OrgId


@dataclass(frozen=True)
class LegalHold:
    """A hold on an item, with everything below it, or on a whole base."""

    id: UUID
    org_id: OrgId
    base_id: BaseId
    item_id: ItemId | None
    title: str
    reason: str
    placed_by: str
    placed_at: datetime
    lifted_by: str | None
    lifted_at: datetime | None


async def insert_hold(tx: Tx, base: Base, item: Item | None, reason: str, actor: str) -> LegalHold:
    """Place a hold on a locked base, or on one of its items."""
    (hold,) = await queries.many(
        tx,
        LegalHold,
        "insert_hold",
        org=base.org_id,
        base=base.id,
        item=None if item is None else item.id,
        title=base.name if item is None else item.title,
        reason=reason,
        actor=actor,
    )
    return hold


async def list_holds(
    tx: Tx, org: OrgId, *, base_id: BaseId | None, with_lifted: bool, limit: int, before: UUID | None = None
) -> list[LegalHold]:
    """The holds of an organisation, the newest first."""
    return await queries.many(
        tx, LegalHold, "list_holds", org=org, base=base_id, lifted=with_lifted, limit=limit, before=before
    )


async def find_hold(tx: Tx, hold_id: UUID) -> LegalHold | None:
    """A hold, lifted or not."""
    rows = await queries.many(tx, LegalHold, "find_hold", id=hold_id)
    return rows[0] if rows else None


async def lift_hold(tx: Tx, hold_id: UUID, actor: str) -> LegalHold | None:
    """Lift a hold; None if it was lifted before."""
    rows = await queries.many(tx, LegalHold, "lift_hold", id=hold_id, actor=actor)
    return rows[0] if rows else None


async def find_held_roots(tx: Tx, base_id: BaseId, roots: Sequence[ItemId]) -> set[ItemId]:
    """Those of the subtrees in which a hold covers something."""
    return set(await queries.values(tx, "find_held_roots", base=base_id, roots=list(roots)))


async def has_hold(tx: Tx, base_id: BaseId) -> bool:
    """Whether a hold covers something of a base."""
    return (await queries.values(tx, "has_hold", base=base_id))[0]
