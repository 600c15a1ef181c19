"""Bases and items: one function per question or change, in the caller's transaction.

Changes of an item's status are in `transitions.py`, questions about the tree in `tree.py`. Other packages import these names
from `gristmill.catalog`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.catalog.access import ADMIN, Viewer
from gristmill.catalog.base import Base, BaseId, ChunkSetId, IndexKind, OnRestart
from gristmill.catalog.item import Item, ItemId
from gristmill.catalog.lifecycle import BaseStatus
from gristmill.db import Queries, Reads, Tx
from gristmill.identity.key import ApiKey
from gristmill.identity.organisation import LOCAL_ORG, OrgId

queries = Queries(__package__ or "gristmill.catalog")
_BEFORE_ALL = UUID(int=0)

# ── bases: locks ─────────────────────────────────────────────────────────────────────────────────────────


async def lock_base(tx: Tx, base_id: BaseId) -> Base | None:
    """Lock the base against every other change until the transaction ends; the base as it is then, None when it is being
    deleted. Two statements, because the second must see what was committed while the first waited."""
    await queries.run(tx, "lock_base", base=base_id)
    return await find_base(tx, base_id)


async def lock_base_shared(tx: Tx, base_id: BaseId) -> None:
    """Lock the base for writing to its items; other workers may do the same at the same time."""
    await queries.run(tx, "lock_base_shared", base=base_id)


async def lock_bases_shared(tx: Tx, bases: Sequence[BaseId]) -> None:
    """The same for several bases."""
    await queries.run(tx, "lock_bases_shared", bases=sorted(set(bases)))


# ── bases: questions ─────────────────────────────────────────────────────────────────────────────────────


async def find_base(tx: Tx | Reads, base_id: BaseId, viewer: Viewer = ADMIN) -> Base | None:
    """The base of this id, unless it is being deleted or the viewer sees nothing of it."""
    return await queries.maybe(
        tx, Base, "find_base", id=base_id, principals=viewer.principals, org=viewer.org
    )


async def find_base_in_any_state(tx: Tx, base_id: BaseId) -> Base | None:
    """The base of this id, even while it is being deleted."""
    return await queries.maybe(tx, Base, "find_base_in_any_state", id=base_id)


async def find_base_by_name(tx: Tx, name: str, viewer: Viewer = ADMIN) -> Base | None:
    """The base of this name, whatever its case."""
    return await queries.maybe(
        tx, Base, "find_base_by_name", name=name, principals=viewer.principals, org=viewer.org
    )


async def find_bases(tx: Tx, bases: Sequence[BaseId]) -> dict[BaseId, Base]:
    """Those of the bases that are not being deleted."""
    rows = await queries.many(tx, Base, "find_bases", ids=list(set(bases)))
    return {base.id: base for base in rows}


async def find_failed_bases(tx: Tx, code: str) -> list[Base]:
    """Bases that have failed with an error of this code."""
    return await queries.many(tx, Base, "find_failed_bases", code=code)


async def find_sets_by_embedder(
    tx: Tx, base_id: BaseId, embedder_identity: str, limit: int, org: OrgId | None = None
) -> list[ChunkSetId]:
    """Sets of chunks whose vectors come from one embedder: all of a base, and live ones of its organisation. `org` is for a base
    that does not exist yet."""
    return await queries.values(
        tx, "find_sets_by_embedder", base=base_id, identity=embedder_identity, limit=limit, org=org
    )


async def list_bases(
    tx: Tx, *, limit: int, after: BaseId | None = None, viewer: Viewer = ADMIN
) -> list[Base]:
    """Bases of which the viewer sees something, in the order of their creation."""
    return await queries.many(
        tx, Base, "list_bases", after=after, limit=limit, principals=viewer.principals, org=viewer.org
    )


async def has_hidden_items(tx: Tx, base_id: BaseId, viewer: Viewer) -> bool:
    """Whether the base contains, or could contain, an item that the viewer does not see."""
    return (await queries.values(tx, "has_hidden_items", base=base_id, principals=viewer.principals))[0]


# ── bases: changes ───────────────────────────────────────────────────────────────────────────────────────


async def insert_base(
    tx: Tx,
    *,
    name: str,
    embedder: str,
    embedder_identity: str,
    dimensions: int,
    chunking: dict[str, Any],
    file_processor: str | None = None,
    on_restart: OnRestart = "resume",
    settings: Mapping[str, Any] | None = None,
    acl: Sequence[str] = (),
    org: OrgId = LOCAL_ORG,
    index_kind: IndexKind = "embedded",
    description: str = "",
    metadata: Mapping[str, Any] | None = None,
    expire_days: int | None = None,
) -> Base | None:
    """Create a base; None when the name is taken."""
    return await queries.maybe(
        tx,
        Base,
        "insert_base",
        name=name,
        embedder=embedder,
        embedder_identity=embedder_identity,
        dimensions=dimensions,
        chunking=Jsonb(chunking),
        file_processor=file_processor,
        on_restart=on_restart,
        settings=Jsonb(dict(settings or {})),
        acl=list(acl),
        org=org,
        index_kind=index_kind,
        description=description,
        metadata=Jsonb(dict(metadata or {})),
        expire_days=expire_days,
    )


async def patch_base(
    tx: Tx,
    base_id: BaseId,
    *,
    name: str | None,
    chunking: dict[str, Any] | None,
    file_processor: str | None,
    on_restart: OnRestart | None,
    settings: Mapping[str, Any],
    acl: Sequence[str] | None = None,
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Base | None:
    """Change the fields that are given, and those of `settings`; None when the name is taken."""
    return await queries.maybe(
        tx,
        Base,
        "patch_base",
        id=base_id,
        name=name,
        chunking=None if chunking is None else Jsonb(chunking),
        file_processor=file_processor,
        on_restart=on_restart,
        settings=Jsonb(dict(settings)),
        acl=None if acl is None else list(acl),
        description=description,
        metadata=None if metadata is None else Jsonb(dict(metadata)),
    )


async def set_base_status(
    tx: Tx, base_id: BaseId, status: BaseStatus, code: str | None = None, message: str | None = None
) -> Base | None:
    """ready ↔ failed; None when the base is being deleted."""
    return await queries.maybe(
        tx, Base, "set_base_status", id=base_id, status=str(status), code=code, message=message
    )


async def mark_base_busy(tx: Tx, base_id: BaseId) -> None:
    """Note that a base has work again: it is announced as ready once that is done."""
    await queries.run(tx, "mark_base_busy", base=base_id)


async def mark_base_deleting(tx: Tx, base_id: BaseId) -> bool:
    """Hide the base for good; False when it was hidden already."""
    return bool(await queries.values(tx, "mark_base_deleting", id=base_id))


async def drop_base(tx: Tx, base_id: BaseId) -> None:
    """Remove the row of a base; its items and chunks have been removed before, in batches."""
    await queries.run(tx, "drop_base", id=base_id)


# ── items: changes that leave the status alone ───────────────────────────────────────────────────────────


async def set_acl(tx: Tx, item_id: ItemId, acl: Sequence[str] | None) -> None:
    """Give an item, and all below it without an access list of their own, this list; None: inherit from above."""
    await queries.run(tx, "set_acl", id=item_id, acl=None if acl is None else list(acl))


async def set_metadata(tx: Tx, item_id: ItemId, metadata: dict[str, Any], *, keep_tags: bool = False) -> None:
    """Replace the metadata of an item. With `keep_tags`, for metadata from a source: the tags that people gave it stay."""
    await queries.run(tx, "set_metadata", id=item_id, metadata=Jsonb(metadata), keep_tags=keep_tags)


async def rename_records(tx: Tx, container: ItemId, new_keys: Mapping[str, str]) -> None:
    """Give records below a container other source keys: their documents have other ids in their tool now."""
    await queries.run(
        tx, "rename_records", container=container, old_keys=list(new_keys), new_keys=list(new_keys.values())
    )


async def lock_live_version(tx: Tx, item_id: ItemId, version: int) -> bool:
    """Lock an item until the transaction ends; False when its live version is another one."""
    return bool(await queries.values(tx, "lock_live_version", item=item_id, version=version))


async def add_chunk_count(tx: Tx, item_id: ItemId, chunks: int) -> None:
    """Note that the live version of an item became longer."""
    await queries.run(tx, "add_chunk_count", item=item_id, chunks=chunks)


async def record_progress(tx: Tx, documents: Sequence[dict[str, Any]]) -> None:
    """Record how far documents are; only for those whose job's lease is still held."""
    await queries.run(tx, "record_progress", documents=json.dumps(documents))


async def drop_stale_progress(tx: Tx) -> int:
    """Drop the progress of work that ended a while ago."""
    return await queries.run(tx, "drop_stale_progress")


# ── items: removal ───────────────────────────────────────────────────────────────────────────────────────


async def removable_items(tx: Tx, roots: Sequence[ItemId], limit: int) -> list[ItemId]:
    """Childless items of subtrees that are being deleted; none when all are removed."""
    return await queries.values(tx, "removable_items", roots=list(roots), limit=limit)


async def childless_items(tx: Tx, base_id: BaseId, limit: int) -> list[ItemId]:
    """Childless items of a base in any state; none when all are removed."""
    return await queries.values(tx, "childless_items", base=base_id, limit=limit)


async def lock_items(tx: Tx, ids: Sequence[ItemId]) -> list[ItemId]:
    """Lock those of the items that still exist, until the transaction ends. In the order of their ids: two removals may
    meet in one subtree."""
    return await queries.values(tx, "lock_items", ids=list(ids))


@dataclass(frozen=True)
class DeletedItems:
    """How many items were deleted, and which contents and blobs they used."""

    items: int
    contents: list[bytes]
    blobs: list[bytes]


async def delete_items(tx: Tx, ids: Sequence[ItemId]) -> DeletedItems:
    """Delete childless items and, by foreign key, their versions; the caller collects what they used."""
    return await queries.one(tx, DeletedItems, "delete_items", ids=list(ids))


# ── items: questions ─────────────────────────────────────────────────────────────────────────────────────


async def find_item(tx: Tx | Reads, item_id: ItemId, viewer: Viewer = ADMIN) -> Item | None:
    """The item of this id, unless it is being deleted or hidden from the viewer."""
    return await queries.maybe(
        tx, Item, "find_item", id=item_id, principals=viewer.principals, org=viewer.org
    )


async def read_item(reads: Reads, item_id: ItemId, viewer: Viewer, key: ApiKey | None) -> Item | None:
    """As `find_item`; with `key`, None too when the key was changed, was revoked or has expired since it was looked up."""
    return await queries.maybe(
        reads,
        Item,
        "read_item",
        id=item_id,
        principals=viewer.principals,
        org=viewer.org,
        **_key_parameters(key),
    )


async def read_roots(
    reads: Reads, base_id: BaseId, viewer: Viewer, key: ApiKey | None, *, limit: int, after: ItemId | None
) -> list[Item]:
    """The roots of a base after a cursor, as `list_items`; with `key`, none when the key was changed, was revoked or has
    expired since it was looked up."""
    return await queries.many(
        reads,
        Item,
        "read_roots",
        base=base_id,
        limit=limit,
        after=after or _BEFORE_ALL,
        principals=viewer.principals,
        org=viewer.org,
        **_key_parameters(key),
    )


def _key_parameters(key: ApiKey | None) -> dict[str, Any]:
    return {"key": None if key is None else key.id, "key_as_of": None if key is None else key.updated_at}


async def find_items(tx: Tx, ids: Sequence[ItemId], org: OrgId | None = None) -> list[Item]:
    """The items of these ids in any state; with `org`, those of that organisation."""
    return await queries.many(tx, Item, "find_items", ids=list(ids), org=org)


@dataclass(frozen=True)
class ItemChange:
    """An item that changed, and when."""

    id: ItemId
    base_id: BaseId
    updated_at: datetime


async def changes_watermark(tx: Tx) -> datetime:
    """The time since which changes may not all be visible yet, because their transactions have not committed."""
    return (await queries.values(tx, "changes_watermark"))[0]


async def item_changes(
    tx: Tx, since: datetime, bases: Sequence[UUID] | None, *, limit: int = 10_000
) -> list[ItemChange]:
    """Items that changed since a watermark, in these bases or in all; the newest, when there are more than `limit`."""
    return await queries.many(
        tx, ItemChange, "item_changes", since=since, bases=None if bases is None else list(bases), limit=limit
    )


async def note_text(tx: Tx, item_id: ItemId) -> str | None:
    """A note's text."""
    texts = await queries.values(tx, "note_text", id=item_id)
    return texts[0] if texts else None


async def item_blob_hash(tx: Tx, item_id: ItemId) -> bytes | None:
    """The hash of an uploaded file's bytes."""
    hashes = await queries.values(tx, "item_blob_hash", id=item_id)
    return hashes[0] if hashes else None


async def set_suggested_embedder(tx: Tx, base_id: BaseId, embedder: str | None) -> None:
    """Note which embedder was suggested for a base; None if none is any more."""
    await queries.run(tx, "set_suggested_embedder", base=base_id, embedder=embedder)
