"""Every change of an item's status: one function and one statement each, in the caller's transaction.

    from                     to                  function                       called by
    completed | failed       active              request_version                reindex, recover
    any but deleting         active              replace_item                   add with onConflict=replace
    any but deleting         active | failed     request_listed_versions        a container's listing
    any but deleting         active | failed     request_changed_versions       a comparison of a folder with the disk
    any but deleting         processing          request_attachment_versions    the reading of a new version
    active | failed          preparing | …       requeue_version                retry of a dead job
    active | failed          processing          begin_listing                  a container's listing
    active | failed          reading             begin_reading                  the worker that claimed the job
    reading                  embedding           begin_embedding                the same worker, once there are chunks
    active | failed          completed           publish_versions               the worker, when every chunk is written
    active | failed          completed           finish_unchanged               the worker, when nothing changed
    active | failed          failed              fail_version                   a dead job
    active                   failed              abandon                        cancel
    active                   failed              fail_interrupted               recover
    any but deleting         failed              dismiss                        dismiss
    any                      deleting            mark_deleting                  delete
    of its children          their sum           derive_status                  all of the above, for containers

Active is `preparing` for a container and `processing` for a leaf. A function that takes a version changes nothing when
the item wants another version by now, or is being deleted. Containers above a changed item are derived in the same
transaction: by the function itself, or by its caller where it files many items at once.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.catalog.base import RenderChoice
from gristmill.catalog.item import Item, ItemId, NewItem
from gristmill.catalog.store import queries
from gristmill.db import Tx

# ── a new version is requested ───────────────────────────────────────────────────────────────────────────


async def request_version(tx: Tx, ids: Sequence[ItemId], cause: UUID) -> list[Item]:
    """Request a new version of those items that are completed or failed; the live version stays searchable."""
    items = await queries.many(tx, Item, "request_version", ids=list(ids), cause=cause)
    await derive_statuses_above(tx, [item.id for item in items])
    return items


async def replace_item(tx: Tx, item_id: ItemId, new: NewItem, cause: UUID) -> Item | None:
    """Give an item new contents, and new metadata if there is any, and request a version of them."""
    return await queries.maybe(
        tx,
        Item,
        "replace_item",
        id=item_id,
        title=new.title,
        titled_by_source=new.titled_by_source,
        source=Jsonb(new.source),
        blob=new.blob,
        body=new.body,
        size=new.size_bytes,
        metadata=Jsonb(new.metadata) if new.metadata else None,
        chunking=Jsonb(new.chunking),
        cause=cause,
    )


async def request_listed_versions(tx: Tx, children: Sequence[tuple[ItemId, NewItem, int]]) -> list[Item]:
    """Request new versions of those children that this version of their container lists for the first time."""
    if not children:
        return []
    return await queries.many(
        tx,
        Item,
        "request_listed_versions",
        ids=[item_id for item_id, _, _ in children],
        versions=[version for _, _, version in children],
        sizes=[new.size_bytes for _, new, _ in children],
        codes=[new.error.code if new.error else None for _, new, _ in children],
        messages=[new.error.message if new.error else None for _, new, _ in children],
        fingerprints=[new.fingerprint for _, new, _ in children],
    )


async def request_changed_versions(
    tx: Tx, files: Sequence[tuple[ItemId, NewItem]], cause: UUID
) -> list[Item]:
    """Request new versions of files that have changed on the disk. Their containers are derived by the caller."""
    if not files:
        return []
    return await queries.many(
        tx,
        Item,
        "request_changed_versions",
        cause=cause,
        ids=[item_id for item_id, _ in files],
        sizes=[new.size_bytes for _, new in files],
        fingerprints=[new.fingerprint for _, new in files],
        codes=[new.error.code if new.error else None for _, new in files],
        messages=[new.error.message if new.error else None for _, new in files],
    )


class AttachmentBytes(Protocol):
    """The bytes that a document's new version has for one of its attachments."""

    @property
    def blob(self) -> bytes:
        """The blob that holds them."""
        ...

    @property
    def size(self) -> int:
        """How many there are."""
        ...


async def request_attachment_versions(
    tx: Tx, attachments: Sequence[tuple[ItemId, AttachmentBytes]], version: int
) -> list[Item]:
    """Request new versions of items that are attachments, made from these bytes."""
    if not attachments:
        return []
    return await queries.many(
        tx,
        Item,
        "request_attachment_versions",
        version=version,
        ids=[item_id for item_id, _ in attachments],
        blobs=[attachment.blob for _, attachment in attachments],
        sizes=[attachment.size for _, attachment in attachments],
    )


# ── a version is being made ──────────────────────────────────────────────────────────────────────────────


async def is_wanted(tx: Tx, item_id: ItemId, version: int) -> bool:
    """Whether a version is still wanted, and not published yet."""
    return bool(await queries.values(tx, "is_wanted", id=item_id, version=version))


async def lock_wanted_versions(tx: Tx, versions: Sequence[tuple[ItemId, int]]) -> set[ItemId]:
    """Those of the items that still want the version, locked until the transaction ends."""
    return set(
        await queries.values(
            tx,
            "lock_wanted_versions",
            ids=[item_id for item_id, _ in versions],
            versions=[version for _, version in versions],
        )
    )


async def requeue_version(tx: Tx, item_id: ItemId, version: int) -> bool:
    """Make an item active again for a version whose job is retried; False when the version is no longer wanted."""
    return bool(await queries.values(tx, "requeue_version", id=item_id, version=version))


async def begin_listing(tx: Tx, item_id: ItemId, version: int) -> bool:
    """Show a container as processing while its children are filed; False when the version is no longer wanted."""
    return bool(await queries.values(tx, "begin_listing", id=item_id, version=version))


@dataclass(frozen=True)
class DocumentToRead(Item):
    """A document that is to be read: its source, and what exists of its versions.

    `live_…` belongs to the version that is searchable, `begun_…` to what an earlier attempt at the wanted version has
    saved.
    """

    body: str | None = field(default=None)
    blob_name: str | None = None
    live_content: bytes | None = None
    live_recipe: str | None = None
    begun_content: bytes | None = None
    begun_recipe: str | None = None
    live_validators: dict[str, str] | None = None  # ETag and the like: for asking whether a page changed
    attachments_content: bytes | None = None  # the content whose attachments are its children
    holds: bool = False  # whether it has children at all
    render: RenderChoice | None = None  # pages: its own choice, or its container's; None: its base's
    titled_by_source: bool = False  # no one named it: its title is that of the document

    @property
    def depth(self) -> int:
        """How many documents it is nested in."""
        return int(self.source.get("depth", 0))


async def begin_reading(tx: Tx, versions: Sequence[tuple[ItemId, int]]) -> list[DocumentToRead]:
    """Show those documents as being read whose version is still wanted, and return them."""
    return await queries.many(
        tx,
        DocumentToRead,
        "begin_reading",
        ids=[item_id for item_id, _ in versions],
        versions=[version for _, version in versions],
    )


@dataclass(frozen=True)
class LeasedVersion:
    """A version of an item, and the lease of the job that makes it."""

    item_id: ItemId
    version: int
    job_id: UUID
    lease: UUID


async def begin_embedding(tx: Tx, versions: Sequence[LeasedVersion]) -> list[ItemId]:
    """Show documents as being embedded that have their first chunks; those that were shown as being read until now.

    Only for jobs whose lease is still held. A locked row is passed over: the caller tries again, if it is still needed.
    """
    if not versions:
        return []
    return await queries.values(
        tx,
        "begin_embedding",
        ids=[version.item_id for version in versions],
        versions=[version.version for version in versions],
        jobs=[version.job_id for version in versions],
        leases=[version.lease for version in versions],
    )


@dataclass(frozen=True)
class ExpandedContainer:
    """A version of a container whose children are all filed. `left_out` counts by reason what its source has and the
    listing passed over."""

    item_id: ItemId
    version: int
    left_out: Mapping[str, int]


async def mark_expanded(tx: Tx, containers: Sequence[ExpandedContainer]) -> None:
    """Note that all children of these versions are filed: from now on the containers' statuses are derived from them."""
    if containers:
        expanded = await queries.values(
            tx,
            "mark_expanded",
            ids=[container.item_id for container in containers],
            versions=[container.version for container in containers],
            left_out=[Jsonb(dict(container.left_out)) for container in containers],
        )
        await derive_statuses(tx, expanded)


async def is_expanded(tx: Tx, item_id: ItemId) -> bool:
    """Whether all children of a container's wanted version are filed."""
    return bool(await queries.values(tx, "is_expanded", id=item_id))


# ── a version ends ───────────────────────────────────────────────────────────────────────────────────────


async def publish_versions(tx: Tx, documents: Sequence[Mapping[str, Any]]) -> list[ItemId]:
    """Make versions the live ones; the items for which that happened. Their containers are derived by the caller."""
    return await queries.values(
        tx, "publish_versions", documents=json.dumps([dict(document) for document in documents])
    )


async def finish_unchanged(tx: Tx, versions: Sequence[tuple[ItemId, int]]) -> None:
    """Complete versions without making them: the source has not changed, so the live version stays. Their containers are derived
    by the caller."""
    ids = [item_id for item_id, _ in versions]
    await queries.values(tx, "finish_unchanged", ids=ids, versions=[version for _, version in versions])


async def fail_version(tx: Tx, item_id: ItemId, version: int, code: str, message: str) -> bool:
    """Fail a version for good; False when it is no longer wanted. The live version stays searchable."""
    is_failed = bool(
        await queries.values(tx, "fail_version", id=item_id, version=version, code=code, message=message)
    )
    if is_failed:
        await derive_status(tx, item_id)
        await derive_statuses_above(tx, [item_id])
    return is_failed


async def abandon(tx: Tx, item_id: ItemId, code: str, message: str) -> bool:
    """Fail an active item and make its version unwanted, so that whoever still makes it changes nothing; False when
    the item was completed or failed already."""
    is_failed = bool(await queries.values(tx, "abandon", id=item_id, code=code, message=message))
    if is_failed:
        await derive_status(tx, item_id)
        await derive_statuses_above(tx, [item_id])
    return is_failed


async def fail_interrupted(tx: Tx, ids: Sequence[ItemId]) -> None:
    """Fail active items that no job will move on, so that a new version of them can be requested."""
    await queries.values(tx, "fail_interrupted", ids=list(ids))


async def dismiss(tx: Tx, ids: Sequence[ItemId]) -> list[ItemId]:
    """Fail interrupted items for good: they are no longer offered for recovery; which items that were."""
    dismissed: list[ItemId] = await queries.values(tx, "dismiss", ids=list(ids))
    await derive_statuses_above(tx, dismissed)
    return dismissed


async def mark_deleting(tx: Tx, roots: Sequence[ItemId]) -> int:
    """Mark whole subtrees as deleting: they are hidden from now on; how many items."""
    marked = await queries.values(tx, "mark_deleting", roots=list(roots))
    await derive_statuses_above(tx, roots)
    return len(marked)


# ── containers ───────────────────────────────────────────────────────────────────────────────────────────


async def derive_status(tx: Tx, item_id: ItemId) -> None:
    """Derive the status of a container, and of those above it, from their children."""
    await queries.run(tx, "derive_status", id=item_id)


async def derive_statuses(tx: Tx, ids: Sequence[ItemId]) -> None:
    """Derive the statuses of containers, and of those above them, from their children."""
    if ids:
        await queries.run(tx, "derive_statuses", ids=list(ids))


async def derive_statuses_above(tx: Tx, ids: Sequence[ItemId]) -> None:
    """Derive the statuses of the containers above these items."""
    if ids:
        await queries.run(tx, "derive_statuses_above", ids=list(ids))


async def derive_statuses_after_end(tx: Tx, ids: Sequence[ItemId]) -> None:
    """Derive the statuses of the containers above documents that have ended; at most once in a transaction. While other documents
    of a container are queued, whoever ends them does it."""
    if ids:
        await queries.run(tx, "derive_statuses_after_end", ids=list(ids))
