"""describe: change an item's metadata and access list. Nothing is indexed for it.

One transaction under the base's lock, so that items filed below it at the same time inherit either the old list or the new one.
After the commit every read uses the new list.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from gristmill import catalog
from gristmill.catalog import BaseId, Item, ItemId
from gristmill.catalog.access import parse_acl
from gristmill.db import Database
from gristmill.operations import guards


async def describe(
    db: Database,
    base_id: BaseId,
    item_id: ItemId,
    *,
    acl: Sequence[str] | None = None,
    inherit: bool = False,
    metadata: dict[str, Any] | None = None,
    check: Callable[[datetime], None] | None = None,
) -> Item:
    """Change the fields that are given. `check` gets the time of the last change, and may raise; `inherit` removes the item's own
    access list."""
    entries = None if acl is None else parse_acl(acl)
    async with db.transaction() as tx:
        await guards.lock_base(tx, base_id)
        item = await guards.require_item(tx, item_id)
        if check is not None:
            check(item.updated_at)
        if inherit or entries is not None:
            await catalog.set_acl(tx, item.id, None if inherit else entries)
        if metadata is not None:
            await catalog.set_metadata(tx, item.id, metadata)
        return await guards.require_item(tx, item_id)
