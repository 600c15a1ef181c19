"""What a page shows of a base: windows of its tree, and its figures. Reads only, for the eyes of a viewer.

A window costs what it shows, not what there is: the rows of one container, or the roots, are found by an index in the
order of their making, wherever the window stands; a filter that goes through the whole base costs one pass over it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gristmill.catalog.access import ADMIN, Viewer
from gristmill.catalog.base import BaseId
from gristmill.catalog.item import Item, ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class TreeRow(Item):
    """An item with what stands around it: how many are right below it, and what is above it, the outermost first."""

    child_count: int = 0
    path: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class TreeFilter:
    """Which items: the children of `parent`, or the roots; with any of the others, all of the base that fit."""

    parent: ItemId | None = None
    statuses: Sequence[str] = ()
    title: str | None = None
    ids: Sequence[ItemId] = ()
    leaves: bool = False

    @property
    def is_flat(self) -> bool:
        """Whether the tree does not matter."""
        return bool(self.statuses or self.title or self.ids or self.leaves)


@dataclass(frozen=True)
class BaseStats:
    """A base in numbers. `items` and `leaves` are by status; `progress` is the mean over the leaves, what failed being
    done; `changed_at` is when the last of its items changed."""

    items: dict[str, int] = field(default_factory=dict[str, int])
    leaves: dict[str, int] = field(default_factory=dict[str, int])
    chunks: int = 0
    progress: float = 100.0
    changed_at: datetime | None = None


@dataclass(frozen=True)
class _StatusCount:
    base_id: BaseId
    status: str
    is_leaf: bool
    count: int
    chunks: int
    percent: float
    changed_at: datetime


async def tree_window(
    tx: Tx, base_id: BaseId, tree_filter: TreeFilter, *, offset: int, limit: int, viewer: Viewer = ADMIN
) -> tuple[list[TreeRow], int]:
    """The items from `offset` on, in the order of their making, and how many there are in all."""
    parameters = {
        "base": base_id,
        "parent": tree_filter.parent,
        "flat": tree_filter.is_flat,
        "statuses": list(tree_filter.statuses) or None,
        "title": tree_filter.title or None,
        "ids": list(tree_filter.ids) or None,
        "leaves": tree_filter.leaves,
        "eyes": viewer.principals,
    }
    rows = await queries.many(tx, TreeRow, "tree_window", **parameters, offset=offset, limit=limit)
    if offset == 0 and len(rows) < limit:
        return rows, len(rows)
    (total,) = await queries.values(tx, "tree_total", **parameters)
    return rows, total


async def base_stats(tx: Tx, bases: Sequence[BaseId], viewer: Viewer = ADMIN) -> dict[BaseId, BaseStats]:
    """The figures of each of the bases, as these eyes see them; what is being deleted does not count."""
    rows: dict[BaseId, list[_StatusCount]] = {base_id: [] for base_id in bases}
    for row in await queries.many(
        tx, _StatusCount, "base_figures", bases=list(bases), eyes=viewer.principals
    ):
        rows[row.base_id].append(row)
    return {base_id: _aggregate(counts) for base_id, counts in rows.items()}


def _aggregate(rows: Sequence[_StatusCount]) -> BaseStats:
    items: dict[str, int] = {}
    for row in rows:
        items[row.status] = items.get(row.status, 0) + row.count
    leaves = {row.status: row.count for row in rows if row.is_leaf}
    total = sum(leaves.values())
    is_listing = any(row.status == "preparing" for row in rows)
    done = sum(row.percent for row in rows if row.is_leaf)
    return BaseStats(
        items=items,
        leaves=leaves,
        chunks=sum(row.chunks for row in rows),
        progress=done / total if total else 0.0 if is_listing else 100.0,
        changed_at=max((row.changed_at for row in rows), default=None),
    )
