"""tag: add tags to items and remove others.

Tags are `metadata.tags`, a list, so that searches filter by them as by any metadata. One transaction under the base's lock; after
the commit every search uses the new tags. Items that have them already are not touched.
"""

from collections.abc import Sequence

from gristmill import catalog, events, faults
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database
from gristmill.errors import Conflict
from gristmill.events import ItemsChanged
from gristmill.operations import guards


async def tag(
    db: Database, base_id: BaseId, item_ids: Sequence[ItemId], added: Sequence[str], removed: Sequence[str]
) -> list[ItemId]:
    """Add and remove tags of these items; those that changed."""
    async with db.transaction() as tx:
        base = await guards.lock_base(tx, base_id)
        items = await guards.require_items(tx, base, item_ids)
        for item in items:
            if len({*catalog.tags_of(item.metadata), *added} - set(removed)) > catalog.MAX_TAGS:
                raise Conflict(
                    f"{item.title!r} would have more than {catalog.MAX_TAGS} tags. Remove some of its tags first.",
                    code="too_many_tags",
                )
        changed = await catalog.change_tags(tx, [item.id for item in items], added, removed)
        if changed:
            await events.record(tx, ItemsChanged(base.id, tuple(changed), ("tags",)))
        await faults.point("tag.before_commit")
    return changed
