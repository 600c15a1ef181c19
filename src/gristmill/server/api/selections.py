"""Resolves a selection of items, by ids or by a filter, into batches that one operation takes."""

from collections.abc import Sequence

from gristmill import catalog
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Database
from gristmill.errors import Invalid
from gristmill.operations import guards
from gristmill.server.api.schemas.new_items import Selection

BATCH_ITEMS = 1_000  # in one transaction and one job, when a filter selects them
MAX_SELECTED = 100_000


async def id_batches(db: Database, base_id: BaseId, selection: Selection) -> Sequence[list[ItemId]]:
    """The ids of a selection: as they were sent, or in batches all that match the filter now. Callers who may change a base see
    all of it. An operation is one transaction per batch: a request that is cut off has changed the first ones."""
    if selection.filter is None:
        return [[ItemId(item_id) for item_id in selection.item_ids or ()]]
    async with db.connection() as tx:
        await guards.require_base(tx, base_id)
        ids = await catalog.matching_ids(
            tx, base_id, selection.filter.to_tree_filter(), limit=MAX_SELECTED + 1
        )
    if len(ids) > MAX_SELECTED:
        raise Invalid(
            f"More than {MAX_SELECTED:,} items match. Narrow the filter, or select folders.",
            code="selection_too_large",
        )
    return [ids[start : start + BATCH_ITEMS] for start in range(0, len(ids), BATCH_ITEMS)]
