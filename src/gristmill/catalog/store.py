"""The catalog's tables, one function per question or change, in the caller's transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.catalog.access import ADMIN, Viewer
from gristmill.catalog.base import Base, BaseId, OnRestart
from gristmill.catalog.item import Item, ItemId, NewItem
from gristmill.catalog.lifecycle import BaseStatus
from gristmill.db import Queries, Tx
from gristmill.organisation import LOCAL_ORG, OrgId

queries = Queries(__package__ or "gristmill.catalog")

# ── bases ────────────────────────────────────────────────────────────────────────────────────────────────


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
    )


async def lock_base(tx: Tx, base_id: BaseId) -> Base | None:
    """Be the only one who changes the base until the transaction ends; the base as it is then, unless it is
    being deleted. Two statements, for the second must see what was done before our turn came."""
    await queries.run(tx, "take_turn", base=base_id)
    return await find_base(tx, base_id)


async def lock_base_shared(tx: Tx, base_id: BaseId) -> None:
    """Write of the base's items while nobody changes the base; workers do so side by side."""
    await queries.run(tx, "share_turn", base=base_id)


async def lock_bases_shared(tx: Tx, bases: Sequence[BaseId]) -> None:
    """The same, for several bases."""
    await queries.run(tx, "share_turns", bases=sorted(set(bases)))


async def find_bases(tx: Tx, bases: Sequence[BaseId]) -> dict[BaseId, Base]:
    """Those of the bases that are not being deleted."""
    rows = await queries.many(tx, Base, "bases_of", ids=list(set(bases)))
    return {base.id: base for base in rows}


async def find_bases_by_embedder(tx: Tx, base_id: BaseId, embedder_identity: str, limit: int) -> list[BaseId]:
    """Bases of the same organisation whose vectors one embedder made, the newest first."""
    return await queries.values(tx, "bases_alike", base=base_id, identity=embedder_identity, limit=limit)


async def find_base(tx: Tx, base_id: BaseId, viewer: Viewer = ADMIN) -> Base | None:
    """The base of this id, unless it is being deleted, or these eyes see nothing of it."""
    return await queries.maybe(tx, Base, "base", id=base_id, eyes=viewer.principals, org=viewer.org)


async def has_hidden_items(tx: Tx, base_id: BaseId, viewer: Viewer) -> bool:
    """Whether there is, or could be, something in the base that is not for these eyes."""
    return (await queries.values(tx, "hides_something", base=base_id, eyes=viewer.principals))[0]


async def find_base_in_any_state(tx: Tx, base_id: BaseId) -> Base | None:
    """The base of this id, even while it is being deleted."""
    return await queries.maybe(tx, Base, "any_base", id=base_id)


async def find_base_by_name(tx: Tx, name: str, viewer: Viewer = ADMIN) -> Base | None:
    """The base of this name, whatever its case."""
    return await queries.maybe(tx, Base, "base_by_name", name=name, eyes=viewer.principals, org=viewer.org)


async def list_bases(
    tx: Tx, *, limit: int, after: BaseId | None = None, viewer: Viewer = ADMIN
) -> list[Base]:
    """Bases that these eyes see something of, in the order of their making."""
    return await queries.many(
        tx, Base, "bases", after=after, limit=limit, eyes=viewer.principals, org=viewer.org
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
) -> Base | None:
    """Change what is given, of `settings` too; None when the name is taken."""
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
    )


async def set_base_status(
    tx: Tx, base_id: BaseId, status: BaseStatus, code: str | None = None, message: str | None = None
) -> Base | None:
    """ready ↔ failed; None when the base is being deleted."""
    return await queries.maybe(
        tx, Base, "set_base_status", id=base_id, status=str(status), code=code, message=message
    )


async def mark_base_deleting(tx: Tx, base_id: BaseId) -> bool:
    """Hide the base for good; False when it was."""
    return bool(await queries.values(tx, "doom_base", id=base_id))


async def drop_base(tx: Tx, base_id: BaseId) -> None:
    """Remove the base and all that is left of it.

    Dropping its partition stops readers of all bases for a moment. Where one of them reads on and on, this gives
    up rather than have everybody else wait behind it, and its job tries again.
    """
    await queries.run(tx, "be_quick")
    await queries.run(tx, "drop_base", id=base_id)


# ── items: filing ────────────────────────────────────────────────────────────────────────────────────────


async def insert_items(
    tx: Tx,
    base_id: BaseId,
    parent_id: ItemId | None,
    new: Sequence[NewItem],
    *,
    listed_version: int = 0,
    cause: UUID | None = None,
) -> list[Item]:
    """File items under a parent, in order; `listed_version` is the parent's when its source lists them. Who asked
    for them is `cause`, or whoever asked for the parent."""
    return await queries.many(
        tx,
        Item,
        "insert_items",
        base=base_id,
        parent=parent_id,
        listed_version=listed_version,
        cause=cause,
        types=[item.type for item in new],
        titles=[item.title for item in new],
        statuses=[str(item.status) for item in new],
        sources=[Jsonb(item.source) for item in new],
        keys=[item.key for item in new],
        blobs=[item.blob for item in new],
        bodies=[item.body for item in new],
        sizes=[item.size_bytes for item in new],
        codes=[item.error.code if item.error else None for item in new],
        messages=[item.error.message if item.error else None for item in new],
        acls=[Jsonb(item.acl) for item in new],
        metadata=[Jsonb(item.metadata) for item in new],
    )


@dataclass(frozen=True)
class ExistingItem:
    """An item that is the same thing as the one at `place` in the question."""

    place: int
    id: ItemId
    status: str


async def find_existing(
    tx: Tx, base_id: BaseId, parent_id: ItemId | None, new: Sequence[NewItem]
) -> dict[int, ItemId]:
    """Which of `new` are filed under the parent already: their index, and the item."""
    rows = await queries.many(
        tx,
        ExistingItem,
        "same",
        base=base_id,
        parent=parent_id,
        types=[item.type for item in new],
        keys=[item.key for item in new],
    )
    return {row.place - 1: row.id for row in reversed(rows)}


async def replace_item(tx: Tx, item_id: ItemId, new: NewItem, cause: UUID) -> Item | None:
    """Give an item new contents and want a new version of it."""
    return await queries.maybe(
        tx,
        Item,
        "replace_item",
        id=item_id,
        title=new.title,
        source=Jsonb(new.source),
        blob=new.blob,
        body=new.body,
        size=new.size_bytes,
        cause=cause,
    )


async def request_listed_versions(
    tx: Tx, children: Sequence[tuple[ItemId, NewItem]], version: int
) -> list[Item]:
    """Want those children anew that `version` of their container lists and has not listed yet."""
    return await queries.many(
        tx,
        Item,
        "relist",
        version=version,
        ids=[item_id for item_id, _ in children],
        sizes=[new.size_bytes for _, new in children],
        codes=[new.error.code if new.error else None for _, new in children],
        messages=[new.error.message if new.error else None for _, new in children],
    )


async def has_children(tx: Tx, item_id: ItemId) -> bool:
    """Whether anything is filed below an item."""
    return (await queries.values(tx, "has_children", id=item_id))[0]


async def stale_children(tx: Tx, parent_id: ItemId, version: int) -> list[ItemId]:
    """Children that only earlier versions of their container listed."""
    return await queries.values(tx, "stale_children", parent=parent_id, version=version)


# ── items: questions ─────────────────────────────────────────────────────────────────────────────────────


async def find_item(tx: Tx, item_id: ItemId, viewer: Viewer = ADMIN) -> Item | None:
    """The item of this id, unless it is being deleted, or not for these eyes."""
    return await queries.maybe(tx, Item, "item", id=item_id, eyes=viewer.principals, org=viewer.org)


async def find_items(tx: Tx, ids: Sequence[ItemId], org: OrgId | None = None) -> list[Item]:
    """The items of these ids, whatever their state; with `org`, those of that organisation."""
    return await queries.many(tx, Item, "items_of", ids=list(ids), org=org)


async def list_items(
    tx: Tx,
    base_id: BaseId,
    *,
    limit: int,
    after: ItemId | None = None,
    parent: ItemId | None = None,
    everywhere: bool = False,
    under: ItemId | None = None,
    include_deleting: bool = False,
    status: str | None = None,
    type: str | None = None,  # noqa: A002
    title: str | None = None,
    viewer: Viewer = ADMIN,
) -> list[Item]:
    """Roots, children of `parent`, with `under` all below one item, or with `everywhere` all items, in the order
    of their making; none of a base that is being deleted or another organisation's."""
    return await queries.many(
        tx,
        Item,
        "items",
        base=base_id,
        limit=limit,
        after=after,
        parent=parent,
        everywhere=everywhere or under is not None,
        under=under,
        deleting=include_deleting,
        status=status,
        type=type,
        title=title,
        eyes=viewer.principals,
        org=viewer.org,
    )


async def root_source(tx: Tx, item_id: ItemId) -> dict[str, Any]:
    """The source of the container that somebody added, for one that its listing brought up."""
    sources = await queries.values(tx, "top_source", id=item_id)
    return sources[0] if sources else {}


async def set_acl(tx: Tx, item_id: ItemId, acl: Sequence[str] | None) -> None:
    """Give an item, and all below it without a list of its own, another list; None: the one above it."""
    await queries.run(tx, "set_acl", id=item_id, acl=None if acl is None else list(acl))


async def set_metadata(tx: Tx, item_id: ItemId, metadata: dict[str, Any]) -> None:
    """Replace what people say of an item."""
    await queries.run(tx, "set_metadata", id=item_id, metadata=Jsonb(metadata))


@dataclass(frozen=True)
class ItemChange:
    """An item that changed, and when."""

    id: ItemId
    base_id: BaseId
    updated_at: datetime


async def changes_watermark(tx: Tx) -> datetime:
    """From when on changes may still turn up: later ones are by transactions that have not written yet."""
    return (await queries.values(tx, "changes_mark"))[0]


async def item_changes(
    tx: Tx, since: datetime, bases: Sequence[UUID] | None, *, limit: int = 10_000
) -> list[ItemChange]:
    """Items that changed since a mark, in these bases or in all; the newest, when there are more than `limit`."""
    return await queries.many(
        tx, ItemChange, "changes", since=since, bases=None if bases is None else list(bases), limit=limit
    )


async def outermost_ids(tx: Tx, ids: Sequence[ItemId]) -> list[ItemId]:
    """Those of the items that have none of the others above them."""
    return await queries.values(tx, "outermost", ids=list(ids))


@dataclass(frozen=True)
class UnfinishedItem:
    """An item that is neither completed nor failed, at or below one of the roots that were asked about; `whole`
    when it is the root, and all that its source has is being rebuilt."""

    id: ItemId
    title: str
    status: str
    root: ItemId
    whole: bool


async def unfinished_items(tx: Tx, roots: Sequence[ItemId], limit: int = 100) -> list[UnfinishedItem]:
    """What keeps these subtrees from being at rest, at most `limit` a root; what is being deleted comes first."""
    return await queries.many(tx, UnfinishedItem, "unrested", roots=list(roots), limit=limit)


async def user_added_descendants(tx: Tx, root: ItemId) -> list[ItemId]:
    """What people put below a container, at any depth."""
    return await queries.values(tx, "added_below", root=root)


async def has_deleting_descendant(tx: Tx, root: ItemId) -> bool:
    """Whether something at or below an item is being deleted."""
    return (await queries.values(tx, "deleting_below", root=root))[0]


async def note_text(tx: Tx, item_id: ItemId) -> str | None:
    """A note's text."""
    texts = await queries.values(tx, "body", id=item_id)
    return texts[0] if texts else None


async def item_blob_name(tx: Tx, item_id: ItemId) -> str | None:
    """The name of an uploaded file's bytes in the store."""
    names = await queries.values(tx, "blob_of", id=item_id)
    return names[0] if names else None


@dataclass(frozen=True)
class _ItemBlob:
    id: ItemId
    name: str


async def item_blob_names(tx: Tx, ids: Sequence[ItemId]) -> dict[ItemId, str]:
    """The names of uploaded files' bytes in the store, for those of the items that are such."""
    return {row.id: row.name for row in await queries.many(tx, _ItemBlob, "blobs_of", ids=list(ids))}


async def item_blob_hash(tx: Tx, item_id: ItemId) -> bytes | None:
    """The hash of an uploaded file's bytes."""
    hashes = await queries.values(tx, "blob_hash_of", id=item_id)
    return hashes[0] if hashes else None
