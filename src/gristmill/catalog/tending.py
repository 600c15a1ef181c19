"""What people change about items that exist: title, place and tags, in the caller's transaction.

The caller holds the exclusive lock of every base that is concerned. None of it changes an item's status; the caller derives those
of the containers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from gristmill.catalog.access import ADMIN, Viewer
from gristmill.catalog.base import BaseId, ChunkSetId
from gristmill.catalog.item import Item, ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx

MAX_TAGS = 50  # of an item
_LISTED_TAGS = 500


@dataclass(frozen=True)
class Provenance:
    """Whether a source listed an item, and what identifies it among its siblings."""

    id: ItemId
    is_listed: bool
    source_key: str


@dataclass(frozen=True)
class TagCount:
    """A tag, and how many items have it."""

    tag: str
    items: int


async def set_title(tx: Tx, item_id: ItemId, title: str, key: str | None) -> None:
    """Rename an item; with `key`, that identifies it among its siblings."""
    await queries.run(tx, "set_title", id=item_id, title=title, key=key)


async def rename_attachments(tx: Tx, names: Mapping[ItemId, str]) -> None:
    """Attachments have other names in the tool that they come from; a title that a person gave stays."""
    await queries.run(tx, "rename_attachments", ids=list(names), names=list(names.values()))


async def find_provenance(tx: Tx, ids: Sequence[ItemId]) -> dict[ItemId, Provenance]:
    """Where each of these items comes from."""
    rows = await queries.many(tx, Provenance, "item_provenance", ids=list(ids))
    return {row.id: row for row in rows}


async def find_taken_title(
    tx: Tx, base_id: BaseId, parent_id: ItemId | None, items: Sequence[tuple[Item, str]]
) -> str | None:
    """The title of another item under a parent that has the key of one of these; None if there is none."""
    titles = await queries.values(
        tx,
        "keys_in_use",
        base=base_id,
        parent=parent_id,
        ids=[item.id for item, _ in items],
        types=[item.type for item, _ in items],
        keys=[key for _, key in items],
    )
    return titles[0] if titles else None


async def is_within(tx: Tx, item_id: ItemId, roots: Sequence[ItemId]) -> bool:
    """Whether an item is one of `roots`, or below one."""
    return (await queries.values(tx, "is_within", id=item_id, roots=list(roots)))[0]


async def parents_of(tx: Tx, ids: Sequence[ItemId]) -> list[ItemId]:
    """The containers that these items are in."""
    return await queries.values(tx, "parents_of", ids=list(ids))


async def set_parent(
    tx: Tx, roots: Sequence[ItemId], base_id: BaseId, parent_id: ItemId | None
) -> list[ItemId]:
    """File subtrees under another container, or at the top of a base; every item that moved."""
    moved = await queries.values(tx, "set_parent", roots=list(roots), base=base_id, parent=parent_id)
    await queries.run(tx, "move_freshness", ids=moved, base=base_id)
    return moved


async def would_change_access(
    tx: Tx, roots: Sequence[ItemId], base_id: BaseId, parent_id: ItemId | None
) -> bool:
    """Whether someone would see more or less of these subtrees under another container, or at the top of a base."""
    (below,) = await queries.values(tx, "acl_below", base=base_id, parent=parent_id)
    return any(acl != below for acl in await queries.values(tx, "applying_acls", ids=list(roots)))


async def subtree_ids(tx: Tx, roots: Sequence[ItemId]) -> list[ItemId]:
    """These items and everything below them."""
    return await queries.values(tx, "subtree_ids", roots=list(roots))


async def has_connector_items(tx: Tx, ids: Sequence[ItemId]) -> bool:
    """Whether a connector files one of these items."""
    return bool((await queries.values(tx, "count_connectors", ids=list(ids)))[0])


# ── the chunks of items on their way to another base ─────────────────────────────────────────────────────


async def mark_missing_in(tx: Tx, set_id: ChunkSetId, ids: Sequence[ItemId], built: Sequence[ItemId]) -> None:
    """Note which of these documents a set of another base lacks: all but those that are built."""
    await queries.run(tx, "mark_missing_in", set=set_id, ids=list(ids), built=list(built))


async def still_missing(tx: Tx, set_id: ChunkSetId, ids: Sequence[ItemId]) -> list[ItemId]:
    """Those of the items that a set lacks."""
    return await queries.values(tx, "still_missing", set=set_id, ids=list(ids))


async def forget_missing_elsewhere(tx: Tx, ids: Sequence[ItemId]) -> None:
    """Note that no set of another base than its own lacks one of these items."""
    await queries.run(tx, "forget_missing_elsewhere", ids=list(ids))


# ── tags ─────────────────────────────────────────────────────────────────────────────────────────────────


def tags_of(metadata: Mapping[str, Any]) -> list[str]:
    """The tags that an item has."""
    tags: object = metadata.get("tags")
    return [str(tag) for tag in cast(list[object], tags)] if isinstance(tags, list) else []


async def change_tags(
    tx: Tx, ids: Sequence[ItemId], added: Sequence[str], removed: Sequence[str]
) -> list[ItemId]:
    """Add tags to items and remove others; the items that changed."""
    return await queries.values(
        tx, "change_tags", ids=list(ids), added=list(added), removed=list(removed), limit=MAX_TAGS
    )


async def count_tags(tx: Tx, base_id: BaseId, viewer: Viewer = ADMIN) -> list[TagCount]:
    """The tags of the items that the viewer sees, the most frequent first."""
    return await queries.many(
        tx, TagCount, "count_tags", base=base_id, principals=viewer.principals, limit=_LISTED_TAGS
    )
