"""Small conditions that operations share. Each reads under the caller's transaction, and raises or returns."""

from gristmill import catalog
from gristmill.catalog import Base, BaseId, BaseStatus, Item, ItemId
from gristmill.db import Tx
from gristmill.errors import Conflict, NotFound


async def base_exists(tx: Tx, base_id: BaseId) -> Base:
    """The base, unless it never was or is being deleted."""
    found = await catalog.find_base(tx, base_id)
    if found is None:
        raise NotFound(f"There is no knowledge base {base_id}.", code="base_not_found")
    return found


async def base_is_open(tx: Tx, base_id: BaseId) -> Base:
    """The base, locked for this transaction and fit for new work: a failed one is not."""
    found = await catalog.lock_base(tx, base_id)
    if found is None:
        raise NotFound(f"There is no knowledge base {base_id}.", code="base_not_found")
    if found.status is BaseStatus.FAILED:
        raise Conflict(
            f"The base failed ({found.error_message}): repair or delete it first.", code="base_failed"
        )
    return found


async def item_exists(tx: Tx, item_id: ItemId) -> Item:
    """The item, unless it never was or is being deleted."""
    found = await catalog.find_item(tx, item_id)
    if found is None:
        raise NotFound(f"There is no item {item_id}.", code="item_not_found")
    return found
