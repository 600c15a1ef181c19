"""Sharing: a base's access list with what each entry may do in it.

    reader      reads and searches
    editor      also adds, changes and deletes items
    owner       also changes the settings of the base, shares it and deletes it

Every share is an entry of the access list, so reading needs nothing but the list. An entry without a share, such as one that was set
through `acl`, gives whoever it names their own role. The highest role of all entries that name a person counts, so a share as editor
lets in a person whose own role is reader.
"""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from gristmill.catalog.access import Viewer
from gristmill.catalog.base import BaseId
from gristmill.catalog.item import ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx
from gristmill.identity import OrgId

BaseRole = Literal["reader", "editor", "owner"]
BASE_ROLES: tuple[BaseRole, ...] = ("reader", "editor", "owner")  # each includes those before it


@dataclass(frozen=True)
class Share:
    """An entry of a base's access list; without a role, whoever it names has their own."""

    principal: str
    role: BaseRole | None


@dataclass(frozen=True)
class AppliedList:
    """The access list that applies to an item; `acl_from` is the item that it belongs to, None for the base's."""

    base_id: BaseId
    acl_from: UUID | None
    acl: list[str]


async def list_shares(tx: Tx, base_id: BaseId) -> list[Share]:
    """The entries of a base's access list, in its order."""
    return await queries.many(tx, Share, "list_shares", base=base_id)


async def set_share(tx: Tx, base_id: BaseId, principal: str, role: BaseRole) -> None:
    """Share a base with a principal, or change what it may do. The caller holds the base's lock."""
    await queries.run(tx, "add_to_acl", base=base_id, principal=principal)
    await queries.run(tx, "set_share", base=base_id, principal=principal, role=role)


async def remove_share(tx: Tx, base_id: BaseId, principal: str) -> bool:
    """Remove an entry of a base's access list; False when there is none. The caller holds the base's lock."""
    removed = await queries.run(tx, "remove_from_acl", base=base_id, principal=principal)
    await prune_shares(tx, base_id)
    return removed > 0


async def prune_shares(tx: Tx, base_id: BaseId) -> None:
    """Delete shares whose entries are not in the access list any more."""
    await queries.run(tx, "prune_shares", base=base_id)


async def base_role(tx: Tx, base_id: BaseId, viewer: Viewer, own: Literal["reader", "editor"]) -> BaseRole:
    """What a viewer who sees a base may do in it; `own` is the role that entries without a share give."""
    if viewer.is_admin:
        return "owner"
    ranks: list[int | None] = await queries.values(
        tx, "base_rank", base=base_id, principals=viewer.principals, own=own
    )
    rank = ranks[0]
    return own if rank is None else BASE_ROLES[rank - 1]


async def find_applied_list(tx: Tx, item_id: ItemId, org: OrgId) -> AppliedList | None:
    """The access list that applies to an item of an organisation."""
    return await queries.maybe(tx, AppliedList, "applied_list", item=item_id, org=org)
