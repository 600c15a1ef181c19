"""describe: change what people say of an item: its title, metadata, access list, refresh rule and watch, and the
text of a note.

One transaction under the base's lock, so that items filed below it at the same time inherit either the old list or the new one.
After the commit every read uses the new list, title and metadata; a new text is searchable once it is indexed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gristmill import catalog, events
from gristmill.catalog import BaseId, Item, ItemId
from gristmill.catalog.access import parse_acl
from gristmill.db import Database
from gristmill.events import ItemsChanged
from gristmill.operations import freshness, guards
from gristmill.operations.edit_note import edit_note
from gristmill.operations.rename import rename


@dataclass(frozen=True)
class ItemDescription:
    """What to change: None leaves a field as it is; `inherit` removes the item's own access list. A `refresh` of None removes the
    item's own rule, a `watch` of None lets it be watched if that is cheap."""

    title: str | None = None
    content: str | None = None
    acl: Sequence[str] | None = None
    inherit: bool = False
    metadata: dict[str, Any] | None = None
    refresh: Mapping[str, Any] | freshness.Keep | None = "keep"
    watch: bool | freshness.Keep | None = "keep"

    @property
    def changes(self) -> tuple[str, ...]:
        """The names of the fields to change, without the text, which has events of its own."""
        acl = self.inherit or self.acl is not None
        changed = {"title": self.title is not None, "metadata": self.metadata is not None, "acl": acl}
        return tuple(name for name, is_changed in changed.items() if is_changed)


async def describe(
    db: Database,
    base_id: BaseId,
    item_id: ItemId,
    changed: ItemDescription,
    *,
    check: Callable[[datetime], None] | None = None,
) -> Item:
    """Change an item. `check` gets the time of the last change, and may raise."""
    entries = None if changed.acl is None else parse_acl(changed.acl)
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        item = await guards.require_item(tx, item_id)
        if check is not None:
            check(item.updated_at)
        if changed.inherit or entries is not None:
            await catalog.set_acl(tx, item.id, None if changed.inherit else entries)
        if changed.metadata is not None:
            await catalog.set_metadata(tx, item.id, changed.metadata)
        if changed.title is not None:
            await rename(tx, base, item, changed.title)
        if changed.content is not None:
            await edit_note(tx, base, await guards.require_item(tx, item_id), changed.content)
        if changed.refresh != "keep":
            await freshness.set_item_rule(tx, base, item, changed.refresh)
        if changed.watch != "keep":
            await freshness.set_watch(tx, item, changed.watch)
        if changed.changes:
            await events.record(tx, ItemsChanged(base.id, (item.id,), changed.changes))
        return await guards.require_item(tx, item_id)
