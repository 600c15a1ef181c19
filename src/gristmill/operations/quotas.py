"""Quotas of what is filed in bulk: folders, page lists, attachments and connectors go on, and what is beyond a quota is filed as
failed with `quota_exceeded`, so that it is visible and can be retried. What people add is refused as a whole (`add.py`)."""

from collections.abc import Sequence
from dataclasses import replace

from gristmill import usage
from gristmill.catalog import CONTAINERS, BaseId, NewItem
from gristmill.db import Tx
from gristmill.usage import QuotaExceeded


async def fail_beyond_quota(tx: Tx, base_id: BaseId, items: Sequence[NewItem]) -> list[NewItem]:
    """The items, those that the quotas have no room for as failed ones. The caller holds the base's lock."""
    documents = [place for place, item in enumerate(items) if item.type not in CONTAINERS]
    room, reason = await usage.room_for_items(tx, base_id, [items[place].size_bytes for place in documents])
    if reason is None:
        return list(items)
    beyond = set(documents[room:])
    return [
        replace(item, error=item.error or QuotaExceeded(reason)) if place in beyond else item
        for place, item in enumerate(items)
    ]
