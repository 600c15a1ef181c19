"""Lists of items, page by page: in the order of their creation, or of a column.

A cursor is the last row's id, or its value and its id: pages neither repeat nor skip a row that stays as it is, however many others
come and go meanwhile.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.catalog.access import ADMIN, Viewer
from gristmill.catalog.base import BaseId
from gristmill.catalog.item import Item, ItemId
from gristmill.catalog.store import queries
from gristmill.catalog.tree import BY_CREATION, TreeOrder
from gristmill.db import Reads, Tx


@dataclass(frozen=True)
class ItemFilter:
    """Which items of a base: the roots, the children of `parent`, with `under` all descendants of one item, or with `everywhere`
    all items; of these, those that match every other field."""

    parent: ItemId | None = None
    everywhere: bool = False
    under: ItemId | None = None
    include_deleting: bool = False
    status: str | None = None
    type: str | None = None
    title: str | None = None
    tag: str | None = None


@dataclass(frozen=True)
class SortedItem(Item):
    """An item with the values that a list is sorted by."""

    sort_text: str = ""
    sort_number: Decimal = Decimal(0)


async def list_items(
    tx: Tx | Reads,
    base_id: BaseId,
    chosen: ItemFilter,
    *,
    limit: int,
    after: ItemId | None = None,
    viewer: Viewer = ADMIN,
) -> Sequence[Item]:
    """Items in the order of their creation; none of a base that is being deleted or belongs to another organisation."""
    parameters = _parameters(base_id, chosen, limit, viewer)
    return await queries.many(tx, Item, "list_items", **parameters, after=after)


async def list_items_sorted(
    tx: Tx | Reads,
    base_id: BaseId,
    chosen: ItemFilter,
    order: TreeOrder = BY_CREATION,
    *,
    limit: int,
    after: str | None = None,
    viewer: Viewer = ADMIN,
) -> Sequence[SortedItem]:
    """Items in the order of a column, after a cursor of `sort_cursor`; `ValueError` if it is none."""
    number, text, last_id = (None, None, None) if after is None else _parse_cursor(after)
    return await queries.many(
        tx,
        SortedItem,
        "list_items_sorted",
        **_parameters(base_id, chosen, limit, viewer),
        sort=order.key or "created",
        descending=order.is_descending,
        after_number=number,
        after_text=text,
        after_id=last_id,
    )


def sort_cursor(item: SortedItem) -> str:
    """Where the page after this item begins."""
    values = [str(item.sort_number), item.sort_text, str(item.id)]
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


def _parse_cursor(cursor: str) -> tuple[Decimal, str, UUID]:
    try:
        number, text, last_id = json.loads(base64.urlsafe_b64decode(cursor))
        return Decimal(number), str(text), UUID(last_id)
    except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
        raise ValueError("not a cursor") from error


def _parameters(base_id: BaseId, chosen: ItemFilter, limit: int, viewer: Viewer) -> dict[str, Any]:
    return {
        "base": base_id,
        "limit": limit,
        "parent": chosen.parent,
        "everywhere": chosen.everywhere or chosen.under is not None,
        "under": chosen.under,
        "deleting": chosen.include_deleting,
        "status": chosen.status,
        "type": chosen.type,
        "title": chosen.title,
        "tags": Jsonb({"tags": [chosen.tag]}) if chosen.tag else None,
        "principals": viewer.principals,
        "org": viewer.org,
    }
