"""The tree of a base: windows of it for a page, its statistics, and questions about what is above and below an item.

A window costs what it shows, not what exists: an index yields the children of one container, or the roots, in the order of
their creation, at any offset. A filter over the whole base costs one pass over the base.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from psycopg.types.json import Jsonb

from gristmill.catalog.access import ADMIN, Viewer
from gristmill.catalog.base import BaseId
from gristmill.catalog.item import Item, ItemId
from gristmill.catalog.lifecycle import ItemStatus
from gristmill.catalog.store import queries
from gristmill.db import Tx

# ── windows and statistics ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class TreeRow(Item):
    """An item with the number of its children, and the titles of its ancestors, the outermost first."""

    child_count: int = 0
    path: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class TreeFilter:
    """Which items: the children of `parent`, or the roots. With any other field: all items of the base that match it."""

    parent: ItemId | None = None
    statuses: Sequence[str] = ()
    title: str | None = None
    ids: Sequence[ItemId] = ()
    leaves: bool = False
    types: Sequence[str] = ()
    tag: str | None = None

    @property
    def is_flat(self) -> bool:
        """Whether it selects from the whole base, not from one level of the tree."""
        return bool(self.statuses or self.title or self.ids or self.leaves or self.types or self.tag)

    def parameters(self) -> dict[str, Any]:
        """The parameters of the statements."""
        return {
            "parent": self.parent,
            "flat": self.is_flat,
            "statuses": list(self.statuses) or None,
            "title": self.title or None,
            "ids": list(self.ids) or None,
            "leaves": self.leaves,
            "types": list(self.types) or None,
            "tags": Jsonb({"tags": [self.tag]}) if self.tag else None,
        }


SortKey = Literal["title", "type", "status", "size", "chunks", "updated"]


@dataclass(frozen=True)
class TreeOrder:
    """The order of a list: by a column, or without one in the order of creation. Equal ones are in the order of creation."""

    key: SortKey | None = None
    is_descending: bool = False


BY_CREATION = TreeOrder()


@dataclass(frozen=True)
class BaseStats:
    """A base in numbers. `items` and `leaves` count by status; `progress` is the mean over the leaves, where a failed
    one counts as done; `changed_at` is when an item last changed."""

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
    tx: Tx,
    base_id: BaseId,
    tree_filter: TreeFilter,
    *,
    offset: int,
    limit: int,
    order: TreeOrder = BY_CREATION,
    viewer: Viewer = ADMIN,
) -> tuple[list[TreeRow], int]:
    """The items from `offset` on, in this order, and how many there are in all."""
    parameters = {"base": base_id, "principals": viewer.principals, **tree_filter.parameters()}
    window = {"offset": offset, "limit": limit}
    if order.key is None and not order.is_descending:
        rows = await queries.many(tx, TreeRow, "tree_window", **parameters, **window)
    else:
        sort = {"sort": order.key or "created", "descending": order.is_descending}
        ids = await queries.values(tx, "sorted_ids", **parameters, **window, **sort)
        rows = await queries.many(tx, TreeRow, "tree_rows", ids=ids, principals=viewer.principals)
    if offset == 0 and len(rows) < limit:
        return rows, len(rows)
    (total,) = await queries.values(tx, "tree_total", **parameters)
    return rows, total


async def matching_ids(
    tx: Tx, base_id: BaseId, tree_filter: TreeFilter, *, limit: int, viewer: Viewer = ADMIN
) -> list[ItemId]:
    """The ids of the items that a filter selects, in the order of their creation."""
    parameters = {"base": base_id, "principals": viewer.principals, **tree_filter.parameters()}
    sort = {"sort": "created", "descending": False, "offset": 0, "limit": limit}
    return await queries.values(tx, "sorted_ids", **parameters, **sort)


async def base_stats(tx: Tx, bases: Sequence[BaseId], viewer: Viewer = ADMIN) -> dict[BaseId, BaseStats]:
    """The statistics of each of the bases, over the items that the viewer sees; items being deleted do not count."""
    rows: dict[BaseId, list[_StatusCount]] = {base_id: [] for base_id in bases}
    for row in await queries.many(
        tx,
        _StatusCount,
        "base_stats",
        bases=list(bases),
        principals=viewer.principals,
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


# ── above and below an item ──────────────────────────────────────────────────────────────────────────────


async def root_source(tx: Tx, item_id: ItemId) -> dict[str, Any]:
    """The source of the container that people added, for an item that its listing found at any depth."""
    sources = await queries.values(tx, "root_source", id=item_id)
    return sources[0] if sources else {}


async def outermost_ids(tx: Tx, ids: Sequence[ItemId]) -> list[ItemId]:
    """Those of the items that are below none of the others."""
    return await queries.values(tx, "outermost_ids", ids=list(ids))


async def has_children(tx: Tx, item_id: ItemId) -> bool:
    """Whether anything is filed below an item."""
    return (await queries.values(tx, "has_children", id=item_id))[0]


async def stale_children(tx: Tx, containers: Sequence[tuple[ItemId, int]]) -> list[ItemId]:
    """The children that an earlier version of these containers listed, and that this version did not."""
    return await queries.values(
        tx,
        "stale_children",
        parents=[item_id for item_id, _ in containers],
        versions=[version for _, version in containers],
    )


async def user_added_descendants(tx: Tx, root: ItemId) -> list[ItemId]:
    """What people added below a container, at any depth: no listing finds it."""
    return await queries.values(tx, "user_added_descendants", root=root)


async def has_deleting_descendant(tx: Tx, root: ItemId) -> bool:
    """Whether an item, or something below it, is being deleted."""
    return (await queries.values(tx, "has_deleting_descendant", root=root))[0]


@dataclass(frozen=True)
class UnfinishedItem:
    """An item that is neither completed nor failed, at or below one of the roots in the question. `is_full_rebuild` when
    it is the root itself, and everything that its source has is being rebuilt."""

    id: ItemId
    title: str
    status: str
    root: ItemId
    is_full_rebuild: bool

    @property
    def is_deleted_root(self) -> bool:
        """Whether it is the root itself, and is being deleted."""
        return self.id == self.root and self.status == ItemStatus.DELETING


async def find_unfinished_items(tx: Tx, roots: Sequence[ItemId], limit: int = 100) -> list[UnfinishedItem]:
    """What is neither completed nor failed in these subtrees, at most `limit` a root; items being deleted come first."""
    return await queries.many(tx, UnfinishedItem, "unfinished_items", roots=list(roots), limit=limit)


# ── attachments, filed as children of their document ─────────────────────────────────────────────────────


@dataclass(frozen=True)
class AttachmentItem:
    """The item of an attachment."""

    id: ItemId
    source_key: str
    blob: bytes | None
    status: str
    listed_version: int


async def attachment_items(tx: Tx, parent_id: ItemId) -> list[AttachmentItem]:
    """The items of a document's attachments."""
    return await queries.many(tx, AttachmentItem, "attachment_items", parent=parent_id)


async def count_other_attachments(tx: Tx, item_id: ItemId) -> int:
    """How many attachments the outermost document above this one has at any depth, without this one's own."""
    return (await queries.values(tx, "count_other_attachments", id=item_id))[0]


async def has_filed_attachments(tx: Tx, item_id: ItemId, version: int, content: bytes) -> bool:
    """Whether the attachments of a version are filed, as this content has them."""
    return bool(
        await queries.values(tx, "has_filed_attachments", id=item_id, version=version, content=content)
    )


async def mark_still_listed(tx: Tx, ids: Sequence[ItemId], version: int) -> None:
    """Note that a document's new version still has these attachments, unchanged."""
    if ids:
        await queries.run(tx, "mark_still_listed", ids=list(ids), version=version)


async def mark_attachments_filed(tx: Tx, item_id: ItemId, version: int, content: bytes) -> None:
    """Note that the attachments of a version are filed, as this content has them."""
    await queries.run(tx, "mark_attachments_filed", id=item_id, version=version, content=content)
