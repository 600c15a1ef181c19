"""Conditions that operations share. Each reads in the caller's transaction, and raises unless the condition holds."""

from collections.abc import Sequence

from gristmill import catalog
from gristmill.catalog import ADMIN, Base, BaseId, BaseStatus, Item, ItemId, ItemStatus, Viewer, holds
from gristmill.db import Reads, Tx
from gristmill.errors import Conflict, Invalid, NotFound


async def require_base(tx: Tx | Reads, base_id: BaseId, viewer: Viewer = ADMIN) -> Base:
    """The base, unless it does not exist, is being deleted, or the viewer sees nothing of it."""
    return _base_or_not_found(await catalog.find_base(tx, base_id, viewer), base_id)


async def lock_base(tx: Tx, base_id: BaseId) -> Base:
    """The base, failed or not, locked until the transaction ends."""
    return _base_or_not_found(await catalog.lock_base(tx, base_id), base_id)


async def lock_open_base(tx: Tx, base_id: BaseId) -> Base:
    """The same, for operations that create work: a failed or expired base accepts none."""
    base = await lock_base(tx, base_id)
    refuse_failed_base(base)
    await refuse_expired_base(tx, base)
    return base


async def refuse_expired_base(tx: Tx, base: Base) -> None:
    """Raise if the base has expired."""
    if base.expires_at is not None and await catalog.find_expired_ids(tx, [base.id]):
        raise Conflict(
            f"The knowledge base expired on {base.expires_at:%Y-%m-%d}, {base.expire_days} days after its last use. "
            "It is deleted a day later. To keep it, ask an admin to set a new expiry before then.",
            code="base_expired",
        )


def not_ready_error(item: Item) -> Conflict:
    """What to raise for an item without any content to show."""
    if item.is_container:
        message = f"This {item.type} has no text of its own. Open one of the documents in it."
    elif item.status is ItemStatus.FAILED:
        message = "The document could not be read, so there is no text to show. Look at its error, fix the cause, and retry it."
    else:
        message = "The document is still being read. Wait until it is completed, then open it again."
    return Conflict(message, code="item_not_ready")


def refuse_failed_base(base: Base) -> None:
    """Raise if the base has failed."""
    if base.status is BaseStatus.FAILED:
        raise Conflict(
            f"The knowledge base has failed and takes no new work. {base.error_message}",
            code="base_failed",
        )


async def refuse_held_items(tx: Tx, base: Base, roots: Sequence[ItemId]) -> None:
    """Raise if a legal hold covers something in these subtrees of a locked base."""
    if held := await holds.find_held_roots(tx, base.id, roots):
        (item, *_) = await catalog.find_items(tx, sorted(held))
        raise Conflict(
            f"{item.title!r}, or something in it, is under a legal hold. It can't be deleted, nor moved to another base, until an "
            "admin lifts the hold.",
            code="legal_hold",
        )


async def refuse_held_base(tx: Tx, base: Base) -> None:
    """Raise if a legal hold covers a locked base or something in it."""
    if await holds.has_hold(tx, base.id):
        raise Conflict(
            f"The knowledge base {base.name!r}, or something in it, is under a legal hold. It can't be deleted until an admin lifts "
            "the hold.",
            code="legal_hold",
        )


async def require_item(tx: Tx | Reads, item_id: ItemId, viewer: Viewer = ADMIN) -> Item:
    """The item, unless it does not exist, is being deleted, or is hidden from the viewer: all three look the same."""
    item = await catalog.find_item(tx, item_id, viewer)
    if item is None:
        raise NotFound(f"There is no item {item_id}.", code="item_not_found")
    return item


async def require_container(tx: Tx, base: Base, parent_id: ItemId | None) -> Item | None:
    """The container to file items in, which is not being deleted; None for the base itself."""
    if parent_id is None:
        return None
    parent = await require_item(tx, parent_id, Viewer(None, base.org_id))
    _require_same_base(parent, base)
    if not parent.is_container:
        raise Invalid(
            f"Item {parent_id} is a {parent.type}, which can't contain items. Choose a folder, sitemap, site or connector.",
            code="not_a_container",
        )
    return parent


async def require_items(tx: Tx, base: Base, ids: Sequence[ItemId]) -> list[Item]:
    """The selected items without duplicates, in any state; all must be of this base."""
    selected_ids = list(dict.fromkeys(ids))
    items = await catalog.find_items(tx, selected_ids, base.org_id)
    for missing in set(selected_ids) - {item.id for item in items}:
        raise NotFound(f"There is no item {missing}.", code="item_not_found")
    for item in items:
        _require_same_base(item, base)
    return items


async def outermost_selection(tx: Tx, base: Base, ids: Sequence[ItemId]) -> list[Item]:
    """The selected items without duplicates and without those below another selected one; all must be of this base."""
    items = await require_items(tx, base, ids)
    outermost_ids = set(await catalog.outermost_ids(tx, [item.id for item in items]))
    return [item for item in items if item.id in outermost_ids]


async def require_listable_chunks(tx: Tx, base: Base, item: Item) -> None:
    """Chunks can be listed of a completed item in a base that has not failed, while nothing below it is being deleted."""
    refuse_failed_base(base)
    _require_same_base(item, base)
    if item.status is not ItemStatus.COMPLETED:
        raise Conflict(
            f"The item is {item.status}. Its chunks can be listed once it is completed.",
            code="item_not_completed",
        )
    if item.is_container and await catalog.has_deleting_descendant(tx, item.id):
        raise Conflict(
            "Something in it is being deleted. Try again when that is done.", code="subtree_deleting"
        )


def _require_same_base(item: Item, base: Base) -> None:
    if item.base_id != base.id:
        raise Conflict(f"Item {item.id} belongs to another base.", code="item_of_other_base")


def _base_or_not_found(base: Base | None, base_id: BaseId) -> Base:
    if base is None:
        raise NotFound(f"There is no knowledge base {base_id}.", code="base_not_found")
    return base
