"""describe: change what is said of an item, and for whose eyes it is. Nothing is indexed for it.

One transaction in the base's turn, so that what is filed below the item meanwhile inherits either the old list or the new.
From the commit on, every read goes by the new list.
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
    """Change what is given; `check` is told when the item was last changed, and may refuse; `inherit` takes the item's own list away."""
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
